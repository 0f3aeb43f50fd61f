//! Threads.
//!
//! | operation | enabled | effect | touches | happens-before |
//! | --- | --- | --- | --- | --- |
//! | start | the thread was created | none | reads its life | after its creation |
//! | end | always | releases its robust locks | writes its life, and each lock it holds | before its join |
//! | exit | always | the program ends | keeps its position among all events | none |
//! | create | always | the thread exists | writes the numbering of threads and the new thread's life | before the thread's start |
//! | join | the thread has ended | the thread is gone | writes its life; reads it if it failed | after the thread's end |
//! | detach | always | none | writes its life | none |
//! | cancel | always | the thread will act on it | keeps its position among the thread's operations | none |
//! | cancelled | unknown | none | nothing | none |

use crate::{
    OpResult,
    contradiction::Contradiction,
    edge::{Edge, SyncPoint},
    machine::{Blocker, Enabled, LockChange, Machine},
    step::Step,
    touch::{SharedObject, Touch},
};
use unsnarl_model::{Event, Op, ThreadIx};

/// An operation on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadOp {
    /// The thread's first event.
    Start {
        /// The thread that created it.
        creator: u64,
    },
    /// The thread's last event.
    End {
        /// The result that a join returns.
        result: u64,
    },
    /// The program ends.
    Exit {
        /// Its status.
        status: u64,
    },
    /// A thread is created.
    Create {
        /// The new thread.
        thread: ThreadNumber,
    },
    /// A thread is joined.
    Join {
        /// The joined thread.
        thread: ThreadNumber,
    },
    /// A thread is detached.
    Detach {
        /// The detached thread.
        thread: ThreadNumber,
    },
    /// The cancellation of a thread is requested.
    Cancel {
        /// The thread to be cancelled.
        thread: ThreadNumber,
    },
    /// The thread acts on a request to cancel it.
    Cancelled,
}

/// The thread that an operation names. Programs can name threads that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadNumber(pub u64);

impl ThreadNumber {
    /// Returns the thread; `None` if there is none with this number.
    #[must_use]
    #[inline]
    pub fn known(self) -> Option<ThreadIx> {
        u16::try_from(self.0).ok().map(ThreadIx)
    }
}

impl From<ThreadIx> for ThreadNumber {
    fn from(thread: ThreadIx) -> Self {
        Self(thread.0.into())
    }
}

impl ThreadOp {
    #[inline]
    pub(crate) fn decode(event: &Event) -> Self {
        let thread = ThreadNumber(event.value);
        match event.op {
            Op::Start => Self::Start { creator: event.value },
            Op::End => Self::End { result: event.value },
            Op::Exit => Self::Exit { status: event.value },
            Op::Create => Self::Create { thread },
            Op::Join => Self::Join { thread },
            Op::Detach => Self::Detach { thread },
            Op::Cancel => Self::Cancel { thread },
            _ => Self::Cancelled,
        }
    }

    #[inline]
    pub(crate) fn touches(&self, by: ThreadIx, result: OpResult, emit: &mut impl FnMut(Touch)) {
        match *self {
            Self::Start { .. } => emit(Touch::reads(SharedObject::Life(by))),
            Self::End { .. } => emit(Touch::writes(SharedObject::Life(by))),
            Self::Exit { .. } | Self::Cancelled => {}
            Self::Create { thread } => {
                emit(Touch::writes(SharedObject::Threads));
                emit(Touch::writes(SharedObject::Addresses));
                if let (true, Some(child)) = (result.succeeded(), thread.known().filter(|&child| child != by))
                {
                    emit(Touch::writes(SharedObject::Life(child)));
                    emit(Touch::Before(child));
                }
            }
            Self::Join { thread } | Self::Detach { thread } | Self::Cancel { thread } => {
                match thread.known().filter(|&target| target != by) {
                    Some(target) => self.touches_other(target, result, emit),
                    // Misuse: on a thread that is gone, the result depends on the thread that joined or
                    // detached it.
                    None if !result.succeeded() => emit(Touch::Fence),
                    None => {}
                }
            }
        }
    }

    #[inline]
    fn touches_other(&self, target: ThreadIx, result: OpResult, emit: &mut impl FnMut(Touch)) {
        match self {
            Self::Join { .. } if result.succeeded() => {
                emit(Touch::writes(SharedObject::Life(target)));
                // In traces of other tools a thread may have no end event.
                emit(Touch::After(target));
                emit(Touch::writes(SharedObject::Addresses));
            }
            Self::Join { .. } => emit(Touch::reads(SharedObject::Life(target))),
            Self::Detach { .. } => emit(Touch::writes(SharedObject::Life(target))),
            // A cancellation may act at any operation of its target.
            _ => emit(Touch::Pin(target)),
        }
    }

    #[inline]
    pub(crate) fn edges(&self, by: ThreadIx, result: OpResult, mut emit: impl FnMut(Edge)) {
        match *self {
            Self::Start { .. } => emit(Edge::Acquire(SyncPoint::Life(by.0.into()))),
            Self::End { .. } => emit(Edge::Release(SyncPoint::Life(by.0.into()))),
            Self::Create { thread } if result.succeeded() => emit(Edge::Release(SyncPoint::Life(thread.0))),
            Self::Join { thread } if result.succeeded() => emit(Edge::Acquire(SyncPoint::Life(thread.0))),
            _ => {}
        }
    }

    pub(crate) fn enabled(&self, result: OpResult, machine: &Machine) -> Enabled {
        match *self {
            Self::Join { thread } => result.of_blocking(|| match thread.known() {
                Some(target) if machine.has_ended(target) => Enabled::Yes,
                Some(target) => Enabled::No { by: Blocker::Running(target) },
                None => Enabled::Yes,
            }),
            Self::Cancelled => Enabled::Unknown,
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
            Self::Create { thread } if step.succeeded() => match thread.known() {
                Some(child) => machine.threads.create(child),
                None => Ok(()),
            },
            Self::Join { thread } if step.succeeded() => {
                let unknown = Contradiction::JoinOfUnknownThread(thread.0);
                let target = thread.known().ok_or(unknown)?;
                if target == step.thread {
                    return Err(Contradiction::SelfJoin);
                }
                machine.threads.join(target).ok_or(unknown)
            }
            Self::End { .. } => {
                machine.threads.end(step.thread);
                // A robust mutex is free again; any other is never used again.
                machine.locks.release_all(step.thread, emit);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
