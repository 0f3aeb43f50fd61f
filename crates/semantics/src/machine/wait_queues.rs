//! Waits on condition variables and futexes, and the wake-ups that signals leave.
//!
//! A signal wakes one of the threads that wait at that moment; which one is decided by the schedule. So each
//! thread that waited before the signal may take its wake-up, until one has. A broadcast wakes all of them.

use alloc::{collections::BTreeMap, vec::Vec};
use unsnarl_model::ThreadIx;

/// A wait that a thread has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CondOrFutexWait {
    /// The waiting thread.
    pub thread: ThreadIx,
    /// The address of the condition variable or futex.
    pub object: u64,
    /// The mutex that it released, if the object is a condition variable.
    pub mutex: Option<u64>,
    /// The number of the event that began it.
    pub since: u64,
    /// True if it may have been moved to another futex.
    requeued: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PendingWakeUps {
    object: u64,
    /// The number of the event that caused them.
    event: u64,
    /// The number of them that no thread has taken.
    left: u64,
    broadcast: bool,
}

/// All waits and wake-ups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitQueues {
    waits: BTreeMap<ThreadIx, CondOrFutexWait>,
    /// In the order of their events.
    wake_ups: Vec<PendingWakeUps>,
}

impl WaitQueues {
    pub(crate) fn of(&self, thread: ThreadIx) -> Option<&CondOrFutexWait> {
        self.waits.get(&thread)
    }

    /// Begins a wait.
    pub(crate) fn wait(&mut self, thread: ThreadIx, object: u64, mutex: Option<u64>, since: u64) {
        self.waits.insert(thread, CondOrFutexWait { thread, object, mutex, since, requeued: false });
    }

    /// Ends the thread's wait by the wake-up of this event, if any; returns the wait.
    pub(crate) fn wake(&mut self, thread: ThreadIx, waker: Option<u64>) -> Option<CondOrFutexWait> {
        let wait = self.waits.remove(&thread)?;
        match waker {
            Some(waker) => self.take(|wake_ups| wake_ups.event == waker),
            None => self.leave(&wait),
        }
        Some(wait)
    }

    /// Leaves wake-ups for the threads that wait now.
    pub(crate) fn signal(&mut self, object: u64, event: u64, woken: u64) {
        self.add(PendingWakeUps { object, event, left: woken, broadcast: false });
    }

    /// Wakes all threads that wait now; `woken` of them had no wake-up. Nothing is left of earlier signals.
    pub(crate) fn broadcast(&mut self, object: u64, event: u64, woken: u64) {
        self.wake_ups.retain(|wake_ups| wake_ups.object != object || wake_ups.broadcast);
        self.add(PendingWakeUps { object, event, left: woken, broadcast: true });
    }

    /// Wakes or moves waiters of a futex. The events do not show which.
    pub(crate) fn requeue(&mut self, futex: u64) {
        let there = self.waits.values_mut().filter(|wait| wait.object == futex);
        there.for_each(|wait| wait.requeued = true);
    }

    /// Returns whether the thread could take a wake-up. `waker` is the event whose wake-up it took in the run,
    /// and `now` is the number of events so far.
    pub(crate) fn can_be_woken(&self, thread: ThreadIx, waker: Option<u64>, now: u64) -> bool {
        let Some(wait) = self.of(thread) else { return waker.is_some_and(|waker| waker < now) };
        if wait.requeued {
            return waker.is_some_and(|waker| (wait.since + 1..now).contains(&waker));
        }
        self.wake_ups.iter().any(|wake_ups| wake_ups.object == wait.object && wake_ups.event > wait.since)
    }

    /// Accounts for a waiter that left without a wake-up: one that only this waiter could take is void.
    fn leave(&mut self, wait: &CondOrFutexWait) {
        let same = |wake_ups: &&PendingWakeUps| wake_ups.object == wait.object && wake_ups.event > wait.since;
        let granted = self.wake_ups.iter().find(|wake_ups| wake_ups.broadcast && same(wake_ups));
        if let Some(event) = granted.map(|wake_ups| wake_ups.event) {
            return self.take(|wake_ups| wake_ups.event == event);
        }
        let mut kept = 0;
        let Self { waits, wake_ups } = self;
        for wake_ups in wake_ups.iter_mut().filter(|wake_ups| wake_ups.object == wait.object) {
            let waiters = waits.values().filter(|w| w.object == wait.object && w.since < wake_ups.event);
            let usable = (waiters.count() as u64).saturating_sub(kept);
            wake_ups.left = wake_ups.left.min(usable);
            kept += wake_ups.left;
        }
        self.wake_ups.retain(|wake_ups| wake_ups.left > 0);
    }

    fn add(&mut self, wake_ups: PendingWakeUps) {
        if wake_ups.left > 0 {
            let at = self.wake_ups.partition_point(|other| other.event < wake_ups.event);
            self.wake_ups.insert(at, wake_ups);
        }
    }

    fn take(&mut self, is_taken: impl Fn(&PendingWakeUps) -> bool) {
        if let Some(at) = self.wake_ups.iter().position(is_taken) {
            self.wake_ups[at].left -= 1;
            if self.wake_ups[at].left == 0 {
                self.wake_ups.remove(at);
            }
        }
    }
}
