//! Queries what this system allows. The system calls here have no lasting effect.

use crate::Error;
use std::{
    ffi::CString,
    fs::File,
    io,
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// Returns the effective user id of this process.
pub(crate) fn user() -> u32 {
    // SAFETY: the call has no arguments and no effect.
    unsafe { libc::geteuid() }
}

/// Returns the free bytes of the file system that a path is on, and whether its files may be executed.
pub(crate) fn file_system(path: &Path) -> io::Result<(u64, bool)> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    // SAFETY: the struct holds only integers, for which zeros are valid.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a C string, and `found` has room for the result.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut found) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((found.f_bavail * found.f_frsize, found.f_flag & libc::ST_NOEXEC == 0))
}

/// Opens a directory whose absolute path is meant below this root: links in it, too.
pub(crate) fn open_below(root: &File, path: &Path) -> io::Result<File> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    // SAFETY: the struct holds only integers, for which zeros are valid.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_IN_ROOT;
    let size = size_of::<libc::open_how>();
    // SAFETY: the path is a C string, and the struct has the given size.
    let fd =
        unsafe { libc::syscall(libc::SYS_openat2, root.as_raw_fd(), path.as_ptr(), &raw const how, size) };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and has no other owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn limit(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` has room for the result.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    limit.rlim_cur
}

fn finite(limit: u64) -> Option<u64> {
    (limit != libc::RLIM_INFINITY).then_some(limit)
}

/// Returns the limit on address space (`ulimit -v`), if there is one.
#[must_use]
pub fn address_space_limit() -> Option<u64> {
    finite(limit(libc::RLIMIT_AS))
}

/// Returns the limit on writable private memory (`ulimit -d`), if there is one.
#[must_use]
pub fn data_limit() -> Option<u64> {
    finite(limit(libc::RLIMIT_DATA))
}

/// Checks that the limit on data leaves room for this process.
///
/// # Errors
/// Returns an error if it does not.
pub fn check_data_limit() -> Result<(), Error> {
    const NEEDED: u64 = 64 << 20;
    data_limit().filter(|&limit| limit < NEEDED).map_or(Ok(()), |limit| Err(Error::Data(limit >> 10)))
}

/// Returns the limit on the stack of the main thread (`ulimit -s`), if there is one.
#[must_use]
pub fn stack_limit() -> Option<u64> {
    finite(limit(libc::RLIMIT_STACK))
}

/// Returns the kernel's release name.
#[must_use]
pub fn kernel_release() -> String {
    // SAFETY: the struct holds only characters, for which zeros are valid.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` has room for the result.
    unsafe { libc::uname(&raw mut name) };
    name.release.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect()
}

/// Returns whether programs may set the FS base without a system call.
#[must_use]
pub fn has_fsgsbase() -> bool {
    const FSGSBASE: u64 = 2;
    // SAFETY: the call only reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & FSGSBASE != 0 }
}

/// Returns whether the kernel can redirect system calls of libraries to the runtime.
#[must_use]
pub fn has_syscall_user_dispatch() -> bool {
    const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
    const OFF: usize = 0;
    // SAFETY: the feature is off already, so this changes nothing.
    unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, OFF, 0usize, 0usize, 0usize) == 0 }
}

/// Returns whether a process may restrict its system calls.
#[must_use]
pub fn has_seccomp() -> bool {
    const GET_ACTION_AVAIL: usize = 2;
    let action = libc::SECCOMP_RET_KILL_PROCESS;
    // SAFETY: the call only queries; the kernel reads `action`.
    unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0usize, &raw const action) == 0 }
}

/// Returns whether the kernel has process descriptors (pidfds), which report the end of a process.
#[must_use]
pub fn has_process_handles() -> bool {
    // SAFETY: the call opens a descriptor for this process.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    if handle >= 0 {
        // SAFETY: the descriptor was just opened and is used nowhere else.
        unsafe { libc::close(handle as i32) };
    }
    handle >= 0
}
