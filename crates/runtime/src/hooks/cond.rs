//! Condition variables. The scheduled waiter takes the wake-up of a signal; see [`crate::queue`].

use super::{
    cancel::exit_cancelled,
    mutex::{self, Mutex, deadline},
};
use crate::{gate::Gate, state::Runtime, thread::Pending, turn::Turn};
use unsnarl_model::{Flags, Misuse, Op};

/// The part of glibc's layout that is used. What glibc counts there is left alone: waits under control are
/// not counted, so the C library finds no waiters.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Cond {
    unused: [u32; 9],
    flags: u32,
}

const MONOTONIC: u32 = 2;
/// glibc waits for remaining waiters with this flag, and leaves it in a destroyed variable.
const DESTROYED: u32 = 4;

impl Cond {
    const fn is_destroyed(&self) -> bool {
        self.flags & DESTROYED != 0
    }

    const fn clock(&self) -> i32 {
        if self.flags & MONOTONIC != 0 { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME }
    }
}

/// Releases the mutex, waits and reacquires the mutex. Returns an error number and whether the thread was
/// cancelled.
unsafe fn wait(
    runtime: &mut Runtime,
    cond: *mut Cond,
    mutex: *mut Mutex,
    pc: u64,
    deadline: u64,
) -> (i32, bool) {
    let object = cond as usize;
    runtime.turn(Op::CondWait, object, pc);
    let state = &mut runtime.state;
    // SAFETY: the program's objects.
    let (owner, checks, destroyed) =
        unsafe { ((*mutex).owner(), (*mutex).checks_owner(), (*cond).is_destroyed()) };
    if destroyed {
        state.warn(Misuse::UseDestroyed, pc, object, "");
    }
    if owner != state.me().tid {
        state.warn(Misuse::WaitUnlocked, pc, mutex as usize, "");
        if checks {
            runtime.log(Op::CondWait, Flags::FAILED, pc, object, mutex as u64);
            return (libc::EPERM, false);
        }
    }
    // SAFETY: the program's mutex.
    let remaining_depth = unsafe { mutex::release_for_wait(state, mutex) };
    let arrival = state.queues.arrive();
    let me = state.me();
    me.arrival = arrival;
    me.granted = None;
    runtime.log_count(Op::CondWait, Flags::NONE, pc, (object, mutex as u64), remaining_depth.into());

    let gate = Gate::Cond(object, mutex);
    let turn = runtime.wait_turn(Pending {
        op: Op::CondWake,
        pc,
        addr: object as u64,
        gate,
        deadline,
        cancellable: true,
    });
    let state = &mut runtime.state;
    let waker = match (turn, state.me().granted.take()) {
        (Turn::Go, Some(event)) => Some(event),
        (Turn::Go, None) => state.queues.take(object, arrival),
        _ => None,
    };
    if turn == Turn::Cancelled {
        state.forget_surplus_wake_ups(object);
    }
    // Other waiters may have relied on the wake-up that was taken.
    state.changed(object);
    // SAFETY: the gate is open, so the mutex is free for this thread.
    let error = unsafe { mutex::reacquire(state, mutex) };
    runtime.log_woken(Op::CondWake, turn.flags(), pc, (object, mutex as u64), waker);
    let result = if error == 0 && turn == Turn::TimedOut { libc::ETIMEDOUT } else { error };
    (result, turn == Turn::Cancelled)
}

/// Wakes one waiter or all of them.
unsafe fn wake(runtime: &mut Runtime, cond: *mut Cond, pc: u64, all: bool) -> i32 {
    let object = cond as usize;
    let op = if all { Op::Broadcast } else { Op::Signal };
    runtime.turn(op, object, pc);
    let state = &mut runtime.state;
    // SAFETY: the program's object.
    if unsafe { (*cond).is_destroyed() } {
        state.warn(Misuse::UseDestroyed, pc, object, "");
    }
    let event = state.log.count();
    let here = |gate: &Gate| matches!(gate, Gate::Cond(other, _) if *other == object);
    let mut waiters_without_wake_up = 0u64;
    let mut next = 0;
    while let Some(thread) = state.waiting.first_from(next) {
        next = thread.index() + 1;
        let waiter = state.thread(thread);
        if here(&waiter.pending.gate) && waiter.granted.is_none() {
            waiters_without_wake_up += 1;
            if all {
                waiter.granted = Some(event);
            }
        }
    }
    for suspended in state.suspended_at(object).filter(|s| here(&s.gate) && s.granted.is_none()) {
        waiters_without_wake_up += 1;
        if all {
            suspended.granted = Some(event);
        }
    }
    let woken = if all {
        // Each waiter now has its own wake-up.
        while state.queues.take(object, 0).is_some() {}
        waiters_without_wake_up
    } else if waiters_without_wake_up > state.queues.pending(object) as u64 {
        state.queues.signal(object, event);
        1
    } else {
        0
    };
    state.changed(object);
    runtime.log(op, Flags::NONE, pc, object, woken);
    0
}

type Attr = libc::pthread_condattr_t;
type Time = libc::timespec;

hooks! {
    fn pthread_cond_init(cond: *mut Cond, attr: *const Attr) -> i32, |runtime, pc| {
        runtime.turn(Op::CondInit, cond as usize, pc);
        let error = real::pthread_cond_init(cond, attr);
        runtime.log(Op::CondInit, Flags::NONE, pc, cond as usize, 0);
        error
    }

    fn pthread_cond_destroy(cond: *mut Cond) -> i32, |runtime, pc| {
        runtime.turn(Op::CondDestroy, cond as usize, pc);
        let state = &mut runtime.state;
        let object = cond as usize;
        // Woken waiters may still be returning: that is allowed.
        let mut waiters = state.waiters(|gate| matches!(gate, Gate::Cond(other, _) if *other == object));
        let busy = waiters.any(|w| {
            let waiter = &state.threads[w.index()];
            waiter.granted.is_none() && !state.queues.has_wake_up(object, waiter.arrival)
        });
        drop(waiters);
        if busy {
            state.warn(Misuse::DestroyBusy, pc, object, "");
        }
        (*cond).flags |= DESTROYED;
        runtime.log(Op::CondDestroy, Flags::NONE, pc, object, 0);
        0
    }

    fn pthread_cond_wait(cond: *mut Cond, mutex: *mut Mutex) -> i32, |runtime, pc| {
        let (error, cancelled) = wait(runtime, cond, mutex, pc, u64::MAX);
        if cancelled { exit_cancelled() }
        error
    }

    fn pthread_cond_timedwait(cond: *mut Cond, mutex: *mut Mutex, at: *const Time) -> i32, |runtime, pc| {
        let Some(deadline) = deadline(&runtime.state.clock, (*cond).clock(), at) else { return libc::EINVAL };
        let (error, cancelled) = wait(runtime, cond, mutex, pc, deadline);
        if cancelled { exit_cancelled() }
        error
    }

    fn pthread_cond_clockwait(cond: *mut Cond, mutex: *mut Mutex, clock: i32, at: *const Time) -> i32, |runtime, pc| {
        let Some(deadline) = deadline(&runtime.state.clock, clock, at) else { return libc::EINVAL };
        let (error, cancelled) = wait(runtime, cond, mutex, pc, deadline);
        if cancelled { exit_cancelled() }
        error
    }

    fn pthread_cond_signal(cond: *mut Cond) -> i32, |runtime, pc| {
        wake(runtime, cond, pc, false)
    }

    fn pthread_cond_broadcast(cond: *mut Cond) -> i32, |runtime, pc| {
        wake(runtime, cond, pc, true)
    }
}
