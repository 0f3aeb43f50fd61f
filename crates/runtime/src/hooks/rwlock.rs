//! Read-write locks.

use super::mutex::deadline;
use crate::{
    before_control,
    gate::Gate,
    state::{Runtime, State},
    thread::Pending,
    turn::Turn,
};
use unsnarl_model::{Flags, Misuse, Op, ThreadIx};
use unsnarl_wire::WAITING_WRITER;

/// glibc's layout. The state is the one that glibc would leave there, because the C library itself uses the
/// lock before control begins and in children.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RwLock {
    /// [`ONE_READER`] for each reader, and the bits of the phase and of a writer.
    readers: u32,
    waiting_writers: u32,
    /// 1 in a phase of writers.
    write_phase: u32,
    /// 1 while there is a writer.
    has_writer: u32,
    /// Padding of glibc's, which is always zero there.
    destroyed: u32,
    padding: u32,
    /// The id of the thread that holds the lock for writing.
    writer: u32,
    unused: [u32; 5],
    kind: u32,
}

const PREFER_WRITERS: u32 = 2;

/// The phase of writers: readers cannot enter without a change of the phase.
const WRITE_PHASE: u32 = 1;
const WRITE_LOCKED: u32 = 2;
const ONE_READER: u32 = 8;

impl RwLock {
    /// Returns the thread id of the writer that holds the lock, or 0.
    pub(crate) fn writer(&self) -> u32 {
        if self.readers & WRITE_LOCKED == 0 { 0 } else { before_control::owner(self.writer) }
    }

    const fn readers(&self) -> u32 {
        self.readers / ONE_READER
    }

    fn add_reader(&mut self) {
        (self.readers, self.write_phase) = ((self.readers() + 1) * ONE_READER, 0);
    }

    fn remove_reader(&mut self) {
        self.readers = self.readers().saturating_sub(1) * ONE_READER;
    }

    fn set_writer(&mut self, thread: u32) {
        (self.readers, self.writer) = (WRITE_PHASE | WRITE_LOCKED, thread);
        (self.write_phase, self.has_writer) = (1, 1);
    }

    fn clear_writer(&mut self) {
        (self.readers, self.writer, self.write_phase, self.has_writer) = (0, 0, 0, 0);
    }

    /// Returns whether a reader can enter. A lock that prefers writers makes readers wait behind a waiting
    /// writer, even if they hold it already.
    pub(crate) fn can_read_lock(&self, state: &State, reader: ThreadIx) -> bool {
        let free = self.readers & WRITE_LOCKED == 0 || self.destroyed != 0;
        if !free || self.kind != PREFER_WRITERS {
            return free;
        }
        let here: *const Self = self;
        let writer_waits = state
            .waiters(|gate| matches!(gate, Gate::Write(other) if core::ptr::eq(*other, here)))
            .any(|w| w != reader);
        if writer_waits {
            state.log.note_influence(WAITING_WRITER);
        }
        !writer_waits
    }

    pub(crate) fn can_write_lock(&self) -> bool {
        self.readers & !WRITE_PHASE == 0 || self.destroyed != 0
    }
}

unsafe fn lock(runtime: &mut Runtime, lock: *mut RwLock, pc: u64, write: bool, deadline: u64) -> i32 {
    let op = if write { Op::WriteLock } else { Op::ReadLock };
    // SAFETY: the program's lock.
    let l = unsafe { &mut *lock };
    let state = &mut runtime.state;
    if l.writer() == state.me().tid && l.destroyed == 0 {
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
        l.set_writer(state.me().tid);
    } else {
        l.add_reader();
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

impl State {
    /// Returns whether the running thread is the first one and took the lock for reading before control began.
    fn has_reader_from_before(&self, lock: *mut RwLock) -> bool {
        let held = self.threads.iter().flat_map(|t| &t.read_held).filter(|&&held| held == lock as usize);
        // SAFETY: the program's lock.
        self.current == ThreadIx::MAIN && (held.count() as u32) < unsafe { (*lock).readers() }
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
        if !l.can_write_lock() {
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
        let wrote = l.writer() == me.tid;
        let mut held = wrote;
        if wrote {
            l.clear_writer();
        } else if let Some(at) = me.read_held.iter().rposition(|&held| held == lock as usize) {
            me.read_held.remove(at);
            l.remove_reader();
            held = true;
        } else if l.writer() != 0 {
            l.clear_writer();
        } else if state.has_reader_from_before(lock) {
            l.remove_reader();
            held = true;
        } else {
            l.remove_reader();
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
