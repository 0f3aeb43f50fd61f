//! Fair scheduling for a systematic search: Musuvathi and Qadeer, "Fair Stateless Model Checking", PLDI 2008,
//! algorithm 1.
//!
//! A thread that yields gives priority to the threads that were enabled since its last yield but not
//! scheduled. A loop that waits for another thread therefore ends after finitely many rounds, and no schedule
//! in which every thread gets its turn is lost.

use unsnarl_model::EnabledThreads;

/// A set of threads as bits.
type ThreadBits = u64;

/// The state of the algorithm after some steps.
#[derive(Clone, Debug)]
pub(crate) struct Fairness {
    /// For each thread, the threads that have priority over it.
    after: [ThreadBits; 64],
    /// Since a thread's last yield: the threads continuously enabled, disabled by it, and scheduled.
    enabled: [ThreadBits; 64],
    disabled: [ThreadBits; 64],
    scheduled: [ThreadBits; 64],
}

impl Fairness {
    pub(crate) fn new() -> Self {
        Self { after: [0; 64], enabled: [0; 64], disabled: [0; 64], scheduled: [ThreadBits::MAX; 64] }
    }

    /// Returns the enabled threads that may be chosen.
    pub(crate) fn allowed(&self, can_run: ThreadBits) -> ThreadBits {
        let waits = |thread: &usize| self.after[*thread] & can_run != 0;
        let held: ThreadBits = bits(can_run).filter(waits).fold(0, |held, thread| held | 1 << thread);
        if can_run & !held == 0 { can_run } else { can_run & !held }
    }

    /// Records a step of the thread, with the choice before it and the threads enabled after it.
    pub(crate) fn step(&mut self, thread: usize, before: EnabledThreads, after: ThreadBits) {
        let bit = 1 << thread;
        for other in 0..64 {
            self.after[other] &= !bit;
            self.enabled[other] &= after;
            self.scheduled[other] |= bit;
        }
        self.disabled[thread] |= before.can_run & !after;
        if before.yields & bit != 0 {
            self.after[thread] |=
                (self.enabled[thread] | self.disabled[thread]) & !self.scheduled[thread] & !bit;
            self.enabled[thread] = after;
            self.disabled[thread] = 0;
            self.scheduled[thread] = 0;
        }
    }
}

/// Iterates over the threads of a set.
pub(crate) fn bits(set: ThreadBits) -> impl Iterator<Item = usize> {
    let mut left = set;
    std::iter::from_fn(move || {
        let next = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        (next < 64).then_some(next as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_thread_must_yield_the_second_time() {
        // Thread 0 spins, thread 1 can always run.
        let mut fairness = Fairness::new();
        let choice = EnabledThreads { can_run: 0b11, yields: 0b01 };
        assert_eq!(fairness.allowed(0b11), 0b11);
        fairness.step(0, choice, 0b11);
        assert_eq!(fairness.allowed(0b11), 0b11, "the first yield opens the window");
        fairness.step(0, choice, 0b11);
        assert_eq!(fairness.allowed(0b11), 0b10, "now thread 1 was neglected for a whole round");
        fairness.step(1, choice, 0b11);
        assert_eq!(fairness.allowed(0b11), 0b11, "and had its turn");
    }

    #[test]
    fn threads_that_do_not_yield_are_never_blocked() {
        let mut fairness = Fairness::new();
        let choice = EnabledThreads { can_run: 0b11, yields: 0 };
        (0..10).for_each(|_| fairness.step(0, choice, 0b11));
        assert_eq!(fairness.allowed(0b11), 0b11);
    }
}
