//! Creation and closing of descriptors; [`crate::descriptors`] keeps their kinds.

use super::{
    file,
    io::{Answer, Io, finish},
    random,
};
use crate::{
    descriptors::{Descriptor, Peer},
    input::OutputBuffers,
    state::Runtime,
    sys,
    turn::Turn,
};
use core::ffi::c_char;
use unsnarl_model::{ChannelKind, Flags, Op, Order};

/// Makes a system call that creates one descriptor.
unsafe fn make_one(
    runtime: &mut Runtime,
    kind: ChannelKind,
    peer: Peer,
    pc: u64,
    call: i64,
    args: [usize; 6],
) -> i32 {
    runtime.turn(Op::FdOpen, 0, pc);
    // SAFETY: the contract of the system call.
    let result = unsafe { sys::call(call, args) };
    let made = (result >= 0).then(|| runtime.state.descriptors.add(result as i32, kind, peer));
    log_opened(runtime, made, result, 0, pc);
    finish(Ok(result)) as i32
}

/// Creates the counter of a timer descriptor: readers wait for it and reset it.
pub(super) fn make_counter(runtime: &mut Runtime, flags: i32, pc: u64) -> i32 {
    // The flags have the same values for both kinds of descriptors.
    let args = [0, flags as usize, 0, 0, 0, 0];
    // SAFETY: only creates a descriptor.
    unsafe { make_one(runtime, ChannelKind::Event, Peer::Own, pc, libc::SYS_eventfd2, args) }
}

/// Makes a system call that creates two descriptors.
unsafe fn make_pair(
    runtime: &mut Runtime,
    kind: ChannelKind,
    fds: *mut [i32; 2],
    pc: u64,
    call: i64,
    args: [usize; 6],
) -> i32 {
    runtime.turn(Op::FdOpen, 0, pc);
    // SAFETY: the contract of the system call.
    let result = unsafe { sys::call(call, args) };
    // SAFETY: the kernel has written both.
    let pair = if result == 0 { unsafe { *fds } } else { [0; 2] };
    let made = (result == 0).then(|| runtime.state.descriptors.add_pair(pair, kind));
    log_opened(runtime, made, if result == 0 { pair[0] as isize } else { result }, pair[1], pc);
    finish(Ok(result)) as i32
}

fn log_opened(runtime: &mut Runtime, made: Option<Descriptor>, result: isize, second: i32, pc: u64) {
    let addr = made.map_or(0, |made| made.channel.as_addr()) as usize;
    let (flags, value) = if made.is_some() {
        (Flags::NONE, second as u64)
    } else {
        (Flags::FAILED, result.unsigned_abs() as u64)
    };
    let fd = if made.is_some() { result as u64 } else { 0 };
    runtime.log_access(Op::FdOpen, flags, pc, (addr, fd, Order::Relaxed), value);
}

/// Closes a descriptor, or makes another call that its peer notices.
unsafe fn close_or_shut_down(runtime: &mut Runtime, fd: i32, pc: u64, call: i64, args: [usize; 6]) -> isize {
    let io = Io { op: Op::FdClose, fd, events: 0, at_once: true, pc };
    let known = runtime.state.descriptors.lookup(fd);
    if let Some(on) = known {
        runtime.turn(Op::FdClose, on.channel.as_addr() as usize, pc);
    }
    let result = match known {
        // SAFETY: the call writes nothing to the program's memory.
        Some(on) if call == libc::SYS_shutdown => unsafe {
            runtime
                .answer((Op::FdClose, on, Turn::Go), args[1], &OutputBuffers::NONE, || sys::call(call, args))
        },
        // SAFETY: the contract of the system call.
        _ => unsafe { sys::call(call, args) },
    };
    if call == libc::SYS_close {
        runtime.state.descriptors.forget(fd);
        runtime.state.open_files.set(fd, 0);
        runtime.state.file_locks_changed += 1;
        runtime.state.forget_timer_of(fd);
    }
    if let Some(on) = known {
        runtime.log_io(&io, on, Flags::NONE, result);
    }
    result
}

/// Closes a descriptor on behalf of the C library.
pub(super) unsafe fn close_for_library(runtime: &mut Runtime, fd: i32, pc: u64) -> isize {
    // SAFETY: the contract of the system call.
    unsafe { close_or_shut_down(runtime, fd, pc, libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) }
}

/// Forgets what is known of a descriptor: its kind is determined when it is used.
fn forget_kind(runtime: &mut Runtime, fd: i32) -> i32 {
    if fd >= 0 {
        runtime.state.descriptors.forget(fd);
        runtime.state.open_files.set(fd, 0);
    }
    fd
}

/// Opens a file, or a random device that the plan replaces.
#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
extern "C-unwind" fn opened(
    runtime: &mut Runtime,
    (at, path): (i32, *const c_char),
    flags: i32,
    pc: u64,
    call: impl FnOnce() -> i32,
) -> i32 {
    if let Some(fd) = random::device(runtime, pc, path, flags) {
        return forget_kind(runtime, fd);
    }
    file::open(runtime, (at, path), flags, pc, |runtime| forget_kind(runtime, call()), |&fd| fd)
}

/// `fcntl` as the system call.
pub(super) unsafe fn control(
    runtime: &mut Runtime,
    fd: i32,
    command: i32,
    argument: usize,
    pc: u64,
) -> Answer {
    // SAFETY: the contract of the system call.
    let call = || unsafe { sys::call(libc::SYS_fcntl, [fd as usize, command as usize, argument, 0, 0, 0]) };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            let result = call();
            if result >= 0 {
                runtime.state.descriptors.duplicate(fd, result as i32);
                runtime.state.open_files.duplicate(fd, result as i32);
            }
            Ok(result)
        }
        libc::F_SETLKW | libc::F_OFD_SETLKW | libc::F_SETLK | libc::F_OFD_SETLK => {
            // SAFETY: the program's description of the lock.
            unsafe { super::file_lock::by_fcntl(runtime, fd, command, argument, pc) }
        }
        _ => Ok(call()),
    }
}

hooks! {
    fn pipe(fds: *mut [i32; 2]) -> i32, |runtime, pc| {
        make_pair(runtime, ChannelKind::Pipe, fds, pc, libc::SYS_pipe2, [fds as usize, 0, 0, 0, 0, 0])
    }

    fn pipe2(fds: *mut [i32; 2], flags: i32) -> i32, |runtime, pc| {
        make_pair(runtime, ChannelKind::Pipe, fds, pc, libc::SYS_pipe2, [fds as usize, flags as usize, 0, 0, 0, 0])
    }

    fn socketpair(domain: i32, kind: i32, protocol: i32, fds: *mut [i32; 2]) -> i32, |runtime, pc| {
        let args = [domain as usize, kind as usize, protocol as usize, fds as usize, 0, 0];
        make_pair(runtime, ChannelKind::Pair, fds, pc, libc::SYS_socketpair, args)
    }

    fn socket(domain: i32, kind: i32, protocol: i32) -> i32, |runtime, pc| {
        let args = [domain as usize, kind as usize, protocol as usize, 0, 0, 0];
        make_one(runtime, ChannelKind::Socket, Peer::Environment, pc, libc::SYS_socket, args)
    }

    fn eventfd(count: u32, flags: i32) -> i32, |runtime, pc| {
        make_one(runtime, ChannelKind::Event, Peer::Own, pc, libc::SYS_eventfd2, [count as usize, flags as usize, 0, 0, 0, 0])
    }

    fn epoll_create(size: i32) -> i32, |runtime, pc| {
        make_one(runtime, ChannelKind::Set, Peer::Own, pc, libc::SYS_epoll_create, [size as usize, 0, 0, 0, 0, 0])
    }

    fn epoll_create1(flags: i32) -> i32, |runtime, pc| {
        make_one(runtime, ChannelKind::Set, Peer::Own, pc, libc::SYS_epoll_create1, [flags as usize, 0, 0, 0, 0, 0])
    }

    fn epoll_ctl(set: i32, operation: i32, fd: i32, event: *mut libc::epoll_event) -> i32, |runtime, pc| {
        let result = sys::call(libc::SYS_epoll_ctl, [set as usize, operation as usize, fd as usize, event as usize, 0, 0]);
        if result == 0 && operation == libc::EPOLL_CTL_ADD { runtime.state.descriptors.watch(set, fd) }
        finish(Ok(result)) as i32
    }

    fn close(fd: i32) -> i32, |runtime, pc| {
        finish(Ok(close_or_shut_down(runtime, fd, pc, libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]))) as i32
    }

    fn shutdown(fd: i32, how: i32) -> i32, |runtime, pc| {
        finish(Ok(close_or_shut_down(runtime, fd, pc, libc::SYS_shutdown, [fd as usize, how as usize, 0, 0, 0, 0]))) as i32
    }

    fn dup(fd: i32) -> i32, |runtime, pc| {
        let result = sys::call(libc::SYS_dup, [fd as usize, 0, 0, 0, 0, 0]);
        if result >= 0 {
            runtime.state.descriptors.duplicate(fd, result as i32);
            runtime.state.open_files.duplicate(fd, result as i32);
        }
        finish(Ok(result)) as i32
    }

    fn dup2(fd: i32, to: i32) -> i32, |runtime, pc| {
        let result = finish(Ok(close_or_shut_down(runtime, to, pc, libc::SYS_dup2, [fd as usize, to as usize, 0, 0, 0, 0]))) as i32;
        if result >= 0 && fd != to {
            runtime.state.descriptors.duplicate(fd, to);
            runtime.state.open_files.duplicate(fd, to);
        }
        result
    }

    fn dup3(fd: i32, to: i32, flags: i32) -> i32, |runtime, pc| {
        let result = finish(Ok(close_or_shut_down(runtime, to, pc, libc::SYS_dup3, [fd as usize, to as usize, flags as usize, 0, 0, 0]))) as i32;
        if result >= 0 {
            runtime.state.descriptors.duplicate(fd, to);
            runtime.state.open_files.duplicate(fd, to);
        }
        result
    }

    fn fcntl(fd: i32, command: i32, argument: usize) -> i32, |runtime, pc| {
        finish(control(runtime, fd, command, argument, pc)) as i32
    }

    fn fcntl64(fd: i32, command: i32, argument: usize) -> i32, |runtime, pc| {
        finish(control(runtime, fd, command, argument, pc)) as i32
    }

    fn open(path: *const c_char, flags: i32, mode: u32) -> i32, |runtime, pc| {
        opened(runtime, (libc::AT_FDCWD, path), flags, pc, || real::open(path, flags, mode))
    }

    fn open64(path: *const c_char, flags: i32, mode: u32) -> i32, |runtime, pc| {
        opened(runtime, (libc::AT_FDCWD, path), flags, pc, || real::open64(path, flags, mode))
    }

    fn openat(at: i32, path: *const c_char, flags: i32, mode: u32) -> i32, |runtime, pc| {
        opened(runtime, (at, path), flags, pc, || real::openat(at, path, flags, mode))
    }

    fn openat64(at: i32, path: *const c_char, flags: i32, mode: u32) -> i32, |runtime, pc| {
        opened(runtime, (at, path), flags, pc, || real::openat64(at, path, flags, mode))
    }

    fn creat(path: *const c_char, mode: u32) -> i32, |runtime, pc| {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        opened(runtime, (libc::AT_FDCWD, path), flags, pc, || real::creat(path, mode))
    }

    fn creat64(path: *const c_char, mode: u32) -> i32, |runtime, pc| {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        opened(runtime, (libc::AT_FDCWD, path), flags, pc, || real::creat64(path, mode))
    }

    fn memfd_create(name: *const c_char, flags: u32) -> i32, |runtime, pc| {
        let fd = real::memfd_create(name, flags);
        forget_kind(runtime, fd)
    }

    fn inotify_init1(flags: i32) -> i32, |runtime, pc| {
        let fd = real::inotify_init1(flags);
        forget_kind(runtime, fd)
    }

    fn inotify_init() -> i32, |runtime, pc| {
        let fd = real::inotify_init();
        forget_kind(runtime, fd)
    }
}
