//! A trace in another order.

use super::preemption;
use unsnarl_model::{Event, Op, Schedule, Segment, Trace};

/// A new order of a trace's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reordering {
    /// Who runs, and for how many events.
    pub schedule: Schedule,
    /// Context switches of the trace as it was.
    pub before: u64,
    /// Context switches of the new order.
    pub after: u64,
    /// No order that keeps all dependences has fewer than this.
    pub least: u64,
    /// Whether no order that keeps all dependences has fewer than the new one.
    pub minimal: bool,
}

impl Reordering {
    /// The numbers that the events have now, in the new order.
    ///
    /// # Panics
    /// If these are not the events that the order was made for.
    #[must_use]
    pub fn permutation(&self, events: &[Event]) -> Vec<usize> {
        let mut of_thread: Vec<Vec<usize>> = Vec::new();
        for (at, event) in events.iter().enumerate() {
            let thread = event.thread.index();
            if of_thread.len() <= thread {
                of_thread.resize_with(thread + 1, Vec::new);
            }
            of_thread[thread].push(at);
        }
        let mut next = vec![0; of_thread.len()];
        let mut order = Vec::with_capacity(events.len());
        for &Segment { thread, points } in &self.schedule.segments {
            let from = next[thread.index()];
            next[thread.index()] += points as usize;
            order.extend_from_slice(&of_thread[thread.index()][from..next[thread.index()]]);
        }
        order
    }

    /// The trace in the new order. How it ended stays as it was, which one replay can confirm.
    ///
    /// # Panics
    /// If this is not the trace that the order was made for.
    #[must_use]
    pub fn apply(&self, trace: &Trace) -> Trace {
        reordered(trace, &self.permutation(&trace.events))
    }
}

/// The trace with only these of its events, in this order.
pub(crate) fn reordered(trace: &Trace, order: &[usize]) -> Trace {
    let mut place = vec![usize::MAX; trace.events.len()];
    order.iter().enumerate().for_each(|(new, &old)| place[old] = new);
    let moved = |old: u64| {
        let new = usize::try_from(old).ok().and_then(|old| place.get(old).copied());
        new.filter(|&new| new != usize::MAX).map_or(u64::MAX, |new| new as u64)
    };
    let mut events: Vec<Event> = order
        .iter()
        .map(|&old| {
            let event = trace.events[old];
            match event.op {
                // These name the event that woke them.
                Op::CondWake | Op::FutexWoken => Event { value: moved(event.value), ..event },
                _ => event,
            }
        })
        .collect();
    preemption::mark(&mut events, &trace.events);
    let mut warnings = trace.warnings.clone();
    for warning in &mut warnings {
        let before = &trace.events[..trace.events.len().min(warning.at as usize)];
        let own = before.iter().rposition(|event| event.thread == warning.thread);
        warning.at = own.map_or(0, |own| moved(own as u64).wrapping_add(1));
    }
    Trace { events, warnings, ..trace.clone() }
}
