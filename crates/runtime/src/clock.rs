//! Virtual time: it passes a little with each event and each look at a clock, and as far as needed when
//! a sleeper or a timed wait goes on. No real time is ever spent or seen.

/// What an event takes.
const EVENT: u64 = 100;
/// What a look at the clock takes: enough that a loop until a deadline ends soon.
const LOOK: u64 = 1_000;
/// How long the machine had been up when the run began.
const UPTIME: u64 = 1_000_000_000_000;

#[derive(Debug)]
pub(crate) struct VirtualClock {
    epoch: u64,
    /// Nanoseconds since 1970.
    now: u64,
}

impl VirtualClock {
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

    /// A program looks at a clock; none if it is none of those that stand still for a run.
    pub(crate) fn read(&mut self, clock: i32) -> Option<u64> {
        /// Clocks of devices; other negative numbers are processor time of threads and processes.
        const DEVICE: i32 = 3;
        Some(match clock {
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => self.read_wall_clock(),
            libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_BOOTTIME => self.read_cpu_clock() + UPTIME,
            libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID => self.read_cpu_clock(),
            i32::MIN..0 if clock & 7 != DEVICE && clock != -1 => self.read_cpu_clock(),
            _ => return None,
        })
    }

    /// The time of day.
    pub(crate) fn read_wall_clock(&mut self) -> u64 {
        self.now += LOOK;
        self.now
    }

    /// Processor time: what passed since the start.
    pub(crate) fn read_cpu_clock(&mut self) -> u64 {
        self.read_wall_clock() - self.epoch
    }

    /// Time passes until then.
    pub(crate) fn pass(&mut self, deadline: u64) {
        self.now = self.now.max(deadline);
    }

    /// When a moment on this clock is, in nanoseconds since 1970 and [`NEVER`] if far away; none if the
    /// time is not a proper one or the clock none to wait by. Moments before 1970 have passed.
    pub(crate) fn deadline(&self, clock: i32, at: &libc::timespec) -> Option<u64> {
        let at = libc::timespec { tv_sec: at.tv_sec.max(0), ..*at };
        let nanos = duration(&at).filter(|_| waits_by(clock))?;
        Some(self.moment(clock, nanos))
    }

    /// When this clock shows that much.
    pub(crate) fn moment(&self, clock: i32, nanos: u64) -> u64 {
        match clock {
            _ if nanos == NEVER => NEVER,
            libc::CLOCK_REALTIME | libc::CLOCK_TAI => nanos,
            libc::CLOCK_PROCESS_CPUTIME_ID => nanos + self.epoch,
            _ => (nanos + self.epoch).saturating_sub(UPTIME),
        }
    }

    /// When so much time has passed.
    pub(crate) const fn after(&self, nanos: u64) -> u64 {
        self.now.saturating_add(nanos)
    }
}

/// Whether timed waits can be told by this clock.
pub(crate) const fn waits_by(clock: i32) -> bool {
    matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC)
}

/// A moment that does not come. Programs wait "for ever" by the largest time there is; that such a wait
/// comes to an end would be a failure that nobody will ever see.
pub(crate) const NEVER: u64 = u64::MAX;

/// What counts as for ever, in seconds: some 270 years.
const FOR_EVER: u64 = 1 << 33;

/// A span in nanoseconds, [`NEVER`] for very long ones; none if it is not a proper one.
pub(crate) fn duration(span: &libc::timespec) -> Option<u64> {
    if !(0..1_000_000_000).contains(&span.tv_nsec) {
        return None;
    }
    let seconds = u64::try_from(span.tv_sec).ok()?;
    Some(if seconds < FOR_EVER { seconds * 1_000_000_000 + span.tv_nsec as u64 } else { NEVER })
}

/// The other way round.
pub(crate) const fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}
