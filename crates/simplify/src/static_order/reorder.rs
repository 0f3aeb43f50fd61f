//! Puts a trace into another order.

use unsnarl_model::{Event, Schedule, Segment, Trace};
use unsnarl_semantics::preemption::{ExecutionFacts, mark_preemptions};

/// A new order of a trace's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reordering {
    /// The new schedule.
    pub schedule: Schedule,
    /// The context switches of the original trace.
    pub before: u64,
    /// The context switches of the new order.
    pub after: u64,
    /// A lower bound on the context switches of any order that keeps all dependences.
    pub least: u64,
    /// True if no order that keeps all dependences has fewer context switches than the new one.
    pub minimal: bool,
}

impl Reordering {
    /// Returns the original numbers of the events, in the new order.
    ///
    /// # Panics If these are not the events that the order was made for.
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

    /// Returns the trace in the new order. The outcome is kept, which one replay can confirm.
    ///
    /// # Panics
    /// Returns an error if this is not the trace that the order was made for.
    #[must_use]
    pub fn apply(&self, trace: &Trace) -> Trace {
        reordered(trace, &self.permutation(&trace.events))
    }
}

/// Returns the trace with only these of its events, in this order.
pub(crate) fn reordered(trace: &Trace, order: &[usize]) -> Trace {
    let place = places(trace.events.len(), order);
    let mut warnings = trace.warnings.clone();
    for warning in &mut warnings {
        let before = &trace.events[..trace.events.len().min(warning.at as usize)];
        let own = before.iter().rposition(|event| event.thread == warning.thread);
        warning.at = own.map_or(0, |own| place(own as u64).map_or(0, |new| new + 1));
    }
    Trace { events: moved_events(trace, order), warnings, ..trace.clone() }
}

/// Returns these of the trace's events in this order.
pub(crate) fn moved_events(trace: &Trace, order: &[usize]) -> Vec<Event> {
    let events = &trace.events;
    let place = places(events.len(), order);
    let moved = |&old: &usize| {
        let event = events[old];
        if event.op.has_waker() { event.with_waker(event.waker().and_then(&place)) } else { event }
    };
    let mut moved: Vec<Event> = order.iter().map(moved).collect();
    mark_preemptions(&mut moved, ExecutionFacts::of(events), &trace.outcome.waits);
    moved
}

/// Returns a map from each event's old number to its new one, if it has one.
fn places(events: usize, order: &[usize]) -> impl Fn(u64) -> Option<u64> {
    let mut place = vec![None; events];
    order.iter().enumerate().for_each(|(new, &old)| place[old] = Some(new as u64));
    move |old| place.get(usize::try_from(old).ok()?).copied()?
}
