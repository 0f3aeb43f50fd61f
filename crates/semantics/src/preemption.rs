//! Determines from the events which context switches are preemptions.
//!
//! A run records that itself (`Flags::PREEMPTS`). For an order of events that has not been executed, and for
//! traces of other tools, it follows from each thread's next operation: whether that was enabled when another
//! thread continued. For a thread without further events, its final wait decides; if it does not wait, all
//! that is known is whether it was preempted in the executed order.

use crate::{Enabled, Expectations, Machine};
use alloc::{collections::BTreeMap, vec::Vec};
use unsnarl_model::{Event, Flags, ThreadIx, Wait};

/// Facts from the executed order that hold for every other order.
#[derive(Clone, Debug, Default)]
pub struct ExecutionFacts {
    /// The initial state and the events of the run, as far as other orders need them.
    pub expectations: Expectations,
    /// For each thread, whether it was preempted after its last event.
    preempted: BTreeMap<ThreadIx, bool>,
    last: Option<ThreadIx>,
}

impl ExecutionFacts {
    /// Collects the facts from all events of a run.
    #[must_use]
    pub fn of(executed: &[Event]) -> Self {
        let mut facts = Self::default();
        executed.iter().for_each(|event| facts.note(event));
        facts
    }

    /// Processes one more event.
    pub fn note(&mut self, event: &Event) {
        self.expectations.note(event);
        if let Some(last) = self.last.replace(event.thread)
            && (last != event.thread || self.preempted.contains_key(&last))
        {
            self.preempted.insert(last, event.flags.has(Flags::PREEMPTS));
        }
    }
}

/// Determines which events preempt, event by event.
#[derive(Debug)]
pub struct PreemptionMarker<'w> {
    machine: Machine,
    preempted: BTreeMap<ThreadIx, bool>,
    waits: &'w [Wait],
    last: Option<ThreadIx>,
}

impl<'w> PreemptionMarker<'w> {
    /// Creates a marker for another order of these events. `waits` has the threads that were blocked at the end.
    #[must_use]
    pub fn new(executed: ExecutionFacts, waits: &'w [Wait]) -> Self {
        let machine = Machine::new(executed.expectations);
        Self { machine, preempted: executed.preempted, waits, last: None }
    }

    /// Returns the next event, marked if it preempts. `upcoming` is the next event of the thread that ran
    /// before, if any.
    pub fn marked(&mut self, event: Event, upcoming: Option<&Event>) -> Event {
        let left = self.last.replace(event.thread).filter(|&last| last != event.thread);
        let preempts = left.is_some_and(|thread| {
            match (upcoming, self.waits.iter().find(|wait| wait.thread == thread)) {
                (Some(next), _) => {
                    !next.op.yields() && may_continue(self.machine.enabled(&self.machine.decode(next)))
                }
                (None, Some(wait)) => may_continue(self.machine.enabled_wait(wait)),
                (None, None) => self.preempted.get(&thread).copied().unwrap_or(false),
            }
        });
        self.machine.follow(&event);
        let others = Flags(event.flags.0 & !Flags::PREEMPTS.0);
        Event { flags: if preempts { others | Flags::PREEMPTS } else { others }, ..event }
    }
}

/// Returns whether the thread could have continued by itself.
const fn may_continue(enabled: Enabled) -> bool {
    matches!(enabled, Enabled::Yes | Enabled::Unknown)
}

/// Marks each preempting event among these, in this order.
pub fn mark_preemptions(events: &mut [Event], executed: ExecutionFacts, waits: &[Wait]) {
    let next = next_of_same_thread(events);
    let mut marker = PreemptionMarker::new(executed, waits);
    for at in 0..events.len() {
        let upcoming = at.checked_sub(1).and_then(|before| next[before]).map(|next| events[next]);
        events[at] = marker.marked(events[at], upcoming.as_ref());
    }
}

/// Returns, for each event, the next one of its thread.
fn next_of_same_thread(events: &[Event]) -> Vec<Option<usize>> {
    let mut upcoming = BTreeMap::new();
    let mut next: Vec<_> =
        events.iter().enumerate().rev().map(|(at, event)| upcoming.insert(event.thread, at)).collect();
    next.reverse();
    next
}
