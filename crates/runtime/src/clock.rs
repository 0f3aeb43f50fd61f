//! Virtual time: it passes a little with each event and each look at a clock, and as far as needed when
//! a sleeper or a timed wait goes on. No real time is ever spent or seen.

/// What an event takes.
const EVENT: u64 = 100;
/// What a look at the clock takes: enough that a loop until a deadline ends soon.
const LOOK: u64 = 1_000;
/// How long the machine had been up when the run began.
const UPTIME: u64 = 1_000_000_000_000;

#[derive(Debug)]
pub(crate) struct Clock {
    epoch: u64,
    /// Nanoseconds since 1970.
    now: u64,
}

impl Clock {
    pub(crate) const fn new(epoch: u64) -> Self {
        Self { epoch, now: epoch }
    }

    #[inline]
    pub(crate) fn tick(&mut self) {
        self.now += EVENT;
    }

    /// Nanoseconds since 1970.
    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    /// A program looks at a clock.
    pub(crate) fn look(&mut self, clock: i32) -> u64 {
        self.now += LOOK;
        match clock {
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => self.now,
            libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_BOOTTIME => self.now - self.epoch + UPTIME,
            // Processor time: what passed since the start.
            _ => self.now - self.epoch,
        }
    }

    /// Time passes until then.
    pub(crate) fn pass(&mut self, deadline: u64) {
        self.now = self.now.max(deadline);
    }

    /// When a moment on this clock is, in nanoseconds since 1970.
    pub(crate) fn deadline(&self, clock: i32, at: &libc::timespec) -> Option<u64> {
        let nanos = duration(at)?;
        Some(match clock {
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => nanos,
            _ => (nanos + self.epoch).saturating_sub(UPTIME),
        })
    }

    /// When so much time has passed.
    pub(crate) const fn after(&self, nanos: u64) -> u64 {
        self.now.saturating_add(nanos)
    }
}

/// A span in nanoseconds; none if it is not a proper one. Negative ones are over at once.
pub(crate) fn duration(span: &libc::timespec) -> Option<u64> {
    if !(0..1_000_000_000).contains(&span.tv_nsec) {
        return None;
    }
    let seconds = u64::try_from(span.tv_sec).unwrap_or(0).min(1 << 33);
    Some(seconds * 1_000_000_000 + span.tv_nsec as u64)
}

/// The other way round.
pub(crate) const fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}
