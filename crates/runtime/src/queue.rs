//! Pending wake-ups of condition variables and futexes.
//!
//! A signal wakes one of the threads that wait at that moment; the scheduler chooses which. So a signal
//! leaves a *wake-up* at the object, each waiter that arrived before it can take it, and the one that is
//! scheduled first does. The choice of the woken waiter is part of the schedule like every other
//! choice.
//!
//! A waiter takes the earliest wake-up that came after it arrived. Signals leave a wake-up only if there is a
//! waiter without one. A waiter that leaves without taking one (it was cancelled) voids the wake-up that only
//! it could have taken: none is ever left over.

use alloc::vec::Vec;

#[derive(Debug, Default)]
pub(crate) struct Queues {
    wake_ups: Vec<WakeUp>,
    /// Counts arrivals and signals in one sequence.
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
struct WakeUp {
    object: usize,
    at: u64,
    /// The event that caused it.
    event: u64,
}

impl Queues {
    /// Returns the time of an arrival.
    pub(crate) fn arrive(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Adds a wake-up.
    pub(crate) fn signal(&mut self, object: usize, event: u64) {
        self.clock += 1;
        self.wake_ups.push(WakeUp { object, at: self.clock, event });
    }

    /// Returns whether there are no wake-ups.
    pub(crate) fn is_empty(&self) -> bool {
        self.wake_ups.is_empty()
    }

    /// Returns the number of wake-ups that are not taken yet.
    pub(crate) fn pending(&self, object: usize) -> usize {
        self.wake_ups.iter().filter(|w| w.object == object).count()
    }

    /// Returns whether there is one for a waiter that arrived at that time.
    pub(crate) fn has_wake_up(&self, object: usize, arrival: u64) -> bool {
        self.wake_ups.iter().any(|w| w.object == object && w.at > arrival)
    }

    /// Removes the wake-ups that no waiter can take: `arrived` returns how many waiters came before a time.
    pub(crate) fn forget_surplus(&mut self, object: usize, arrived: impl Fn(u64) -> usize) {
        let mut kept_count = 0;
        self.wake_ups.retain(|w| {
            // Later wake-ups can be taken by all waiters that can take the earlier ones, and by more.
            let keep = w.object != object || arrived(w.at) > kept_count;
            kept_count += usize::from(keep && w.object == object);
            keep
        });
    }

    /// Takes the earliest one; returns the event that caused it.
    pub(crate) fn take(&mut self, object: usize, arrival: u64) -> Option<u64> {
        let at = self.wake_ups.iter().position(|w| w.object == object && w.at > arrival)?;
        Some(self.wake_ups.remove(at).event)
    }
}
