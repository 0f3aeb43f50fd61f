//! Work that stops at a deadline.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// Interval at which the deadline is checked.
const LOOK: Duration = Duration::from_millis(20);

/// Result of work with a deadline.
pub(super) enum TimedResult<T> {
    Done(T),
    /// The time was up; the result is incomplete and dropped.
    TooLate,
}

/// Runs `work`, which must stop when its flag is set: by the user, or when the time is up.
pub(super) fn within<T>(
    time: Duration,
    interrupt: &Arc<AtomicBool>,
    work: impl FnOnce(&Arc<AtomicBool>) -> T,
) -> TimedResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let late = AtomicBool::new(false);
    let until = Instant::now().checked_add(time);
    let (done, is_done) = channel::<()>();
    let (output, is_late) = (&stop, &late);
    let result = thread::scope(|scope| {
        // Without a thread there is no deadline.
        let _ = thread::Builder::new().spawn_scoped(scope, move || {
            while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(LOOK) {
                if until.is_some_and(|until| Instant::now() >= until) {
                    is_late.store(true, Ordering::Relaxed);
                }
                if is_late.load(Ordering::Relaxed) || interrupt.load(Ordering::Relaxed) {
                    output.store(true, Ordering::Relaxed);
                }
            }
        });
        let result = work(&stop);
        drop(done);
        result
    });
    if late.into_inner() && !interrupt.load(Ordering::Relaxed) {
        TimedResult::TooLate
    } else {
        TimedResult::Done(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_for_stop(stop: &Arc<AtomicBool>) -> bool {
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    #[test]
    fn work_past_its_deadline_is_stopped() {
        let output = within(Duration::from_millis(5), &Arc::default(), wait_for_stop);
        assert!(matches!(output, TimedResult::TooLate));
    }

    #[test]
    fn interrupt_stops_work_before_its_deadline() {
        let interrupted = Arc::new(AtomicBool::new(true));
        let output = within(Duration::from_secs(3600), &interrupted, wait_for_stop);
        assert!(matches!(output, TimedResult::Done(true)));
    }

    #[test]
    fn work_within_its_deadline_completes() {
        assert!(matches!(within(Duration::from_secs(3600), &Arc::default(), |_| 7), TimedResult::Done(7)));
    }
}
