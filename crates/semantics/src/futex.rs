//! Futexes. A wait is two steps: it begins, unless the word has another value, and it ends.
//!
//! | operation | enabled | effect | touches | happens-before |
//! | --- | --- | --- | --- | --- |
//! | wait | always | the thread waits, if it succeeded | reads the word; writes the futex if it succeeded | releases it if it succeeded |
//! | woken | a wake-up is there, or time passes | takes the wake-up | writes the futex | after the waking event |
//! | wake | always | leaves a wake-up for each woken thread | writes the futex; reads it if nobody waits | acquires it; before the wakes that it causes |
//! | requeue | always | wakes some waiters, and the others wait at the target | reads the word; writes both futexes if it succeeded | like wake |
//!
//! A futex is usually part of a lock in uninstrumented code, which may have ordered the thread after others.

use crate::{
    AccessMode, ByteRange, OpResult,
    edge::{Edge, SyncPoint},
    machine::{Blocker, Enabled, Machine},
    step::Step,
    touch::{SharedObject, Touch},
};
use unsnarl_model::{Event, Op, ThreadIx};

/// The number of bytes of a futex word.
const WORD_BYTES: u64 = 4;

/// An operation on a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexOp {
    /// A wait begins, or fails because the word has another value.
    Wait {
        /// The word's address.
        futex: u64,
        /// The word's value.
        word: u64,
    },
    /// A wait is over.
    Woken {
        /// The word's address.
        futex: u64,
        /// The event that woke the thread; `None` if none did.
        waker: Option<u64>,
    },
    /// Waiters are woken.
    Wake {
        /// The word's address.
        futex: u64,
        /// The number of waiters woken.
        woken: u64,
    },
    /// Waiters are woken or moved to another futex.
    Requeue {
        /// The word's address.
        futex: u64,
        /// The address of the futex that waiters are moved to.
        target: u64,
        /// The number of waiters woken or moved.
        affected: u64,
    },
}

impl FutexOp {
    #[inline]
    pub(crate) fn decode(event: &Event) -> Self {
        let (futex, value) = (event.addr, event.value);
        match event.op {
            Op::FutexWait => Self::Wait { futex, word: value },
            Op::FutexWoken => Self::Woken { futex, waker: event.waker() },
            Op::FutexWake => Self::Wake { futex, woken: value },
            _ => Self::Requeue { futex, target: value, affected: event.size },
        }
    }

    /// Returns the word's address.
    #[must_use]
    #[inline]
    pub const fn futex(&self) -> u64 {
        match *self {
            Self::Wait { futex, .. }
            | Self::Woken { futex, .. }
            | Self::Wake { futex, .. }
            | Self::Requeue { futex, .. } => futex,
        }
    }

    #[inline]
    pub(crate) fn touches(&self, result: OpResult, emit: &mut impl FnMut(Touch)) {
        let read_word = |futex| Touch::Bytes(ByteRange::new(futex, WORD_BYTES), AccessMode::Reads);
        match *self {
            Self::Wait { futex, .. } => {
                if result.succeeded() {
                    emit(Touch::reads(SharedObject::Futexes));
                    emit(Touch::writes(SharedObject::Futex(futex)));
                }
                emit(read_word(futex));
            }
            Self::Woken { futex, .. } => {
                emit(Touch::reads(SharedObject::Futexes));
                emit(Touch::writes(SharedObject::Futex(futex)));
            }
            Self::Wake { futex, woken } => {
                emit(Touch::reads(SharedObject::Futexes));
                emit(Touch::writes_if(woken > 0, SharedObject::Futex(futex)));
            }
            Self::Requeue { futex, target, .. } => {
                if result.succeeded() {
                    emit(Touch::writes(SharedObject::Futexes));
                    emit(Touch::writes(SharedObject::Futex(futex)));
                    emit(Touch::writes(SharedObject::Futex(target)));
                }
                emit(read_word(futex));
            }
        }
    }

    #[inline]
    pub(crate) fn edges(&self, result: OpResult, mut emit: impl FnMut(Edge)) {
        match *self {
            Self::Wait { futex, .. } if result.succeeded() => {
                return emit(Edge::Release(SyncPoint::Object(futex)));
            }
            Self::Wait { .. } => {}
            Self::Woken { waker, .. } => {
                if let Some(waker) = waker {
                    emit(Edge::Woken(waker));
                }
            }
            Self::Wake { futex, woken } => {
                emit(Edge::Acquire(SyncPoint::Object(futex)));
                emit(Edge::Wakes(Some(woken)));
            }
            // Threads that were only moved may be woken by another thread's event.
            Self::Requeue { futex, affected, .. } => {
                emit(Edge::Acquire(SyncPoint::Object(futex)));
                emit(Edge::Wakes((affected == 0).then_some(0)));
            }
        }
        emit(Edge::Unobserved);
    }

    pub(crate) fn enabled(&self, thread: ThreadIx, result: OpResult, machine: &Machine) -> Enabled {
        let Self::Woken { waker, .. } = *self else { return Enabled::Yes };
        match result {
            _ if waker.is_some_and(|waker| waker < machine.events()) => Enabled::Yes,
            // A wake-up may be for certain waiters only, which is not recorded.
            _ if machine.can_be_woken(thread, waker) => Enabled::Unknown,
            OpResult::TimedOut | OpResult::Spurious => Enabled::IfTimePasses,
            OpResult::Cancelled | OpResult::Interrupted | OpResult::Failed => Enabled::Unknown,
            OpResult::Done => Enabled::No { by: Blocker::NotWoken },
        }
    }

    pub(crate) fn apply(&self, step: &Step, machine: &mut Machine) {
        let queues = &mut machine.wait_queues;
        match *self {
            Self::Wait { futex, .. } if step.succeeded() => {
                queues.wait(step.thread, futex, None, step.number)
            }
            Self::Wait { .. } => {}
            Self::Woken { waker, .. } => drop(queues.wake(step.thread, waker)),
            Self::Wake { futex, woken } => queues.signal(futex, step.number, woken),
            Self::Requeue { futex, .. } => queues.requeue(futex),
        }
    }
}
