//! The time limits of waits.

use crate::{
    clock::{NEVER, duration},
    state::Runtime,
};

/// The longest time that a call waits.
#[derive(Clone, Copy)]
pub(super) enum WaitLimit {
    /// Does not wait.
    None,
    /// Waits until this time.
    Until(u64),
}

impl WaitLimit {
    pub(super) const FOREVER: Self = Self::Until(NEVER);

    /// Converts milliseconds, of which a negative number is for ever.
    pub(super) fn of_millis(runtime: &Runtime, millis: i32) -> Self {
        match u64::try_from(millis) {
            Ok(0) => Self::None,
            Ok(millis) => Self::Until(runtime.state.clock.after(millis * 1_000_000)),
            Err(_) => Self::FOREVER,
        }
    }

    /// Converts a duration; returns an error if it is invalid.
    pub(super) unsafe fn of_time(runtime: &Runtime, time: *const libc::timespec) -> Result<Self, isize> {
        // SAFETY: the program's time.
        let Some(time) = (unsafe { time.as_ref() }) else { return Ok(Self::FOREVER) };
        match duration(time) {
            Some(0) => Ok(Self::None),
            Some(span) => Ok(Self::Until(runtime.state.clock.after(span))),
            None => Err(-libc::EINVAL as isize),
        }
    }
}
