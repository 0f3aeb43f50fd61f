//! Mutexes and spin locks.
//!
//! | operation | enabled | effect | touches | happens-before |
//! | --- | --- | --- | --- | --- |
//! | init, destroy | always | nobody holds the lock | writes the lock | none |
//! | lock | no thread holds it, or this one and it is recursive | the thread holds it, one level deeper if it did before | writes the lock | acquires it |
//! | try lock | always | like lock if it succeeded | writes the lock; reads it if it failed | acquires it if it succeeded |
//! | unlock | always | one level is released | writes the lock; reads it if it failed | releases it |

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

/// An operation on a mutex or spin lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MutexOp {
    /// It is initialised.
    Init {
        /// The lock's address.
        lock: u64,
    },
    /// It is destroyed.
    Destroy {
        /// The lock's address.
        lock: u64,
    },
    /// It is acquired.
    Lock {
        /// The lock's address.
        lock: u64,
        /// The recursion depth afterwards, from 1.
        depth: u64,
        /// True if the thread does not wait for it.
        attempt: bool,
    },
    /// It is released.
    Unlock {
        /// The lock's address.
        lock: u64,
        /// The recursion depth afterwards.
        remaining: u64,
    },
}

impl MutexOp {
    #[inline]
    pub(crate) fn decode(event: &Event) -> Self {
        let lock = event.addr;
        match event.op {
            Op::LockInit => Self::Init { lock },
            Op::LockDestroy => Self::Destroy { lock },
            Op::Unlock => Self::Unlock { lock, remaining: event.value },
            op => Self::Lock { lock, depth: event.value.max(1), attempt: op == Op::TryLock },
        }
    }

    /// Returns the lock's address.
    #[must_use]
    #[inline]
    pub const fn lock(&self) -> u64 {
        match *self {
            Self::Init { lock }
            | Self::Destroy { lock }
            | Self::Lock { lock, .. }
            | Self::Unlock { lock, .. } => lock,
        }
    }

    #[inline]
    pub(crate) fn touches(&self, result: OpResult, emit: &mut impl FnMut(Touch)) {
        let changes = match self {
            Self::Init { .. } | Self::Destroy { .. } => true,
            Self::Lock { .. } | Self::Unlock { .. } => result.succeeded(),
        };
        emit(Touch::writes_if(changes, SharedObject::Lock(self.lock())));
    }

    #[inline]
    pub(crate) fn edges(&self, result: OpResult, mut emit: impl FnMut(Edge)) {
        if !result.succeeded() {
            return;
        }
        match *self {
            Self::Lock { lock, .. } => emit(Edge::Acquire(SyncPoint::Lock(lock))),
            Self::Unlock { lock, .. } => emit(Edge::Release(SyncPoint::Lock(lock))),
            Self::Init { .. } | Self::Destroy { .. } => {}
        }
    }

    #[inline]
    pub(crate) fn lock_effects(&self, result: OpResult, mut emit: impl FnMut(LockEffect)) {
        let mode = LockMode::Exclusive;
        match *self {
            Self::Lock { lock, depth: 1, .. } if result.succeeded() => {
                emit(LockEffect::Acquired(HeldLock { lock, mode }))
            }
            Self::Unlock { lock, remaining: 0 } if result.succeeded() => {
                emit(LockEffect::Released(HeldLock { lock, mode }))
            }
            _ => {}
        }
    }

    pub(crate) fn enabled(&self, thread: ThreadIx, result: OpResult, machine: &Machine) -> Enabled {
        match *self {
            // A thread that locks a mutex again waits for itself, unless the mutex is recursive.
            Self::Lock { lock, attempt: false, depth: ..=1 } if machine.hold_of(thread, lock).is_some() => {
                result.of_blocking(|| Enabled::No { by: Blocker::Holder(thread) })
            }
            Self::Lock { lock, attempt: false, .. } => {
                result.of_blocking(|| machine.locks.enabled(thread, lock, LockMode::Exclusive))
            }
            _ => Enabled::Yes,
        }
    }

    pub(crate) fn apply(
        &self,
        step: &Step,
        machine: &mut Machine,
        emit: &mut impl FnMut(LockChange),
    ) -> Result<(), Contradiction> {
        match *self {
            Self::Init { lock } => machine.locks.reset(lock, emit),
            Self::Lock { lock, attempt, depth } => {
                let depth = Some(depth);
                let request = LockRequest {
                    lock,
                    mode: LockMode::Exclusive,
                    attempt: attempt || step.bounded(),
                    depth,
                };
                if step.succeeded() {
                    return machine.locks.acquire(step, request, emit);
                }
                machine.locks.refuse(step, request, emit);
            }
            Self::Unlock { lock, remaining } if step.succeeded() => {
                return machine.locks.release(step.thread, (lock, Some(remaining)), emit);
            }
            Self::Destroy { .. } | Self::Unlock { .. } => {}
        }
        Ok(())
    }
}
