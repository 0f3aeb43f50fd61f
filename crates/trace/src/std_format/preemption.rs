//! Which context switches took the processor from a thread that could have gone on.
//!
//! STD does not say. A thread could have gone on if it went on later, and what it did then was
//! possible already at the switch: the lock was free, the thread to join had ended, the signal
//! had come.

use std::collections::HashMap;
use unsnarl_model::{Event, Flags, Holders, Op, ThreadIx};

pub(super) fn mark(events: &mut [Event]) {
    let next = next_of_same_thread(events);
    let last = events.iter().enumerate().map(|(i, event)| (event.thread, i)).collect::<HashMap<_, _>>();
    let mut holders = Holders::default();
    let mut waiting = HashMap::new();
    for i in 0..events.len() {
        if i > 0 && events[i].thread != events[i - 1].thread {
            let could =
                next[i - 1].is_some_and(|later| could_run(&events[later], i, &holders, &waiting, &last));
            if could {
                events[i].flags = events[i].flags | Flags::PREEMPTS;
            }
        }
        if events[i].op == Op::CondWait {
            waiting.insert(events[i].thread, events[i].value);
        }
        holders.step(&events[i]);
    }
}

/// For each event the next one of its thread.
fn next_of_same_thread(events: &[Event]) -> Vec<Option<usize>> {
    let mut upcoming = HashMap::new();
    let mut next: Vec<_> =
        events.iter().enumerate().rev().map(|(i, event)| upcoming.insert(event.thread, i)).collect();
    next.reverse();
    next
}

/// Whether the event was possible before event number `now`.
fn could_run(
    event: &Event,
    now: usize,
    holders: &Holders,
    waiting: &HashMap<ThreadIx, u64>,
    last: &HashMap<ThreadIx, usize>,
) -> bool {
    let free = |lock| holders.of(lock).iter().all(|&holder| holder == event.thread);
    match event.op {
        Op::Lock => free(event.addr),
        Op::CondWake => {
            let woken = event.value == u64::MAX || event.value < now as u64;
            woken && waiting.get(&event.thread).is_none_or(|&mutex| free(mutex))
        }
        Op::Join => u16::try_from(event.value)
            .is_ok_and(|child| last.get(&ThreadIx(child)).is_none_or(|&last| last < now)),
        _ => true,
    }
}
