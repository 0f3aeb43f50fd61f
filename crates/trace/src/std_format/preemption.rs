//! Determines which context switches preempted a thread that could have continued.
//!
//! STD does not say. A thread could have continued if it ran again later and its next operation was already
//! enabled at the switch: the lock was free, the thread to join had ended, the signal had come.

use std::collections::HashMap;
use unsnarl_model::{Event, Flags, Op, ThreadIx};
use unsnarl_semantics::Holders;

/// Marks the preemptions among these events.
pub(super) fn mark(events: &mut [Event]) {
    let next = next_of_same_thread(events);
    let last = events.iter().enumerate().map(|(i, event)| (event.thread, i as u64)).collect();
    let mut marking = PreemptionMarker::new(last);
    for i in 0..events.len() {
        let upcoming = i.checked_sub(1).and_then(|before| next[before]).map(|later| events[later]);
        marking.mark(&mut events[i], upcoming);
    }
}

/// Returns, for each event, the next one of its thread.
fn next_of_same_thread(events: &[Event]) -> Vec<Option<usize>> {
    let mut upcoming = HashMap::new();
    let mut next: Vec<_> =
        events.iter().enumerate().rev().map(|(i, event)| upcoming.insert(event.thread, i)).collect();
    next.reverse();
    next
}

/// Marks preemptions in a stream of events.
pub(super) struct PreemptionMarker {
    holders: Holders,
    /// By thread: the number of its last event.
    last: HashMap<ThreadIx, u64>,
    /// The number of events so far.
    now: u64,
    running: Option<ThreadIx>,
}

impl PreemptionMarker {
    pub(super) fn new(last: HashMap<ThreadIx, u64>) -> Self {
        Self { holders: Holders::default(), last, now: 0, running: None }
    }

    /// Processes the next event, given the next operation of the thread that ran before it.
    pub(super) fn mark(&mut self, event: &mut Event, upcoming: Option<Event>) {
        let is_switch = self.running.is_some_and(|running| running != event.thread);
        if is_switch && upcoming.is_some_and(|upcoming| self.could_run(&upcoming)) {
            event.flags = event.flags | Flags::PREEMPTS;
        }
        self.holders.step(event);
        self.running = Some(event.thread);
        self.now += 1;
    }

    /// Returns whether the event is enabled now.
    fn could_run(&self, event: &Event) -> bool {
        let free = |lock| self.holders.of(lock).iter().all(|&holder| holder == event.thread);
        match event.op {
            Op::Lock => free(event.addr),
            Op::CondWake => {
                event.waker().is_none_or(|waker| waker < self.now) && event.waited_mutex().is_none_or(free)
            }
            Op::Join => u16::try_from(event.value)
                .is_ok_and(|child| self.last.get(&ThreadIx(child)).is_none_or(|&last| last < self.now)),
            _ => true,
        }
    }
}
