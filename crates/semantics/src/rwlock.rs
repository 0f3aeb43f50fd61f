//! Read-write locks.
//!
//! | operation | enabled | effect | touches | happens-before |
//! | --- | --- | --- | --- | --- |
//! | init, destroy | always | nobody holds the lock | writes the lock | none |
//! | read lock | no other thread holds it for writing | the thread is one of its readers | reads the lock | acquires what writers released |
//! | write lock | no other thread holds it | the thread holds it | writes the lock, even if it failed | acquires what writers and readers released |
//! | try | always | like the lock if it succeeded | like the lock | like the lock if it succeeded |
//! | unlock | always | one hold is released | a reader's reads the lock, a writer's writes it | releases it to writers, or to all |
//!
//! Locks that prefer writers also block readers while a writer waits. The waiting writer is no event, so that
//! is not modelled.

use crate::{
    LockMode, OpResult,
    contradiction::Contradiction,
    edge::{Edge, SyncPoint},
    lock_effects::{HeldLock, LockEffect},
    machine::{Enabled, LockChange, LockRequest, Machine},
    step::Step,
    touch::{SharedObject, Touch},
};
use unsnarl_model::{Event, Op, ThreadIx};

/// An operation on a read-write lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RwLockOp {
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
        /// For reading or for writing.
        mode: LockMode,
        /// True if the thread does not wait for it.
        attempt: bool,
    },
    /// It is released.
    Unlock {
        /// The lock's address.
        lock: u64,
        /// The mode in which it was held.
        mode: LockMode,
    },
}

impl RwLockOp {
    #[inline]
    pub(crate) fn decode(event: &Event) -> Self {
        let lock = event.addr;
        let (mode, attempt) = match event.op {
            Op::RwInit => return Self::Init { lock },
            Op::RwDestroy => return Self::Destroy { lock },
            Op::ReadLock => (LockMode::Shared, false),
            Op::TryReadLock => (LockMode::Shared, true),
            Op::WriteLock => (LockMode::Exclusive, false),
            Op::TryWriteLock => (LockMode::Exclusive, true),
            _ => {
                let mode = if event.value == 1 { LockMode::Exclusive } else { LockMode::Shared };
                return Self::Unlock { lock, mode };
            }
        };
        Self::Lock { lock, mode, attempt }
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
        let changes = match *self {
            Self::Init { .. } | Self::Destroy { .. } => true,
            // No reader may begin or end meanwhile, even if it fails.
            Self::Lock { mode, .. } => mode == LockMode::Exclusive,
            Self::Unlock { mode, .. } => mode == LockMode::Exclusive || !result.succeeded(),
        };
        emit(Touch::writes_if(changes, SharedObject::RwLock(self.lock())));
    }

    #[inline]
    pub(crate) fn edges(&self, result: OpResult, mut emit: impl FnMut(Edge)) {
        if !result.succeeded() {
            return;
        }
        match *self {
            Self::Lock { lock, mode, .. } => {
                emit(Edge::Acquire(SyncPoint::Lock(lock)));
                if mode == LockMode::Exclusive {
                    emit(Edge::Acquire(SyncPoint::Readers(lock)));
                }
            }
            Self::Unlock { lock, mode: LockMode::Shared } => emit(Edge::Release(SyncPoint::Readers(lock))),
            Self::Unlock { lock, mode: LockMode::Exclusive } => emit(Edge::Release(SyncPoint::Lock(lock))),
            Self::Init { .. } | Self::Destroy { .. } => {}
        }
    }

    #[inline]
    pub(crate) fn lock_effects(&self, result: OpResult, mut emit: impl FnMut(LockEffect)) {
        match *self {
            Self::Lock { lock, mode, .. } if result.succeeded() => {
                emit(LockEffect::Acquired(HeldLock { lock, mode }))
            }
            Self::Unlock { lock, mode } if result.succeeded() => {
                emit(LockEffect::Released(HeldLock { lock, mode }))
            }
            _ => {}
        }
    }

    pub(crate) fn enabled(&self, thread: ThreadIx, result: OpResult, machine: &Machine) -> Enabled {
        match *self {
            Self::Lock { lock, mode, attempt: false } => {
                result.of_blocking(|| machine.locks.enabled(thread, lock, mode))
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
            Self::Lock { lock, mode, attempt } => {
                let request = LockRequest { lock, mode, attempt: attempt || step.bounded(), depth: None };
                if step.succeeded() {
                    return machine.locks.acquire(step, request, emit);
                }
                machine.locks.refuse(step, request, emit);
            }
            Self::Unlock { lock, .. } if step.succeeded() => {
                return machine.locks.release(step.thread, (lock, None), emit);
            }
            Self::Destroy { .. } | Self::Unlock { .. } => {}
        }
        Ok(())
    }
}
