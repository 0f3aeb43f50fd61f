//! Read-write locks.

use super::mutex::deadline;
use crate::{
    gate::Gate,
    state::{Runtime, State},
    thread::Pending,
    turn::Turn,
};
use unsnarl_model::{Flags, Misuse, Op, ThreadIx};

/// The runtime's use of glibc's 56 bytes; all zeros is a free lock, and the kind is where initialisers store
/// it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RwLock {
    readers: u32,
    writer: u32,
    destroyed: u32,
    unused: [u32; 9],
    kind: u32,
}

const PREFER_WRITERS: u32 = 2;

impl RwLock {
    pub(crate) fn writer(&self) -> u32 {
        self.writer
    }

    /// Returns whether a reader can enter. A lock that prefers writers makes readers wait behind a waiting
    /// writer, even if they hold it already.
    pub(crate) fn can_read_lock(&self, state: &State, reader: ThreadIx) -> bool {
        let free = self.writer == 0 || self.destroyed != 0;
        let here: *const Self = self;
        free && (self.kind != PREFER_WRITERS
            || !state
                .waiters(|gate| matches!(gate, Gate::Write(other) if core::ptr::eq(*other, here)))
                .any(|w| w != reader))
    }

    pub(crate) fn can_write_lock(&self) -> bool {
        (self.writer == 0 && self.readers == 0) || self.destroyed != 0
    }
}

unsafe fn lock(runtime: &mut Runtime, lock: *mut RwLock, pc: u64, write: bool, deadline: u64) -> i32 {
    let op = if write { Op::WriteLock } else { Op::ReadLock };
    // SAFETY: the program's lock.
    let l = unsafe { &mut *lock };
    let state = &mut runtime.state;
    if l.writer == state.me().tid && l.destroyed == 0 {
        runtime.turn(op, lock as usize, pc);
        runtime.log(op, Flags::FAILED, pc, lock as usize, 0);
        return libc::EDEADLK;
    }
    if write && state.me().read_held.contains(&(lock as usize)) {
        state.warn(Misuse::Relock, pc, lock as usize, "it holds the lock for reading");
    }
    let gate = if write { Gate::Write(lock) } else { Gate::Read(lock) };
    let turn = runtime.wait_turn(Pending { op, pc, addr: lock as u64, gate, deadline, cancellable: false });
    // A waiting writer may have kept readers out: re-evaluate them now.
    runtime.state.changed(lock as usize);
    if turn == Turn::TimedOut {
        runtime.log(op, Flags::TIMED_OUT, pc, lock as usize, 0);
        return libc::ETIMEDOUT;
    }
    // SAFETY: the program's lock, and it is the running thread's turn.
    unsafe { taken(runtime, lock, pc, op, write) }
}

/// Takes the lock at the thread's turn, when it is free for the thread.
unsafe fn taken(runtime: &mut Runtime, lock: *mut RwLock, pc: u64, op: Op, write: bool) -> i32 {
    // SAFETY: the program's lock.
    let l = unsafe { &mut *lock };
    let state = &mut runtime.state;
    if l.destroyed != 0 {
        state.warn(Misuse::UseDestroyed, pc, lock as usize, "");
        runtime.log(op, Flags::FAILED, pc, lock as usize, 0);
        return libc::EINVAL;
    }
    if write {
        l.writer = state.me().tid;
    } else {
        l.readers += 1;
        state.me().read_held.push(lock as usize);
    }
    state.changed(lock as usize);
    runtime.log(op, Flags::NONE, pc, lock as usize, 0);
    0
}

/// Tries to take the lock; returns an error at once if it is held.
unsafe fn attempt(runtime: &mut Runtime, lock: *mut RwLock, pc: u64, write: bool) -> i32 {
    let op = if write { Op::TryWriteLock } else { Op::TryReadLock };
    runtime.turn(op, lock as usize, pc);
    // SAFETY: the program's lock.
    let l = unsafe { &mut *lock };
    let me = runtime.state.current;
    if if write { l.can_write_lock() } else { l.can_read_lock(&runtime.state, me) } {
        // SAFETY: the lock is free, and it is the running thread's turn.
        return unsafe { taken(runtime, lock, pc, op, write) };
    }
    runtime.log(op, Flags::FAILED, pc, lock as usize, 0);
    libc::EBUSY
}

unsafe fn until(
    runtime: &mut Runtime,
    l: *mut RwLock,
    pc: u64,
    write: bool,
    clock: i32,
    at: *const libc::timespec,
) -> i32 {
    // SAFETY: the program's time and lock.
    unsafe {
        match deadline(&runtime.state.clock, clock, at) {
            Some(deadline) => lock(runtime, l, pc, write, deadline),
            None => libc::EINVAL,
        }
    }
}

type Attr = libc::pthread_rwlockattr_t;
type Time = libc::timespec;

hooks! {
    fn pthread_rwlock_init(lock: *mut RwLock, attr: *const Attr) -> i32, |runtime, pc| {
        runtime.turn(Op::RwInit, lock as usize, pc);
        let error = real::pthread_rwlock_init(lock, attr);
        runtime.log(Op::RwInit, Flags::NONE, pc, lock as usize, 0);
        error
    }

    fn pthread_rwlock_destroy(lock: *mut RwLock) -> i32, |runtime, pc| {
        runtime.turn(Op::RwDestroy, lock as usize, pc);
        let l = &mut *lock;
        if l.writer != 0 || l.readers != 0 {
            runtime.state.warn(Misuse::DestroyBusy, pc, lock as usize, "");
        }
        l.destroyed = 1;
        runtime.log(Op::RwDestroy, Flags::NONE, pc, lock as usize, 0);
        0
    }

    fn pthread_rwlock_rdlock(l: *mut RwLock) -> i32, |runtime, pc| {
        lock(runtime, l, pc, false, u64::MAX)
    }

    fn pthread_rwlock_wrlock(l: *mut RwLock) -> i32, |runtime, pc| {
        lock(runtime, l, pc, true, u64::MAX)
    }

    fn pthread_rwlock_tryrdlock(l: *mut RwLock) -> i32, |runtime, pc| {
        attempt(runtime, l, pc, false)
    }

    fn pthread_rwlock_trywrlock(l: *mut RwLock) -> i32, |runtime, pc| {
        attempt(runtime, l, pc, true)
    }

    fn pthread_rwlock_timedrdlock(l: *mut RwLock, at: *const Time) -> i32, |runtime, pc| {
        until(runtime, l, pc, false, libc::CLOCK_REALTIME, at)
    }

    fn pthread_rwlock_timedwrlock(l: *mut RwLock, at: *const Time) -> i32, |runtime, pc| {
        until(runtime, l, pc, true, libc::CLOCK_REALTIME, at)
    }

    fn pthread_rwlock_clockrdlock(l: *mut RwLock, clock: i32, at: *const Time) -> i32, |runtime, pc| {
        until(runtime, l, pc, false, clock, at)
    }

    fn pthread_rwlock_clockwrlock(l: *mut RwLock, clock: i32, at: *const Time) -> i32, |runtime, pc| {
        until(runtime, l, pc, true, clock, at)
    }

    fn pthread_rwlock_unlock(lock: *mut RwLock) -> i32, |runtime, pc| {
        runtime.turn(Op::RwUnlock, lock as usize, pc);
        let l = &mut *lock;
        let state = &mut runtime.state;
        let me = state.me();
        let wrote = l.writer == me.tid;
        let mut held = wrote;
        if wrote {
            l.writer = 0;
        } else if let Some(at) = me.read_held.iter().rposition(|&held| held == lock as usize) {
            me.read_held.remove(at);
            l.readers = l.readers.saturating_sub(1);
            held = true;
        } else if l.writer != 0 {
            l.writer = 0;
        } else {
            l.readers = l.readers.saturating_sub(1);
            // The caller released another thread's read lock: remove it there.
            let mut threads = state.threads.iter_mut();
            let found = threads.find_map(|t| Some((t.read_held.iter().rposition(|&h| h == lock as usize)?, t)));
            if let Some((at, reader)) = found {
                reader.read_held.remove(at);
            }
        }
        if !held {
            state.warn(Misuse::UnlockNotHeld, pc, lock as usize, "");
        }
        state.changed(lock as usize);
        runtime.log(Op::RwUnlock, if held { Flags::NONE } else { Flags::FAILED }, pc, lock as usize, wrote.into());
        0
    }
}
