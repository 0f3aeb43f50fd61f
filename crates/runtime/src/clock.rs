//! Virtual time. It advances a little with each event and each clock read, and up to the deadline when a
//! sleep or timed wait ends. No real time is ever spent or seen.

/// The duration of an event.
const EVENT: u64 = 100;
/// The duration of a clock read: enough that a loop until a deadline ends soon.
const LOOK: u64 = 1_000;
/// The machine's uptime when the run began.
const UPTIME: u64 = 1_000_000_000_000;
/// The number of ticks of the time-stamp counter in a nanosecond.
const COUNTER_TICKS: u64 = 2;

#[derive(Debug)]
pub(crate) struct VirtualClock {
    epoch: u64,
    /// Nanoseconds since 1970.
    now: u64,
    /// The number of times the program has read a clock.
    reads: u64,
}

impl VirtualClock {
    pub(crate) const fn new(epoch: u64) -> Self {
        Self { epoch, now: epoch, reads: 0 }
    }

    #[inline]
    pub(crate) fn tick(&mut self) {
        self.now += EVENT;
    }

    /// Returns the time in nanoseconds since 1970.
    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    /// Reads a clock for the program; returns `None` for clocks that are not virtual.
    pub(crate) fn read(&mut self, clock: i32) -> Option<u64> {
        /// The kind of device clocks; other negative ids are processor time of threads and processes.
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

    /// Reads the time of day.
    pub(crate) fn read_wall_clock(&mut self) -> u64 {
        self.now += LOOK;
        self.reads += 1;
        self.now
    }

    /// Returns how often the program has read a clock.
    pub(crate) const fn reads(&self) -> u64 {
        self.reads
    }

    /// Reads the processor time: the time since the start.
    pub(crate) fn read_cpu_clock(&mut self) -> u64 {
        self.read_wall_clock() - self.epoch
    }

    /// Reads the processor's time-stamp counter.
    pub(crate) fn read_counter(&mut self) -> u64 {
        (self.read_cpu_clock() + UPTIME) * COUNTER_TICKS
    }

    /// Advances the time to the deadline.
    pub(crate) fn pass(&mut self, deadline: u64) {
        self.now = self.now.max(deadline);
    }

    /// Converts a time on this clock to nanoseconds since 1970, [`NEVER`] if it is far away. Returns `None`
    /// if the time is invalid or the clock cannot be waited by. Times before 1970 have passed.
    pub(crate) fn deadline(&self, clock: i32, at: &libc::timespec) -> Option<u64> {
        let at = libc::timespec { tv_sec: at.tv_sec.max(0), ..*at };
        let nanos = duration(&at).filter(|_| waits_by(clock))?;
        Some(self.moment(clock, nanos))
    }

    /// Returns the time at which this clock shows `nanos`.
    pub(crate) fn moment(&self, clock: i32, nanos: u64) -> u64 {
        match clock {
            _ if nanos == NEVER => NEVER,
            libc::CLOCK_REALTIME | libc::CLOCK_TAI => nanos,
            libc::CLOCK_PROCESS_CPUTIME_ID => nanos + self.epoch,
            _ => (nanos + self.epoch).saturating_sub(UPTIME),
        }
    }

    /// Returns the time `nanos` from now.
    pub(crate) const fn after(&self, nanos: u64) -> u64 {
        self.now.saturating_add(nanos)
    }
}

/// Returns whether timed waits can use this clock.
pub(crate) const fn waits_by(clock: i32) -> bool {
    matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC)
}

/// A time that never comes. Programs wait "for ever" with the largest possible time; a failure that needs the
/// end of such a wait would never occur in practice.
pub(crate) const NEVER: u64 = u64::MAX;

/// The number of seconds that counts as for ever: some 270 years.
const FOR_EVER: u64 = 1 << 33;

/// Converts a duration to nanoseconds, [`NEVER`] for very long ones; returns `None` if it is invalid.
pub(crate) fn duration(span: &libc::timespec) -> Option<u64> {
    if !(0..1_000_000_000).contains(&span.tv_nsec) {
        return None;
    }
    let seconds = u64::try_from(span.tv_sec).ok()?;
    Some(if seconds < FOR_EVER { seconds * 1_000_000_000 + span.tv_nsec as u64 } else { NEVER })
}

/// Converts nanoseconds to a `timespec`.
pub(crate) const fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}
