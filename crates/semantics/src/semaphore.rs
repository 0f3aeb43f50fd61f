//! Semaphores.
//!
//! | operation | enabled | effect | touches | happens-before |
//! | --- | --- | --- | --- | --- |
//! | init | always | sets the count | writes the semaphore | releases it |
//! | destroy | always | none | writes the semaphore | none |
//! | wait | the count is not zero | takes one token | writes the semaphore; reads it if it failed | acquires it |
//! | try wait | always | like wait if it succeeded | like wait | acquires it if it succeeded |
//! | post | always | adds one token | writes the semaphore; reads it if it failed | releases it |
//! | get value | always | none | reads the semaphore | none |

use crate::{
    OpResult,
    edge::{Edge, SyncPoint},
    machine::{Blocker, Enabled, Machine},
    step::Step,
    touch::{SharedObject, Touch},
};
use alloc::collections::BTreeMap;
use unsnarl_model::{Event, Op, ThreadIx};

/// An operation on a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SemaphoreOp {
    /// It is initialised.
    Init {
        /// The semaphore's address.
        semaphore: u64,
        /// The initial count.
        count: u64,
    },
    /// It is destroyed.
    Destroy {
        /// The semaphore's address.
        semaphore: u64,
    },
    /// A token is taken.
    Wait {
        /// The semaphore's address.
        semaphore: u64,
        /// The count afterwards.
        left: u64,
        /// True if the thread does not wait for a token.
        attempt: bool,
    },
    /// A token is added.
    Post {
        /// The semaphore's address.
        semaphore: u64,
        /// The count afterwards.
        count: u64,
    },
    /// The count is read.
    Get {
        /// The semaphore's address.
        semaphore: u64,
        /// The count.
        count: u64,
    },
}

/// The semaphores of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Semaphores {
    /// The known counts.
    counts: BTreeMap<u64, u64>,
    /// The thread that took the last token, if no post followed.
    takers: BTreeMap<u64, ThreadIx>,
}

impl Semaphores {
    pub(crate) fn with_counts(counts: BTreeMap<u64, u64>) -> Self {
        Self { counts, takers: BTreeMap::new() }
    }

    pub(crate) fn count(&self, semaphore: u64) -> Option<u64> {
        self.counts.get(&semaphore).copied()
    }

    pub(crate) fn takers(&self) -> &BTreeMap<u64, ThreadIx> {
        &self.takers
    }

    fn take(&mut self, semaphore: u64, thread: ThreadIx) {
        if let Some(count) = self.counts.get_mut(&semaphore) {
            *count = count.saturating_sub(1);
        }
        self.takers.insert(semaphore, thread);
    }

    fn post(&mut self, semaphore: u64) {
        if let Some(count) = self.counts.get_mut(&semaphore) {
            *count = count.saturating_add(1);
        }
        self.takers.remove(&semaphore);
    }
}

impl SemaphoreOp {
    #[inline]
    pub(crate) fn decode(event: &Event) -> Self {
        let (semaphore, count) = (event.addr, event.value);
        match event.op {
            Op::SemInit => Self::Init { semaphore, count },
            Op::SemDestroy => Self::Destroy { semaphore },
            Op::SemPost => Self::Post { semaphore, count },
            Op::SemGet => Self::Get { semaphore, count },
            op => Self::Wait { semaphore, left: count, attempt: op == Op::SemTryWait },
        }
    }

    /// Returns the semaphore's address.
    #[must_use]
    #[inline]
    pub const fn semaphore(&self) -> u64 {
        match *self {
            Self::Init { semaphore, .. }
            | Self::Destroy { semaphore }
            | Self::Wait { semaphore, .. }
            | Self::Post { semaphore, .. }
            | Self::Get { semaphore, .. } => semaphore,
        }
    }

    /// Returns the count before the operation, as far as the operation shows it.
    #[must_use]
    pub const fn count_before(&self, result: OpResult) -> Option<u64> {
        match *self {
            Self::Wait { left, .. } if result.succeeded() => Some(left.saturating_add(1)),
            Self::Post { count, .. } if result.succeeded() => Some(count.saturating_sub(1)),
            Self::Get { count, .. } => Some(count),
            Self::Init { .. } | Self::Wait { .. } | Self::Post { .. } => Some(0),
            Self::Destroy { .. } => None,
        }
    }

    #[inline]
    pub(crate) fn touches(&self, result: OpResult, emit: &mut impl FnMut(Touch)) {
        let changes = match self {
            Self::Init { .. } | Self::Destroy { .. } => true,
            Self::Wait { .. } | Self::Post { .. } => result.succeeded(),
            Self::Get { .. } => false,
        };
        emit(Touch::writes_if(changes, SharedObject::Semaphore(self.semaphore())));
    }

    #[inline]
    pub(crate) fn edges(&self, result: OpResult, mut emit: impl FnMut(Edge)) {
        let point = SyncPoint::Object(self.semaphore());
        match self {
            Self::Init { .. } | Self::Post { .. } if result.succeeded() => emit(Edge::Release(point)),
            Self::Wait { .. } if result.succeeded() => emit(Edge::Acquire(point)),
            _ => {}
        }
    }

    pub(crate) fn enabled(&self, result: OpResult, machine: &Machine) -> Enabled {
        match *self {
            Self::Wait { semaphore, attempt: false, .. } => {
                result.of_blocking(|| match machine.semaphores.count(semaphore) {
                    Some(0) => Enabled::No { by: Blocker::NoToken },
                    Some(_) => Enabled::Yes,
                    None => Enabled::Unknown,
                })
            }
            _ => Enabled::Yes,
        }
    }

    pub(crate) fn apply(&self, step: &Step, machine: &mut Machine) {
        if !step.succeeded() {
            return;
        }
        match *self {
            Self::Init { semaphore, count } => drop(machine.semaphores.counts.insert(semaphore, count)),
            Self::Wait { semaphore, .. } => machine.semaphores.take(semaphore, step.thread),
            Self::Post { semaphore, .. } => machine.semaphores.post(semaphore),
            Self::Destroy { .. } | Self::Get { .. } => {}
        }
    }
}
