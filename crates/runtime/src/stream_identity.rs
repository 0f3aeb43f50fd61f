//! Makes the results of `fstat` for the standard streams the same in every run.
//!
//! The streams are nameless files of the controller. The kernel gives them other numbers and times in every
//! run, and the C library leaves those on the stack at the first use of a `FILE`. So its functions are
//! redirected here, and a nameless file that was a standard stream at the start gets fixed numbers and the
//! time of the start. So do pipes and sockets without a name, in the order in which they are looked at. If the
//! system does not allow the redirection, the real values stay visible.
//!
//! Children that run without control use these functions too, in several threads: there is no shared state
//! here but constants, and no stack other than the caller's.

use crate::{log::c_bytes, real::Real, redirect::CodeWriter, stack::clear_caller_saved, sys};
use core::{
    arch::naked_asm,
    ffi::{c_char, c_void},
    sync::atomic::{AtomicU64, Ordering},
};

#[allow(clippy::declare_interior_mutable_const, reason = "an initial value")]
const NO_FILE: AtomicU64 = AtomicU64::new(0);

/// Device and inode of each standard stream, or zeros if it is another file.
static STREAMS: [[AtomicU64; 2]; 3] = [[NO_FILE; 2], [NO_FILE; 2], [NO_FILE; 2]];

/// The devices of pipes and of sockets.
static CHANNEL_DEVICES: [AtomicU64; 2] = [NO_FILE; 2];

/// The number of pipes, and of sockets, that get a number. Others keep the real one.
const MAX_INODES: usize = 256;

/// The inodes of the pipes and sockets that the program looked at.
static KNOWN_INODES: [[AtomicU64; MAX_INODES]; 2] = [[NO_FILE; MAX_INODES], [NO_FILE; MAX_INODES]];

/// The time of the start, in seconds since 1970.
static START_SECONDS: AtomicU64 = AtomicU64::new(0);

/// Redirects the functions, before the program runs.
pub(crate) fn install() {
    for (fd, [device, inode]) in STREAMS.iter().enumerate() {
        let Some(status) = status(fd) else { continue };
        if status.st_mode & libc::S_IFMT == libc::S_IFREG && status.st_nlink == 0 {
            device.store(status.st_dev, Ordering::Relaxed);
            inode.store(status.st_ino, Ordering::Relaxed);
        }
    }
    note_channels();
    static FSTAT: Real = Real::new(c"fstat");
    static FSTATAT: Real = Real::new(c"fstatat");
    static FXSTAT: Real = Real::new(c"__fxstat");
    static FXSTATAT: Real = Real::new(c"__fxstatat");
    static STATX: Real = Real::new(c"statx");
    let functions = [
        (&FSTAT, fstat as *const ()),
        (&FSTATAT, fstatat as *const ()),
        (&FXSTAT, fxstat as *const ()),
        (&FXSTATAT, fxstatat as *const ()),
        (&STATX, statx as *const ()),
    ];
    let Some(code) = CodeWriter::open() else { return };
    for (from, to) in functions.into_iter().filter(|(from, _)| is_of_libc(from)) {
        code.redirect(from, to as usize);
    }
}

fn status(fd: usize) -> Option<libc::stat> {
    // SAFETY: plain numbers, which the kernel fills in.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: there is room for the result.
    let result = unsafe { sys::call(libc::SYS_fstat, [fd, &raw mut status as usize, 0, 0, 0, 0]) };
    (result == 0).then_some(status)
}

/// Notes the devices of pipes and sockets.
fn note_channels() {
    let how = libc::O_CLOEXEC as usize;
    let mut ends = [-1i32; 2];
    // SAFETY: there is room for two descriptors.
    unsafe { sys::call(libc::SYS_pipe2, [ends.as_mut_ptr() as usize, how, 0, 0, 0, 0]) };
    let (family, kind) = (libc::AF_UNIX as usize, libc::SOCK_STREAM as usize | how);
    // SAFETY: a new descriptor of the runtime.
    let socket = unsafe { sys::call(libc::SYS_socket, [family, kind, 0, 0, 0, 0]) };
    for (device, fd) in CHANNEL_DEVICES.iter().zip([ends[0] as isize, socket]) {
        if let Some(status) = usize::try_from(fd).ok().and_then(status) {
            device.store(status.st_dev, Ordering::Relaxed);
        }
    }
    for fd in [ends[0] as isize, ends[1] as isize, socket] {
        // SAFETY: the runtime's descriptors.
        unsafe { sys::call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Sets the time that the files show, in nanoseconds since 1970.
pub(crate) fn set_start(epoch: u64) {
    START_SECONDS.store(epoch / 1_000_000_000, Ordering::Relaxed);
}

/// Returns whether the function is the C library's: another library may have replaced it, for its own
/// purposes.
fn is_of_libc(function: &Real) -> bool {
    let Some(address) = function.find() else { return false };
    // SAFETY: all zeros is an empty result.
    let mut home: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: there is room for the result.
    let known = unsafe { libc::dladdr(address, &raw mut home) } != 0;
    known && c_bytes(home.dli_fname).ends_with(b"/libc.so.6")
}

/// Returns the inode number to show instead, if the file is one of those above. No real file has device 0.
fn shown_inode(device: u64, inode: u64) -> Option<u64> {
    if inode == 0 {
        return None;
    }
    let is_this = |[its_device, its_inode]: &[AtomicU64; 2]| {
        its_inode.load(Ordering::Relaxed) == inode && its_device.load(Ordering::Relaxed) == device
    };
    if let Some(stream) = STREAMS.iter().position(is_this) {
        return Some(1 + stream as u64);
    }
    let kind = CHANNEL_DEVICES.iter().position(|its_device| its_device.load(Ordering::Relaxed) == device)?;
    let known = &KNOWN_INODES[kind];
    let is_this = |place: &AtomicU64| {
        let before = place.compare_exchange(0, inode, Ordering::Relaxed, Ordering::Relaxed);
        before.is_ok() || before == Err(inode)
    };
    let nth = known.iter().position(is_this)?;
    Some((1 + STREAMS.len() + kind * MAX_INODES + nth) as u64)
}

/// The number of 512-byte blocks that a file of this size takes in memory.
const fn shown_blocks(size: u64) -> u64 {
    size.div_ceil(4096) * 8
}

/// Returns the result of a `stat` call in the C library's form, after hiding what differs from run to run.
unsafe fn finish_stat(result: isize, status: *mut libc::stat) -> i32 {
    if result < 0 {
        sys::set_errno(-result as i32);
        return -1;
    }
    // SAFETY: the kernel has just filled it in.
    let status = unsafe { &mut *status };
    if let Some(inode) = shown_inode(status.st_dev, status.st_ino) {
        let start = START_SECONDS.load(Ordering::Relaxed) as i64;
        (status.st_dev, status.st_ino) = (0, inode);
        (status.st_atime, status.st_mtime, status.st_ctime) = (start, start, start);
        (status.st_atime_nsec, status.st_mtime_nsec, status.st_ctime_nsec) = (0, 0, 0);
        status.st_blocks = shown_blocks(status.st_size as u64) as i64;
    }
    0
}

unsafe extern "C" fn make_fstat(fd: i32, status: *mut libc::stat) -> i32 {
    // SAFETY: the caller's arguments, passed on as received.
    unsafe {
        finish_stat(sys::call(libc::SYS_fstat, [fd as isize as usize, status as usize, 0, 0, 0, 0]), status)
    }
}

unsafe extern "C" fn make_fstatat(fd: i32, path: *const c_char, status: *mut libc::stat, flags: i32) -> i32 {
    let args = [fd as isize as usize, path as usize, status as usize, flags as isize as usize, 0, 0];
    // SAFETY: as above.
    unsafe { finish_stat(sys::call(libc::SYS_newfstatat, args), status) }
}

/// The only version of `struct stat` besides the kernel's own, which is the same here.
const VERSIONS: core::ops::RangeInclusive<i32> = 0..=1;

unsafe extern "C" fn make_fxstat(version: i32, fd: i32, status: *mut libc::stat) -> i32 {
    if !VERSIONS.contains(&version) {
        sys::set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: as above.
    unsafe { make_fstat(fd, status) }
}

unsafe extern "C" fn make_fxstatat(
    version: i32,
    fd: i32,
    path: *const c_char,
    status: *mut libc::stat,
    flags: i32,
) -> i32 {
    if !VERSIONS.contains(&version) {
        sys::set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: as above.
    unsafe { make_fstatat(fd, path, status, flags) }
}

unsafe extern "C" fn make_statx(
    fd: i32,
    path: *const c_char,
    flags: i32,
    mask: u32,
    status: *mut libc::statx,
) -> i32 {
    let args = [fd as isize as usize, path as usize, flags as usize, mask as usize, status as usize, 0];
    // SAFETY: as above.
    let result = unsafe { sys::call(libc::SYS_statx, args) };
    if result < 0 {
        sys::set_errno(-result as i32);
        return -1;
    }
    // SAFETY: the kernel has just filled it in.
    let status = unsafe { &mut *status };
    let device = libc::makedev(status.stx_dev_major, status.stx_dev_minor);
    if let Some(inode) = shown_inode(device, status.stx_ino) {
        let start = START_SECONDS.load(Ordering::Relaxed) as i64;
        (status.stx_dev_major, status.stx_dev_minor, status.stx_mnt_id) = (0, 0, 0);
        status.stx_ino = inode;
        status.stx_blocks = shown_blocks(status.stx_size);
        let times =
            [&mut status.stx_atime, &mut status.stx_btime, &mut status.stx_ctime, &mut status.stx_mtime];
        for time in times {
            (time.tv_sec, time.tv_nsec) = (start, 0);
        }
    }
    0
}

/// Defines entry points that leave nothing of the real values in registers.
macro_rules! entries {
    ($($name:ident => $job:ident)*) => {
        $(
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    ".cfi_startproc",
                    "sub rsp, 8",
                    ".cfi_adjust_cfa_offset 8",
                    "call {}",
                    "add rsp, 8",
                    ".cfi_adjust_cfa_offset -8",
                    clear_caller_saved!(),
                    "ret",
                    ".cfi_endproc",
                    sym $job
                )
            }
        )*
    };
}

entries! {
    fstat => make_fstat
    fstatat => make_fstatat
    fxstat => make_fxstat
    fxstatat => make_fxstatat
    statx => make_statx
}

/// Makes a `stat` call that the program makes by its number; `None` if it is another call.
///
/// # Safety
/// The contract of the system call.
pub(crate) unsafe fn call(number: i64, [a, b, c, d, e, _]: [usize; 6]) -> Option<i32> {
    // SAFETY: the caller's contract.
    unsafe {
        Some(match number {
            libc::SYS_fstat => make_fstat(a as i32, b as *mut libc::stat),
            libc::SYS_newfstatat => {
                make_fstatat(a as i32, b as *const c_char, c as *mut libc::stat, d as i32)
            }
            libc::SYS_statx => {
                let status = (e as *mut c_void).cast();
                make_statx(a as i32, b as *const c_char, c as i32, d as u32, status)
            }
            _ => return None,
        })
    }
}
