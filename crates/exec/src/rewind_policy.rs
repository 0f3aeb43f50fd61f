//! Decides whether a process that resumes from a snapshot is rewound after its run.
//!
//! A failed attempt costs more than a fork, so after a failure the next runs fork instead. The pause doubles with each
//! failure.

/// The outcome of recent attempts.
#[derive(Debug, Default)]
pub(crate) struct RewindPolicy {
    /// Runs left in the current pause.
    pause: u32,
    /// Length of the pause after the next failure.
    pause_after_failure: u32,
    /// Snapshot and process id that should make the next run, if the process could be rewound.
    next: Option<(usize, i32)>,
}

impl RewindPolicy {
    const MAX_PAUSE: u32 = 1 << 12;

    pub(crate) fn is_worth_it(&mut self) -> bool {
        let now = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        if !now {
            self.next = None;
        }
        now
    }

    /// Records which process made the run from a snapshot, and whether it stays for the next run.
    pub(crate) fn record(&mut self, from: usize, process: Option<i32>, awaits_next_run: bool) {
        // The previous process should have stayed for this run but ended.
        let failed = self.next.take().is_some_and(|(at, next)| at == from && Some(next) != process);
        if awaits_next_run && !failed {
            self.pause_after_failure /= 2;
        } else {
            self.pause_after_failure = (self.pause_after_failure * 2 + 1).min(Self::MAX_PAUSE);
            self.pause = self.pause_after_failure;
        }
        self.next = process.filter(|_| awaits_next_run && !failed).map(|process| (from, process));
    }

    /// Forgets the expected process, because the next run uses another one.
    pub(crate) fn reset(&mut self) {
        self.next = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of `runs` runs use rewinding. `awaits_next_run` says whether the nth attempt succeeds.
    fn attempts(runs: usize, mut awaits_next_run: impl FnMut(usize) -> bool) -> usize {
        let (mut rewinding, mut attempts) = (RewindPolicy::default(), 0);
        for _ in 0..runs {
            if rewinding.is_worth_it() {
                rewinding.record(0, Some(1), awaits_next_run(attempts));
                attempts += 1;
            }
        }
        attempts
    }

    #[test]
    fn rewinding_is_tried_less_often_after_failures() {
        assert_eq!(attempts(1000, |_| true), 1000);
        assert!(attempts(1000, |_| false) < 10);
        // One failure in ten costs a few forks.
        assert!(attempts(1000, |nth| nth % 10 != 9) > 800);
    }

    #[test]
    fn process_that_failed_to_rewind_counts_as_not_rewindable() {
        let mut rewinding = RewindPolicy::default();
        rewinding.record(0, Some(1), true);
        rewinding.record(0, Some(2), true);
        assert!(!rewinding.is_worth_it());
        let mut rewinding = RewindPolicy::default();
        rewinding.record(0, Some(1), true);
        // From another snapshot, another process is expected.
        rewinding.record(1, Some(2), true);
        assert!(rewinding.is_worth_it());
    }
}
