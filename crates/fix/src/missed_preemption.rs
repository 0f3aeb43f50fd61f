//! Checks whether a run of another build was preempted where the recording was.

use crate::{Stops, transfer_schedule::detour};
use unsnarl_model::{Flags, ThreadIx, Trace};

/// A preemption of the recording that did not occur in the other run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissedPreemption {
    /// The number of the recorded preempting event.
    pub event: usize,
    /// The obstacle.
    pub reason: MissReason,
}

/// The reason why a preemption did not occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissReason {
    /// The other build has no counterpart of this recorded event.
    Gone(usize),
    /// The preempted thread had to continue before the others had done everything that they did in the
    /// recording. This event of the other run is what one of them had to wait for; `None` if that thread had
    /// no more events.
    Waits(Option<usize>),
}

/// Returns the first preemption of `old` that did not occur in `new`; `None` if all of them did.
///
/// A preemption occurred if the preempted thread executed its earlier events, and then nothing until the
/// others had executed everything that they did in the recording while it was preempted; and if its next
/// event is the same. `stops` determines where it is stopped among the new events in between.
#[must_use]
pub fn missed_preemption(
    old: &Trace,
    new: &Trace,
    matched: &[Option<usize>],
    stops: &Stops,
) -> Option<MissedPreemption> {
    let preempting = (1..old.events.len()).filter(|&at| old.events[at].flags.has(Flags::PREEMPTS));
    preempting.into_iter().find_map(|event| {
        miss_reason(old, new, matched, stops, event).map(|reason| MissedPreemption { event, reason })
    })
}

fn miss_reason(
    old: &Trace,
    new: &Trace,
    matched: &[Option<usize>],
    stops: &Stops,
    event: usize,
) -> Option<MissReason> {
    let stopped = old.events[event - 1].thread;
    let Some(before) = matched[event - 1] else { return Some(MissReason::Gone(event - 1)) };
    let further = stops.get(&event).copied().unwrap_or(0);
    let before = detour(old, new, matched, event - 1).take(further).last().unwrap_or(before);
    let resumed = (event..old.events.len()).find(|&at| old.events[at].thread == stopped);
    if let Some(resumed) = resumed
        && matched[resumed].is_none()
    {
        return Some(MissReason::Gone(resumed));
    }
    let meanwhile = event..resumed.unwrap_or(old.events.len());
    // The preempting event must have occurred; later events that the failure prevented are no part of the
    // schedule.
    let Some(_) = matched[event] else { return Some(MissReason::Gone(event)) };
    let last = meanwhile.clone().filter_map(|at| matched[at]).max()?;
    let goes_on = |at: &usize| new.thread_id(new.events[*at].thread) == old.thread_id(stopped);
    let early = (before + 1..last).find(goes_on)?;
    // The first operation of the others that had not occurred yet when the preempted thread continued.
    let missed = meanwhile.filter_map(|at| matched[at]).filter(|&at| at > early).min()?;
    let waits = |thread: ThreadIx| (early..=missed).find(|&at| new.events[at].thread == thread);
    Some(MissReason::Waits(waits(new.events[missed].thread)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::{Event, Op, Order, SiteIx, Thread, ThreadId};

    /// Builds a trace of (thread, label) with preemptions before the events with these numbers, and its
    /// labels.
    fn trace(steps: &[(u16, u64)], preempted: &[usize]) -> (Trace, Vec<u64>) {
        let threads = (0..2).map(|n| Thread { id: ThreadId::from_path(vec![n]), ..Thread::default() });
        let event = |(number, &(thread, label)): (usize, &(u16, u64))| Event {
            thread: ThreadIx(thread),
            op: Op::Write,
            flags: if preempted.contains(&number) { Flags::PREEMPTS } else { Flags::NONE },
            order: Order::SeqCst,
            site: SiteIx(0),
            context: 0,
            size: 4,
            addr: 0,
            value: label,
        };
        let trace = Trace {
            threads: threads.collect(),
            events: steps.iter().enumerate().map(event).collect(),
            ..Trace::default()
        };
        (trace, steps.iter().map(|step| step.1).collect())
    }

    fn reason(old: (&[(u16, u64)], &[usize]), new: &[(u16, u64)]) -> Option<MissReason> {
        stopped_later(old, new, 0)
    }

    fn stopped_later(
        old: (&[(u16, u64)], &[usize]),
        new: &[(u16, u64)],
        further: usize,
    ) -> Option<MissReason> {
        let stops = old.1.iter().map(|&event| (event, further)).collect();
        let ((old, old_labels), (new, new_labels)) = (trace(old.0, old.1), trace(new, &[]));
        let matched = crate::align(&old, &old_labels, &new, &new_labels, crate::Preference::First);
        missed_preemption(&old, &new, &matched, &stops).map(|missed_preemption| missed_preemption.reason)
    }

    /// Thread 0 reads (1) and writes (2); thread 1 does the same (11, 12) in between.
    const LOST_UPDATE: (&[(u16, u64)], &[usize]) = (&[(0, 1), (1, 11), (1, 12), (0, 2)], &[1]);

    #[test]
    fn same_order_makes_the_preemption() {
        assert_eq!(reason(LOST_UPDATE, LOST_UPDATE.0), None);
        assert_eq!(reason(LOST_UPDATE, &[(0, 7), (0, 1), (1, 11), (1, 8), (1, 12), (0, 2), (0, 9)]), None);
    }

    #[test]
    fn lock_makes_the_preemption_unreachable() {
        // 5 and 6 are the lock and the unlock of thread 0, 15 and 16 those of 1.
        let locked = [(0, 5), (0, 1), (0, 2), (0, 6), (1, 15), (1, 11), (1, 12), (1, 16)];
        assert_eq!(reason(LOST_UPDATE, &locked), Some(MissReason::Waits(Some(4))));
    }

    #[test]
    fn thread_may_be_stopped_anywhere_before_its_next_event() {
        // 5 and 6 are a lock and an unlock around the first access, 7 and 8 around the second.
        let run = [(0, 5), (0, 1), (0, 6), (1, 15), (1, 11), (1, 12), (0, 7), (0, 2), (0, 8)];
        assert_eq!(stopped_later(LOST_UPDATE, &run, 1), None);
        assert!(matches!(stopped_later(LOST_UPDATE, &run, 0), Some(MissReason::Waits(_))));
    }

    #[test]
    fn removed_operation_is_named() {
        assert_eq!(reason(LOST_UPDATE, &[(0, 3), (1, 13)]), Some(MissReason::Gone(0)));
        assert_eq!(reason(LOST_UPDATE, &[(0, 1), (1, 11), (1, 12)]), Some(MissReason::Gone(3)));
        assert_eq!(reason(LOST_UPDATE, &[(0, 1), (0, 2)]), Some(MissReason::Gone(1)));
    }

    #[test]
    fn permanently_stopped_thread_stays_stopped() {
        // Thread 0 acquires lock 1, thread 1 acquires lock 12: each waits for the other's.
        let deadlock: (&[(u16, u64)], &[usize]) = (&[(0, 1), (1, 12)], &[1]);
        assert_eq!(reason(deadlock, &[(0, 1), (1, 12), (0, 2)]), None);
        // With the same order everywhere: thread 1 acquires lock 11 first.
        assert_eq!(reason(deadlock, &[(0, 1), (0, 2), (1, 11), (1, 12)]), Some(MissReason::Waits(Some(2))));
    }
}
