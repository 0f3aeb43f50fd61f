//! Mutexes: normal, recursive, error-checking, robust.
//!
//! The state is kept where glibc keeps it, in the program's object: static initialisers work, debuggers find
//! what they expect, and no lookup is needed.

use super::ids;
use crate::{
    before_control,
    clock::{VirtualClock, waits_by},
    gate::Gate,
    state::{Runtime, State},
    thread::{Pending, Thread},
    turn::Turn,
};
use unsnarl_model::{Flags, Misuse, Op};

/// glibc's layout.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Mutex {
    locked: i32,
    depth: u32,
    owner: u32,
    users: u32,
    kind: i32,
    /// The health of a robust mutex, stored where glibc counts spins; no thread spins under control.
    health: i16,
}

const RECURSIVE: i32 = 1;
const ERROR_CHECKING: i32 = 2;
const TYPE: i32 = 3;
const ROBUST: i32 = 16;
const INHERITS_PRIORITY: i32 = 32;
const DESTROYED: i32 = -1;
/// Values that glibc stores instead of an owner: the data of a robust mutex must be repaired, or was not.
const OWNER_INCONSISTENT: u32 = i32::MAX as u32;
const OWNER_LOST: u32 = OWNER_INCONSISTENT - 1;
/// glibc stores the owner of a robust mutex in the lock word too, with this bit if it has ended.
const OWNER_DIED: i32 = 0x4000_0000;
const OWNER_BITS: i32 = 0x3fff_ffff;

/// The owner of a robust mutex ended, and no thread has locked it since.
const ORPHANED: i16 = 1;
/// A thread has locked it since and must repair the data it guards.
const INCONSISTENT: i16 = 2;
/// The data was not repaired; the mutex is unusable.
const LOST: i16 = 3;

impl Mutex {
    pub(crate) fn owner(&self) -> u32 {
        if self.locked == 0 { 0 } else { before_control::owner(self.owner) }
    }

    /// Makes a mutex that was locked before control began one of the runtime's.
    #[inline]
    fn take_over(&mut self) {
        const FIRST: u32 = ids::PROCESS as u32;
        // All owners under control have ids from here on, and all others are outside this range.
        if self.locked != 0 && self.owner.wrapping_sub(FIRST) > u32::from(u16::MAX) {
            self.take_over_foreign();
        }
    }

    #[cold]
    fn take_over_foreign(&mut self) {
        if !self.is_robust() {
            self.owner = before_control::owner(self.owner);
            return;
        }
        if self.owner == OWNER_INCONSISTENT {
            self.health = INCONSISTENT;
        }
        self.owner = before_control::owner((self.locked & OWNER_BITS) as u32);
        if self.locked & OWNER_DIED != 0 {
            self.health = ORPHANED;
            (self.locked, self.owner, self.depth, self.users) = (OWNER_DIED, 0, 0, 0);
        }
    }

    const fn is_free(&self) -> bool {
        self.locked == 0 || self.locked == OWNER_DIED
    }

    fn is_lost(&self) -> bool {
        self.is_robust() && (self.health == LOST || (self.locked == 0 && self.owner == OWNER_LOST))
    }

    /// Returns whether a lock by this thread would return now.
    pub(crate) fn can_lock(&self, thread: &Thread) -> bool {
        self.is_free() || self.kind == DESTROYED || (self.owner == thread.tid && self.knows_its_owner())
    }

    /// Returns whether a second lock by the owner returns: of the four types, normal and adaptive do not
    /// check the owner.
    fn knows_its_owner(&self) -> bool {
        matches!(self.kind & TYPE, RECURSIVE | ERROR_CHECKING)
    }

    /// Returns whether only the owner can unlock it.
    pub(crate) fn checks_owner(&self) -> bool {
        self.knows_its_owner() || self.is_robust()
    }

    fn is_robust(&self) -> bool {
        self.kind & ROBUST != 0
    }
}

/// A mutex that a thread holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    mutex: *mut Mutex,
    /// True if it is robust; kept here because the memory of other mutexes may be gone when the thread ends.
    robust: bool,
}

/// Locks the mutex for the running thread at its turn; returns the error number.
pub(crate) unsafe fn acquire(state: &mut State, mutex: *mut Mutex) -> i32 {
    let me = state.me();
    // SAFETY: the program's mutex.
    let m = unsafe { &mut *mutex };
    m.locked = 1;
    m.owner = me.tid;
    m.depth = 1;
    m.users = 1;
    me.held.push(Held { mutex, robust: m.is_robust() });
    let orphaned = m.is_robust() && m.health == ORPHANED;
    if orphaned {
        m.health = INCONSISTENT;
    }
    state.changed(mutex as usize);
    if orphaned { libc::EOWNERDEAD } else { 0 }
}

/// Frees the mutex.
pub(crate) unsafe fn release(state: &mut State, mutex: *mut Mutex) {
    // SAFETY: the program's mutex.
    let m = unsafe { &mut *mutex };
    let owner = m.owner;
    (m.locked, m.owner, m.depth, m.users) = (0, 0, 0, 0);
    if m.health == INCONSISTENT {
        m.health = LOST;
        m.owner = OWNER_LOST;
    }
    if let Some(holder) = state.by_tid(owner) {
        state.thread(holder).forget_held(mutex);
    }
    state.changed(mutex as usize);
}

impl Thread {
    /// Removes the mutex from those the thread holds.
    fn forget_held(&mut self, mutex: *mut Mutex) {
        if let Some(at) = self.held.iter().rposition(|held| held.mutex == mutex) {
            self.held.remove(at);
        }
    }
}

/// Unlocks the mutex for a wait on a condition variable. As in glibc, only the latest lock of a recursive
/// mutex is released: if it is held more than once, it stays locked during the wait.
pub(crate) unsafe fn release_for_wait(state: &mut State, mutex: *mut Mutex) -> u32 {
    // SAFETY: the program's mutex.
    let m = unsafe { &mut *mutex };
    if m.kind & TYPE == RECURSIVE && m.depth > 1 {
        m.depth -= 1;
        m.depth
    } else {
        // SAFETY: the program's mutex.
        unsafe { release(state, mutex) };
        0
    }
}

/// Locks the mutex after such a wait, when it is free for the running thread; returns the error number.
pub(crate) unsafe fn reacquire(state: &mut State, mutex: *mut Mutex) -> i32 {
    // SAFETY: the program's mutex.
    let m = unsafe { &mut *mutex };
    m.take_over();
    if m.locked != 0 && m.owner == state.me().tid {
        m.depth += 1;
        return 0;
    }
    if m.is_lost() {
        return libc::ENOTRECOVERABLE;
    }
    // SAFETY: the lock is free, and it is the running thread's turn.
    unsafe { acquire(state, mutex) }
}

/// Orphans the mutexes of the running thread, which ends: robust ones go to the next thread that locks them,
/// others stay locked for ever.
pub(crate) fn orphan(state: &mut State) {
    while let Some(Held { mutex, robust }) = state.me().held.pop() {
        if robust {
            // SAFETY: glibc keeps robust mutexes in a list that the kernel walks, so their memory must exist.
            let m = unsafe { &mut *mutex };
            // The kernel leaves this value, and children find it there.
            (m.locked, m.owner, m.depth, m.users) = (OWNER_DIED, 0, 0, 0);
            m.health = ORPHANED;
            state.changed(mutex as usize);
        } else {
            state.warn(
                Misuse::EndedHolding,
                state.threads[state.current.index()].pending.pc,
                mutex as usize,
                "",
            );
        }
    }
}

/// Waits for the mutex. An invalid deadline (`None`) matters only if the thread has to wait: it counts as
/// passed.
unsafe fn lock(runtime: &mut Runtime, mutex: *mut Mutex, pc: u64, deadline: Option<u64>) -> i32 {
    // SAFETY: the program's mutex.
    let m = unsafe { &mut *mutex };
    let state = &mut runtime.state;
    m.take_over();
    let mine = m.locked != 0 && m.owner == state.me().tid;
    if mine && !m.knows_its_owner() && m.kind != DESTROYED {
        state.warn(Misuse::Relock, pc, mutex as usize, "");
    }
    let addr = mutex as u64;
    let turn = runtime.wait_turn(Pending {
        op: Op::Lock,
        pc,
        addr,
        gate: Gate::Mutex(mutex),
        deadline: deadline.unwrap_or(0),
        cancellable: false,
    });
    // SAFETY: the program's mutex.
    let error = unsafe { locked(runtime, mutex, pc, Op::Lock, turn) };
    if turn == Turn::TimedOut && deadline.is_none() { libc::EINVAL } else { error }
}

/// Completes a lock operation at the thread's turn; returns the error number.
unsafe fn locked(runtime: &mut Runtime, mutex: *mut Mutex, pc: u64, op: Op, turn: Turn) -> i32 {
    // SAFETY: the program's mutex.
    let m = unsafe { &mut *mutex };
    let addr = mutex as usize;
    let state = &mut runtime.state;
    if turn == Turn::TimedOut {
        runtime.log(op, Flags::TIMED_OUT, pc, addr, 0);
        return libc::ETIMEDOUT;
    }
    m.take_over();
    let mine = m.locked != 0 && m.owner == state.me().tid;
    let failure = if m.kind == DESTROYED {
        state.warn(Misuse::UseDestroyed, pc, addr, "");
        libc::EINVAL
    } else if mine && m.kind & TYPE == RECURSIVE {
        m.depth += 1;
        runtime.log(op, Flags::NONE, pc, addr, m.depth.into());
        return 0;
    } else if !m.is_free() {
        // glibc has separate code for these kinds.
        let is_special = m.kind & (ROBUST | INHERITS_PRIORITY) != 0;
        if op == Op::TryLock && !(mine && is_special && m.kind & TYPE == ERROR_CHECKING) {
            libc::EBUSY
        } else {
            libc::EDEADLK
        }
    } else if m.is_lost() {
        libc::ENOTRECOVERABLE
    } else {
        // SAFETY: the lock is free, and it is the running thread's turn.
        let result = unsafe { acquire(state, mutex) };
        runtime.log(op, Flags::NONE, pc, addr, 1);
        return result;
    };
    runtime.log(op, Flags::FAILED, pc, addr, 0);
    failure
}

/// Returns the deadline of a timed wait; `None` if the time is invalid or the clock cannot be waited by.
pub(crate) unsafe fn deadline(clock: &VirtualClock, id: i32, at: *const libc::timespec) -> Option<u64> {
    // SAFETY: the program's time.
    clock.deadline(id, unsafe { &*at })
}

type Attr = libc::pthread_mutexattr_t;

hooks! {
    fn pthread_mutex_init(mutex: *mut Mutex, attr: *const Attr) -> i32, |runtime, pc| {
        runtime.turn(Op::LockInit, mutex as usize, pc);
        let error = real::pthread_mutex_init(mutex, attr);
        let flags = if error == 0 { Flags::NONE } else { Flags::FAILED };
        runtime.log(Op::LockInit, flags, pc, mutex as usize, 0);
        error
    }

    fn pthread_mutex_destroy(mutex: *mut Mutex) -> i32, |runtime, pc| {
        runtime.turn(Op::LockDestroy, mutex as usize, pc);
        let state = &mut runtime.state;
        let m = &mut *mutex;
        // glibc refuses only if the mutex is locked, or will be by a wait on a condition variable.
        let awaited = |other: &*const Mutex| core::ptr::eq(*other, mutex);
        let is_used = m.locked != 0 || state.waiters(|gate| matches!(gate, Gate::Cond(_, other) if awaited(other))).next().is_some();
        let is_awaited = state.waiters(|gate| matches!(gate, Gate::Mutex(other) if awaited(other))).next().is_some();
        let error = if m.kind == DESTROYED {
            state.warn(Misuse::UseDestroyed, pc, mutex as usize, "destroyed twice");
            0
        } else {
            if is_used || is_awaited {
                state.warn(Misuse::DestroyBusy, pc, mutex as usize, "");
            }
            if is_used && !m.is_robust() {
                libc::EBUSY
            } else {
                m.kind = DESTROYED;
                0
            }
        };
        runtime.log(Op::LockDestroy, if error == 0 { Flags::NONE } else { Flags::FAILED }, pc, mutex as usize, 0);
        error
    }

    fn pthread_mutex_lock(mutex: *mut Mutex) -> i32, |runtime, pc| {
        lock(runtime, mutex, pc, Some(u64::MAX))
    }

    fn pthread_mutex_timedlock(mutex: *mut Mutex, at: *const libc::timespec) -> i32, |runtime, pc| {
        let deadline = deadline(&runtime.state.clock, libc::CLOCK_REALTIME, at);
        lock(runtime, mutex, pc, deadline)
    }

    fn pthread_mutex_clocklock(mutex: *mut Mutex, clock: i32, at: *const libc::timespec) -> i32, |runtime, pc| {
        if !waits_by(clock) { return libc::EINVAL }
        let deadline = deadline(&runtime.state.clock, clock, at);
        lock(runtime, mutex, pc, deadline)
    }

    fn pthread_mutex_trylock(mutex: *mut Mutex) -> i32, |runtime, pc| {
        runtime.turn(Op::TryLock, mutex as usize, pc);
        locked(runtime, mutex, pc, Op::TryLock, Turn::Go)
    }

    fn pthread_mutex_unlock(mutex: *mut Mutex) -> i32, |runtime, pc| {
        runtime.turn(Op::Unlock, mutex as usize, pc);
        let state = &mut runtime.state;
        let m = &mut *mutex;
        m.take_over();
        let mine = m.locked != 0 && m.owner == state.me().tid;
        if m.kind == DESTROYED {
            state.warn(Misuse::UseDestroyed, pc, mutex as usize, "");
        } else if !mine && m.kind & TYPE != ERROR_CHECKING {
            state.warn(Misuse::UnlockNotHeld, pc, mutex as usize, "");
        }
        // A plain mutex does not check its owner: any thread can unlock it.
        let checks = m.checks_owner();
        if m.kind == DESTROYED || (!mine && (checks || m.locked == 0)) {
            runtime.log(Op::Unlock, Flags::FAILED, pc, mutex as usize, 0);
            return if m.kind == DESTROYED { libc::EINVAL } else if checks { libc::EPERM } else { 0 };
        }
        if m.kind & TYPE == RECURSIVE && m.depth > 1 {
            m.depth -= 1;
            runtime.log(Op::Unlock, Flags::NONE, pc, mutex as usize, m.depth.into());
            return if m.health == INCONSISTENT { libc::ENOTRECOVERABLE } else { 0 };
        }
        release(state, mutex);
        runtime.log(Op::Unlock, Flags::NONE, pc, mutex as usize, 0);
        0
    }

    fn pthread_mutex_consistent(mutex: *mut Mutex) -> i32, |runtime, pc| {
        let m = &mut *mutex;
        if m.is_robust() && m.health == INCONSISTENT {
            m.health = 0;
            0
        } else {
            libc::EINVAL
        }
    }
}
