//! Supervises a running program: waits for its end, forwards its output, and stops it at a limit.

use crate::{
    Error,
    memory::SharedMemory,
    process::{Process, WaitResult},
    settings::{Settings, ThreadBackend},
    streams::{OutputForwarder, Streams},
};
use std::{
    fs::File,
    process::ExitStatus,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

/// The limit at which a run was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitReached {
    /// Real time.
    Time(TimeoutActivity),
    /// Output.
    Output,
    /// Memory.
    Memory,
}

/// Activity of a run when its time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeoutActivity {
    /// It reached schedule points regularly.
    Points,
    /// It had not reached a schedule point for long, and was running.
    Running,
    /// It had not reached a schedule point for long, and was waiting in the kernel.
    Waiting,
}

/// Supervises a running target.
pub(crate) struct RunMonitor<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) memory: &'a SharedMemory,
    pub(crate) streams: &'a Streams,
    pub(crate) limit: Duration,
}

impl RunMonitor<'_> {
    /// Waits for the end and forwards output. Returns the exit status, and the limit at which the run was stopped, if
    /// it was.
    pub(crate) fn wait_for_end(
        &self,
        process: &mut Process<'_>,
    ) -> Result<(ExitStatus, Option<LimitReached>), Error> {
        let mut echo = OutputForwarder::default();
        let ended = self.watch(process, &mut echo);
        if self.settings.echo {
            echo.finish(self.streams);
        }
        ended
    }

    fn watch(
        &self,
        process: &mut Process<'_>,
        echo: &mut OutputForwarder,
    ) -> Result<(ExitStatus, Option<LimitReached>), Error> {
        const TICK: Duration = Duration::from_millis(50);
        /// Time without a schedule point after which a run is checked for spinning; shorter after a run was found
        /// spinning.
        const STALLED: Duration = Duration::from_millis(300);
        const STALLED_AGAIN: Duration = Duration::from_millis(10);
        const LOOK: Duration = Duration::from_millis(2);
        let begin = Instant::now();
        let mut points = (0, begin);
        let mut detector = 0;
        let (mut stalled, mut looked) = (STALLED, false);
        // Traced runs are slow and must not be interrupted.
        let watched =
            self.settings.threads == ThreadBackend::Fibers && self.memory.header().plan.tracing == 0;
        let Settings { memory_limit, interrupt, until, .. } = self.settings;
        let interrupted = || {
            interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
                || until.is_some_and(|until| Instant::now() >= until)
        };
        if self.settings.busy_waits {
            process.poll_for_end();
        }
        loop {
            let left = self.limit.saturating_sub(begin.elapsed());
            let tick = if looked || stalled == STALLED_AGAIN { LOOK } else { TICK };
            let waited = process.wait(left.min(tick))?;
            if self.settings.echo {
                echo.forward(self.streams);
            }
            let reached = self.memory.header().events.load(Ordering::Relaxed);
            if reached != points.0 {
                if looked && reached == points.0 + 1 {
                    stalled = STALLED_AGAIN;
                }
                (points, looked) = ((reached, Instant::now()), false);
            }
            if watched && matches!(waited, WaitResult::StillRunning) && points.1.elapsed() >= stalled {
                process.request_spin_check();
                looked = true;
            }
            match waited {
                _ if interrupted() => return Err(Error::Interrupted),
                WaitResult::Ended(status) => return Ok((status, None)),
                WaitResult::StillRunning if begin.elapsed() >= self.limit => {
                    let doing = match points.1.elapsed() {
                        short if short < self.limit / 4 => TimeoutActivity::Points,
                        _ if process.is_running() => TimeoutActivity::Running,
                        _ => TimeoutActivity::Waiting,
                    };
                    return process.stop().map(|status| (status, Some(LimitReached::Time(doing))));
                }
                WaitResult::StillRunning if self.too_much_output() => {
                    return process.stop().map(|status| (status, Some(LimitReached::Output)));
                }
                WaitResult::StillRunning
                    if memory_limit
                        .is_some_and(|limit| self.uses_more_than(limit, process, &mut detector)) =>
                {
                    return process.stop().map(|status| (status, Some(LimitReached::Memory)));
                }
                WaitResult::StillRunning => {}
            }
        }
    }

    /// Returns whether the program itself uses more memory than this. The pages saved for rewinding and the runtime's
    /// memory, above all that of the race detector, do not count. Finding out how much the latter is takes long, so it
    /// is done only when the answer may depend on it; `detector` remembers the last figure.
    fn uses_more_than(&self, limit: u64, process: &Process<'_>, detector: &mut u64) -> bool {
        let saved_pages = self.memory.header().saved_pages.load(Ordering::Relaxed);
        let all = process.memory().saturating_sub(u64::from(saved_pages) * 4096);
        if all.saturating_sub(*detector) <= limit {
            return false;
        }
        *detector = process.runtime_memory();
        all.saturating_sub(*detector) > limit
    }

    fn too_much_output(&self) -> bool {
        let size = |stream: &File| stream.metadata().map_or(0, |m| m.len());
        self.settings
            .output_limit
            .is_some_and(|limit| size(&self.streams.stdout) + size(&self.streams.stderr) > limit)
    }
}
