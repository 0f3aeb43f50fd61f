//! Condition variables. A wait is two steps: it begins, and it ends with the mutex held again.
//!
//! | operation | enabled | effect | touches | happens-before |
//! | --- | --- | --- | --- | --- |
//! | init, destroy | always | none | writes the condition | none |
//! | wait | always | releases one level of the mutex; the thread waits | writes condition and mutex; reads the mutex if it failed | releases the mutex |
//! | wake | a wake-up is there, or time passes; and the mutex is free | takes the wake-up and the mutex, however the wait ended | writes condition and mutex | acquires the mutex; after the waking event |
//! | signal, broadcast | always | leaves a wake-up for each woken thread | writes the condition; reads it if nobody waits | before the wakes that it causes |
//!
//! Any thread that waited before a signal may take its wake-up. Which one does is decided by the schedule.

use crate::{
    LockMode, OpResult,
    contradiction::Contradiction,
    edge::{Edge, SyncPoint},
    lock_effects::{HeldLock, LockEffect},
    machine::{Blocker, Enabled, LockChange, LockRequest, Machine},
    step::Step,
    touch::{SharedObject, Touch},
};
use unsnarl_model::{Event, Op, ThreadIx};

/// An operation on a condition variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CondOp {
    /// It is initialised.
    Init {
        /// Its address.
        cond: u64,
    },
    /// It is destroyed.
    Destroy {
        /// Its address.
        cond: u64,
    },
    /// The mutex is released and the wait begins.
    Wait {
        /// The condition variable's address.
        cond: u64,
        /// The mutex's address.
        mutex: u64,
        /// The mutex's recursion depth afterwards.
        remaining: u64,
    },
    /// The wait is over and the mutex is held again.
    Wake {
        /// The condition variable's address.
        cond: u64,
        /// The mutex's address; `None` if the thread died before it had the mutex.
        mutex: Option<u64>,
        /// The event that woke the thread; `None` if none did.
        waker: Option<u64>,
    },
    /// Waiters are woken.
    Signal {
        /// The condition variable's address.
        cond: u64,
        /// The number of waiters woken.
        woken: u64,
        /// True if all waiters are meant.
        broadcast: bool,
    },
}

impl CondOp {
    #[inline]
    pub(crate) fn decode(event: &Event) -> Self {
        let cond = event.addr;
        match event.op {
            Op::CondInit => Self::Init { cond },
            Op::CondDestroy => Self::Destroy { cond },
            Op::CondWait => Self::Wait { cond, mutex: event.value, remaining: event.size },
            Op::CondWake => {
                Self::Wake { cond, mutex: (event.value != 0).then_some(event.value), waker: event.waker() }
            }
            op => Self::Signal { cond, woken: event.value, broadcast: op == Op::Broadcast },
        }
    }

    /// Returns the condition variable's address.
    #[must_use]
    #[inline]
    pub const fn cond(&self) -> u64 {
        match *self {
            Self::Init { cond }
            | Self::Destroy { cond }
            | Self::Wait { cond, .. }
            | Self::Wake { cond, .. }
            | Self::Signal { cond, .. } => cond,
        }
    }

    #[inline]
    pub(crate) fn touches(&self, result: OpResult, emit: &mut impl FnMut(Touch)) {
        match *self {
            Self::Init { cond } | Self::Destroy { cond } => emit(Touch::writes(SharedObject::Cond(cond))),
            Self::Wait { cond, mutex, .. } if result.succeeded() => {
                emit(Touch::writes(SharedObject::Cond(cond)));
                emit(Touch::writes(SharedObject::Lock(mutex)));
            }
            Self::Wait { mutex, .. } => emit(Touch::reads(SharedObject::Lock(mutex))),
            Self::Wake { cond, mutex, .. } => {
                emit(Touch::writes(SharedObject::Cond(cond)));
                if let Some(mutex) = mutex {
                    emit(Touch::writes(SharedObject::Lock(mutex)));
                }
            }
            Self::Signal { cond, woken, .. } => emit(Touch::writes_if(woken > 0, SharedObject::Cond(cond))),
        }
    }

    #[inline]
    pub(crate) fn edges(&self, result: OpResult, mut emit: impl FnMut(Edge)) {
        match *self {
            Self::Wait { mutex, .. } if result.succeeded() => emit(Edge::Release(SyncPoint::Lock(mutex))),
            Self::Wake { mutex, waker, .. } => {
                if let Some(mutex) = mutex {
                    emit(Edge::Acquire(SyncPoint::Lock(mutex)));
                }
                if let Some(waker) = waker {
                    emit(Edge::Woken(waker));
                }
            }
            Self::Signal { woken, .. } => emit(Edge::Wakes(Some(woken))),
            Self::Init { .. } | Self::Destroy { .. } | Self::Wait { .. } => {}
        }
    }

    #[inline]
    pub(crate) fn lock_effects(&self, result: OpResult, mut emit: impl FnMut(LockEffect)) {
        let mode = LockMode::Exclusive;
        match *self {
            Self::Wait { mutex: lock, remaining: 0, .. } if result.succeeded() => {
                emit(LockEffect::Released(HeldLock { lock, mode }));
            }
            Self::Wake { mutex: Some(lock), .. } => emit(LockEffect::Acquired(HeldLock { lock, mode })),
            _ => {}
        }
    }

    pub(crate) fn enabled(&self, thread: ThreadIx, result: OpResult, machine: &Machine) -> Enabled {
        let Self::Wake { mutex, waker, .. } = *self else { return Enabled::Yes };
        // However the wait ends, the mutex must be acquired again.
        let mutex =
            mutex.map_or(Enabled::Yes, |mutex| machine.locks.enabled(thread, mutex, LockMode::Exclusive));
        if mutex != Enabled::Yes {
            return mutex;
        }
        match result {
            _ if machine.can_be_woken(thread, waker) => Enabled::Yes,
            OpResult::TimedOut | OpResult::Spurious => Enabled::IfTimePasses,
            OpResult::Cancelled | OpResult::Interrupted | OpResult::Failed => Enabled::Unknown,
            OpResult::Done => Enabled::No { by: Blocker::NotWoken },
        }
    }

    pub(crate) fn apply(
        &self,
        step: &Step,
        machine: &mut Machine,
        emit: &mut impl FnMut(LockChange),
    ) -> Result<(), Contradiction> {
        match *self {
            Self::Wait { cond, mutex, remaining } if step.succeeded() => {
                let is_held = machine.hold_of(step.thread, mutex).is_some();
                // One level of a recursive mutex is released: it may stay held.
                let released = machine.locks.release(step.thread, (mutex, Some(remaining)), emit);
                machine.wait_queues.wait(step.thread, cond, Some(mutex), step.number);
                if is_held { released } else { Err(Contradiction::WaitWithoutLock(mutex)) }
            }
            Self::Wake { mutex, waker, .. } => {
                let begun = machine.wait_queues.wake(step.thread, waker).and_then(|wait| wait.mutex);
                let acquired = match mutex.or(begun) {
                    Some(lock) => {
                        let request =
                            LockRequest { lock, mode: LockMode::Exclusive, attempt: false, depth: None };
                        machine.locks.acquire(step, request, emit)
                    }
                    None => Ok(()),
                };
                if begun.is_some() { acquired } else { Err(Contradiction::NotWaiting) }
            }
            Self::Signal { cond, woken, broadcast } => {
                if broadcast {
                    machine.wait_queues.broadcast(cond, step.number, woken);
                } else {
                    machine.wait_queues.signal(cond, step.number, woken);
                }
                Ok(())
            }
            Self::Init { .. } | Self::Destroy { .. } | Self::Wait { .. } => Ok(()),
        }
    }
}
