//! Once controls, and the guards of statics.
//!
//! | operation | enabled | effect | touches | happens-before |
//! | --- | --- | --- | --- | --- |
//! | begin | no other thread runs the routine | the thread runs the routine | writes the once control | acquires it |
//! | end | always | the routine is done | writes the once control and the guard's bytes | releases it and the guard |
//! | pass | no thread runs the routine | none | reads the once control | acquires it |
//!
//! A routine that an exception leaves does not end: another thread may begin it again. That is no event, so if
//! a routine begins more often than it ends, it is unknown whether other threads are enabled while it runs.

use crate::{
    AccessMode, ByteRange, OpResult,
    edge::{Edge, SyncPoint},
    machine::{Blocker, Enabled, Machine},
    step::Step,
    touch::{SharedObject, Touch},
};
use unsnarl_model::{Event, Op, ThreadIx};

/// The number of bytes that compilers check of a guard.
const GUARD_BYTES: u64 = 4;

/// An operation on a once control or the guard of a static.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnceOp {
    /// The routine begins.
    Begin {
        /// The once control's address.
        once: u64,
    },
    /// The routine is done.
    End {
        /// The once control's address.
        once: u64,
    },
    /// The thread found the routine done.
    Pass {
        /// The once control's address.
        once: u64,
    },
}

impl OnceOp {
    #[inline]
    pub(crate) fn decode(event: &Event) -> Self {
        let once = event.addr;
        match event.op {
            Op::OnceBegin => Self::Begin { once },
            Op::OnceEnd => Self::End { once },
            _ => Self::Pass { once },
        }
    }

    /// Returns the once control's address.
    #[must_use]
    #[inline]
    pub const fn once(&self) -> u64 {
        match *self {
            Self::Begin { once } | Self::End { once } | Self::Pass { once } => once,
        }
    }

    #[inline]
    pub(crate) fn touches(&self, emit: &mut impl FnMut(Touch)) {
        match *self {
            Self::Begin { once } => emit(Touch::writes(SharedObject::Once(once))),
            Self::End { once } => {
                emit(Touch::writes(SharedObject::Once(once)));
                // Compilers check the guard of a static by their own load.
                emit(Touch::Bytes(ByteRange::new(once, GUARD_BYTES), AccessMode::Writes));
            }
            Self::Pass { once } => emit(Touch::reads(SharedObject::Once(once))),
        }
    }

    #[inline]
    pub(crate) fn edges(&self, result: OpResult, mut emit: impl FnMut(Edge)) {
        match *self {
            Self::End { once } => {
                emit(Edge::Release(SyncPoint::Guard(once)));
                emit(Edge::Release(SyncPoint::Object(once)));
            }
            Self::Begin { once } | Self::Pass { once } if result.succeeded() => {
                emit(Edge::Acquire(SyncPoint::Object(once)));
            }
            Self::Begin { .. } | Self::Pass { .. } => {}
        }
    }

    pub(crate) fn enabled(&self, thread: ThreadIx, machine: &Machine) -> Enabled {
        let runner = machine.once_routines.get(&self.once()).copied().filter(|&runner| runner != thread);
        match (self, runner) {
            (Self::End { .. }, _) | (_, None) => Enabled::Yes,
            (_, Some(_)) if machine.may_throw(self.once()) => Enabled::Unknown,
            (_, Some(runner)) => Enabled::No { by: Blocker::Routine(runner) },
        }
    }

    pub(crate) fn apply(&self, step: &Step, machine: &mut Machine) {
        match *self {
            Self::Begin { once } if step.succeeded() => {
                machine.once_routines.insert(once, step.thread);
            }
            Self::End { once } => {
                machine.once_routines.remove(&once);
            }
            Self::Begin { .. } | Self::Pass { .. } => {}
        }
    }
}
