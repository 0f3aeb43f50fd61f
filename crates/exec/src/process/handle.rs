//! Handles that report the end of a process, and waits for descriptors.

use super::status;
use crate::signals;
use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    time::{Duration, Instant},
};

/// A handle that reports the end of a process.
#[derive(Debug)]
pub(crate) enum Handle {
    Descriptor(OwnedFd),
    /// The fallback for systems without pidfds: the end is polled for. The start time distinguishes the process from a
    /// later one with the same id.
    Number {
        process: i32,
        started: Option<String>,
    },
}

impl Handle {
    fn descriptor(&self) -> Option<RawFd> {
        match self {
            Self::Descriptor(handle) => Some(handle.as_raw_fd()),
            Self::Number { .. } => None,
        }
    }

    /// Returns whether the process has ended, for handles without a descriptor.
    fn has_ended(&self) -> bool {
        let Self::Number { process, started } = self else { return false };
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: the struct holds only integers, for which zeros are valid.
        let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `found` has room for the result, and the call does not block.
        if unsafe { libc::waitid(libc::P_PID, *process as libc::id_t, &raw mut found, options) } == 0 {
            // SAFETY: the kernel filled the field in, or left it zero if the child still runs.
            return unsafe { found.si_pid() } != 0;
        }
        // The process is the child of another process.
        let Some(now) = status(*process) else { return true };
        now.starts_with(['Z', 'X']) || start_time(&now) != started.as_deref()
    }

    /// Returns whether the process has ended or ends within `timeout`.
    pub(super) fn ends_within(&self, timeout: Duration) -> bool {
        any_readable(None, Some(self), timeout)
    }

    pub(super) fn kill(&self) {
        match self {
            Self::Descriptor(handle) => {
                let handle = handle.as_raw_fd();
                // SAFETY: the signal goes to this very process or to none.
                unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle, libc::SIGKILL, 0, 0) };
            }
            Self::Number { process, .. } if !self.has_ended() => {
                let _ = signals::send(*process, libc::SIGKILL);
            }
            Self::Number { .. } => {}
        }
    }
}

/// Returns the start time, from the fields of `/proc/PID/stat` from the state on.
fn start_time(status: &str) -> Option<&str> {
    status.split(' ').nth(19)
}

/// Opens a handle for a process.
pub(super) fn open_process_handle(process: i32) -> io::Result<Handle> {
    // SAFETY: the call opens a descriptor.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) } as RawFd;
    if handle >= 0 {
        // SAFETY: the descriptor was just opened and has no other owner.
        return Ok(Handle::Descriptor(unsafe { OwnedFd::from_raw_fd(handle) }));
    }
    match io::Error::last_os_error() {
        gone if gone.raw_os_error() == Some(libc::ESRCH) => Err(gone),
        _ => {
            let started = status(process).and_then(|status| start_time(&status).map(str::to_owned));
            Ok(Handle::Number { process, started })
        }
    }
}

/// Returns whether `fd` has input or is at its end within `timeout`.
pub(super) fn readable(fd: RawFd, timeout: Duration) -> bool {
    any_readable(Some(fd), None, timeout)
}

/// Returns true if [`readable`] would, or if the process of `handle` has ended.
pub(super) fn any_readable(fd: Option<RawFd>, handle: Option<&Handle>, timeout: Duration) -> bool {
    let until = Instant::now() + timeout;
    let descriptor = handle.and_then(Handle::descriptor);
    // `poll` ignores negative descriptors.
    let mut polls =
        [fd, descriptor].map(|fd| libc::pollfd { fd: fd.unwrap_or(-1), events: libc::POLLIN, revents: 0 });
    // Without a descriptor the end of the process is polled for.
    let longest = if handle.is_some() && descriptor.is_none() { 1 } else { i32::MAX };
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let millis = if left.is_zero() { 0 } else { i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX) };
        // SAFETY: both entries are valid.
        match unsafe { libc::poll(polls.as_mut_ptr(), 2, millis.min(longest)) } {
            1.. => return true,
            _ if handle.is_some_and(Handle::has_ended) => return true,
            _ if left.is_zero() => return false,
            _ => {}
        }
    }
}

/// Waits until there is something to read, but no longer than `timeout`.
pub(crate) fn wait_readable(fd: RawFd, timeout: Duration) {
    readable(fd, timeout);
}
