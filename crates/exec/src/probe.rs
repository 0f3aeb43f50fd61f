//! What this system allows: system calls that only ask.

use std::{ffi::CString, io, os::unix::ffi::OsStrExt, path::Path};

/// The user of this process.
pub(crate) fn user() -> u32 {
    // SAFETY: no arguments, no effect.
    unsafe { libc::geteuid() }
}

/// The file system that a path is on: the bytes that are free there, and whether its files may be executed.
pub(crate) fn file_system(path: &Path) -> io::Result<(u64, bool)> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    // SAFETY: numbers, for which zeros are valid.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a C string, and room for the answer.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut found) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((found.f_bavail * found.f_frsize, found.f_flag & libc::ST_NOEXEC == 0))
}

fn limit(resource: libc::__rlimit_resource_t) -> (u64, u64) {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: room for the answer.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    (limit.rlim_cur, limit.rlim_max)
}

fn finite(limit: u64) -> Option<u64> {
    (limit != libc::RLIM_INFINITY).then_some(limit)
}

/// The limit on address space (`ulimit -v`), if there is one.
#[must_use]
pub fn address_space_limit() -> Option<u64> {
    finite(limit(libc::RLIMIT_AS).0)
}

/// The limit on the stack of the main thread (`ulimit -s`), if there is one.
#[must_use]
pub fn stack_limit() -> Option<u64> {
    finite(limit(libc::RLIMIT_STACK).0)
}

/// How many open files the limit (`ulimit -n`) can be raised to.
#[must_use]
pub fn most_descriptors() -> u64 {
    limit(libc::RLIMIT_NOFILE).1
}

/// The kernel's name for its version.
#[must_use]
pub fn kernel_release() -> String {
    // SAFETY: characters, for which zeros are valid.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: room for the answer.
    unsafe { libc::uname(&raw mut name) };
    name.release.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect()
}

/// Whether programs may set the FS base by themselves.
#[must_use]
pub fn has_fsgsbase() -> bool {
    const FSGSBASE: u64 = 2;
    // SAFETY: asks only.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & FSGSBASE != 0 }
}

/// Whether the kernel hands system calls of libraries to the runtime.
#[must_use]
pub fn has_syscall_user_dispatch() -> bool {
    const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
    const OFF: usize = 0;
    // SAFETY: it is off already.
    unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, OFF, 0usize, 0usize, 0usize) == 0 }
}

/// Whether a process may restrict its system calls.
#[must_use]
pub fn has_seccomp() -> bool {
    const GET_ACTION_AVAIL: usize = 2;
    let action = libc::SECCOMP_RET_KILL_PROCESS;
    // SAFETY: asks only; the kernel reads the action.
    unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0usize, &raw const action) == 0 }
}

/// Whether there are handles of processes that tell of their end.
#[must_use]
pub fn has_process_handles() -> bool {
    // SAFETY: asks for a handle of this process.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    if handle >= 0 {
        // SAFETY: just made, and used by nobody else.
        unsafe { libc::close(handle as i32) };
    }
    handle >= 0
}
