//! Limits, signals and processor time of this process.

use super::check;
use crate::Error;
use std::{io, sync::OnceLock, time::Duration};
use unsnarl_wire::{DESCRIPTOR, SERVICE, SNAPSHOTS};

/// The limit on open files that the user set, if this process raised its own.
static USERS_DESCRIPTOR_LIMIT: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the limit on open files of this process to what it and controlled programs need. Programs get the user's
/// limit.
///
/// # Errors
/// Returns an error if the limit is too low and cannot be raised.
pub fn raise_descriptor_limit() -> Result<(), Error> {
    const NEEDED: u64 = 256;
    let needed = SNAPSHOTS.into_iter().chain([DESCRIPTOR, SERVICE]).max().unwrap_or(0) as u64 + 1;
    let mut users = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let failed = |cause| Error::System { action: "cannot read the limit on open files", cause };
    // SAFETY: `users` has room for the result.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut users) }).map_err(failed)?;
    if users.rlim_cur >= NEEDED {
        return Ok(());
    }
    let more = libc::rlimit { rlim_cur: NEEDED, rlim_max: users.rlim_max.max(NEEDED) };
    // SAFETY: the kernel only reads the limits.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const more) } == 0 {
        USERS_DESCRIPTOR_LIMIT.get_or_init(|| users);
        Ok(())
    } else if users.rlim_cur >= needed {
        Ok(())
    } else {
        Err(Error::Descriptors(users.rlim_max))
    }
}

/// Gives the target the user's limit on open files after `job` has created descriptors with fixed numbers. They stay
/// usable.
pub(super) fn with_users_descriptor_limit(job: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    job()?;
    USERS_DESCRIPTOR_LIMIT.get().map_or(Ok(()), |users| {
        // SAFETY: the kernel only reads the limits.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, users) })
    })
}

/// Checks that this process, and so the program, may start threads.
///
/// # Errors
/// If it may not, with the reason.
pub fn check_threads() -> Result<(), Error> {
    let failed = |cause| Error::System { action: "cannot start a thread", cause };
    let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(|| {}).map_err(failed)?;
    let _ = thread.join();
    Ok(())
}

/// Ignores SIGXFSZ, so that reaching the file size limit (`ulimit -f`) is an error instead of the death of this
/// process.
pub fn ignore_file_size_signal() {
    // SAFETY: ignores a signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Returns the processor time used by this process and by its children that have ended.
#[must_use]
pub fn processor_time() -> Duration {
    let used = |target| {
        // SAFETY: the struct holds only integers, for which zeros are valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` has room for the result.
        unsafe { libc::getrusage(target, &raw mut usage) };
        let time = |at: libc::timeval| {
            Duration::from_secs(at.tv_sec as u64) + Duration::from_micros(at.tv_usec as u64)
        };
        time(usage.ru_utime) + time(usage.ru_stime)
    };
    used(libc::RUSAGE_SELF) + used(libc::RUSAGE_CHILDREN)
}
