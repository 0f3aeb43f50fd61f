//! File locks: `flock`, `fcntl`, `lockf`.
//!
//! The kernel says whether a lock is free only by granting it. So a waiting thread tries, and tries again
//! whenever a lock may have been released.

use super::io::{Answer, Cancelled, Io, finish};
use crate::{
    descriptors::{Descriptor, Peer},
    gate::Gate,
    state::Runtime,
    sys,
    thread::Pending,
    turn::Turn,
};
use unsnarl_model::{Channel, ChannelKind, Flags, Op};

/// All file locks are one object: only the kernel knows which file is meant.
const LOCKS: Descriptor = Descriptor::new(Channel { kind: ChannelKind::File, number: 0 }, Peer::Environment);

/// Tries to take the lock. If it is held and `waits` is set, waits until it may be free.
unsafe fn attempt(runtime: &mut Runtime, fd: i32, pc: u64, waits: bool, job: impl Fn() -> isize) -> Answer {
    let io = Io { op: Op::FileLock, fd, events: 0, at_once: !waits, pc };
    let addr = LOCKS.channel.as_addr();
    // The first attempt does not wait in any case.
    runtime.try_turn(Op::FileLock, addr as usize, pc);
    loop {
        let result = job();
        let is_held = matches!(-result as i32, libc::EAGAIN | libc::EACCES) && result < 0;
        if result == 0 {
            // Whatever the call did, other threads may find the lock free now.
            runtime.state.file_locks_changed += 1;
            runtime.state.has_file_locks = true;
        }
        runtime.log_io(&io, LOCKS, Flags::NONE, result);
        if !is_held || !waits {
            return Ok(result);
        }
        let gate = Gate::FileLock(runtime.state.file_locks_changed);
        let pending = Pending { op: Op::FileLock, pc, addr, gate, deadline: u64::MAX, cancellable: true };
        match runtime.wait_turn(pending) {
            Turn::Cancelled => {
                runtime.log_io(&io, LOCKS, Flags::CANCELLED, 0);
                return Err(Cancelled);
            }
            Turn::Interrupted => {
                runtime.log_io(&io, LOCKS, Flags::INTERRUPTED, -libc::EINTR as isize);
                return Ok(-libc::EINTR as isize);
            }
            _ => {}
        }
    }
}

/// # Safety
/// The contract of `fcntl`.
pub(super) unsafe fn by_fcntl(runtime: &mut Runtime, fd: i32, command: i32, lock: usize, pc: u64) -> Answer {
    let (at_once, waits) = match command {
        libc::F_SETLKW => (libc::F_SETLK, true),
        libc::F_OFD_SETLKW => (libc::F_OFD_SETLK, true),
        command => (command, false),
    };
    // SAFETY: the caller's contract.
    let job = || unsafe { sys::call(libc::SYS_fcntl, [fd as usize, at_once as usize, lock, 0, 0, 0]) };
    // SAFETY: the caller's contract.
    unsafe { attempt(runtime, fd, pc, waits, job) }
}

hooks! {
    fn flock(fd: i32, operation: i32) -> i32, |runtime, pc| {
        let job = || sys::call(libc::SYS_flock, [fd as usize, (operation | libc::LOCK_NB) as usize, 0, 0, 0, 0]);
        finish(attempt(runtime, fd, pc, operation & libc::LOCK_NB == 0, job)) as i32
    }

    fn lockf(fd: i32, operation: i32, len: i64) -> i32, |runtime, pc| {
        by_lockf(runtime, fd, operation, len, pc)
    }

    fn lockf64(fd: i32, operation: i32, len: i64) -> i32, |runtime, pc| {
        by_lockf(runtime, fd, operation, len, pc)
    }
}

unsafe extern "C-unwind" fn by_lockf(
    runtime: &'static mut Runtime,
    fd: i32,
    operation: i32,
    len: i64,
    pc: u64,
) -> i32 {
    // SAFETY: all zeros is a read lock on the whole file.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_whence = libc::SEEK_CUR as i16;
    lock.l_len = len;
    lock.l_type = if operation == libc::F_ULOCK { libc::F_UNLCK } else { libc::F_WRLCK } as i16;
    let command = match operation {
        libc::F_LOCK => libc::F_SETLKW,
        libc::F_TLOCK | libc::F_ULOCK => libc::F_SETLK,
        _ => {
            lock.l_type = libc::F_RDLCK as i16;
            let args = [fd as usize, libc::F_GETLK as usize, &raw mut lock as usize, 0, 0, 0];
            // SAFETY: a local description of the lock.
            let result = unsafe { sys::call(libc::SYS_fcntl, args) };
            let free = result < 0 || lock.l_type == libc::F_UNLCK as i16;
            return finish(Ok(if free { result } else { -libc::EACCES as isize })) as i32;
        }
    };
    // SAFETY: a local description of the lock.
    finish(unsafe { by_fcntl(runtime, fd, command, &raw mut lock as usize, pc) }) as i32
}
