//! Locks: mutexes, spin locks and read-write locks.

use super::{Blocker, Enabled};
use crate::{ByteRange, Contradiction, LockMode, Step};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use unsnarl_model::ThreadIx;

/// A thread's hold of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The thread.
    pub thread: ThreadIx,
    /// The mode in which it holds the lock.
    pub mode: LockMode,
    /// The number of times that it has acquired the lock.
    pub depth: u64,
    /// The number of the event that acquired it first.
    pub since: u64,
}

/// A change of a lock's holders, or its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockChange {
    /// The thread now holds the lock.
    Acquired {
        /// The lock's address.
        lock: u64,
        /// The mode in which it is held.
        mode: LockMode,
        /// True if the thread would not have waited for it, or only until a deadline.
        attempt: bool,
    },
    /// A thread no longer holds the lock.
    Released {
        /// The lock's address.
        lock: u64,
        /// The hold that ended.
        hold: Hold,
    },
    /// The lock was not available.
    Refused {
        /// The lock's address.
        lock: u64,
        /// The requested mode.
        mode: LockMode,
    },
}

/// An attempt to acquire a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockRequest {
    pub(crate) lock: u64,
    pub(crate) mode: LockMode,
    /// True if the thread does not wait, or only until a deadline.
    pub(crate) attempt: bool,
    /// The recursion depth afterwards; `None` if it is one more than before.
    pub(crate) depth: Option<u64>,
}

/// The holders of all locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Locks {
    held: BTreeMap<u64, Vec<Hold>>,
    /// Locks of which events do not show whether they can be acquired: their holder has ended, and only a
    /// robust lock is free then; or their memory was freed.
    undetermined: BTreeSet<u64>,
}

impl Locks {
    pub(crate) fn holders(&self, lock: u64) -> &[Hold] {
        self.held.get(&lock).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, Hold)> + '_ {
        self.held.iter().flat_map(|(&lock, holds)| holds.iter().map(move |&hold| (lock, hold)))
    }

    /// Returns whether the thread can acquire the lock now.
    pub(crate) fn enabled(&self, thread: ThreadIx, lock: u64, mode: LockMode) -> Enabled {
        match self.blocker(thread, lock, mode) {
            Some(holder) => Enabled::No { by: Blocker::Holder(holder) },
            None if self.undetermined.contains(&lock) => Enabled::Unknown,
            None => Enabled::Yes,
        }
    }

    pub(crate) fn acquire(
        &mut self,
        step: &Step,
        request: LockRequest,
        emit: &mut impl FnMut(LockChange),
    ) -> Result<(), Contradiction> {
        let LockRequest { lock, mode, attempt, depth } = request;
        let blocker = self.blocker(step.thread, lock, mode);
        self.undetermined.remove(&lock);
        let holds = self.held.entry(lock).or_default();
        match holds.iter_mut().find(|hold| hold.thread == step.thread) {
            Some(again) => again.depth = depth.unwrap_or(again.depth + 1),
            None => {
                let at = holds.partition_point(|hold| hold.since <= step.number);
                holds.insert(
                    at,
                    Hold { thread: step.thread, mode, depth: depth.unwrap_or(1), since: step.number },
                );
                emit(LockChange::Acquired { lock, mode, attempt });
            }
        }
        blocker.map_or(Ok(()), |holder| Err(Contradiction::HeldByAnother { lock, holder }))
    }

    /// Records that the thread did not get the lock. Any error other than a held lock shows nothing about it.
    pub(crate) fn refuse(&self, step: &Step, request: LockRequest, emit: &mut impl FnMut(LockChange)) {
        if self.blocker(step.thread, request.lock, request.mode).is_some() {
            emit(LockChange::Refused { lock: request.lock, mode: request.mode });
        }
    }

    /// Releases one level, or as many as leave `remaining`. A mutex that another thread holds is free
    /// afterwards, as in the C library.
    pub(crate) fn release(
        &mut self,
        thread: ThreadIx,
        (lock, remaining): (u64, Option<u64>),
        emit: &mut impl FnMut(LockChange),
    ) -> Result<(), Contradiction> {
        let not_held = Contradiction::NotHeld(lock);
        let holds = self.held.get_mut(&lock).ok_or(not_held)?;
        let own = holds.iter().position(|hold| hold.thread == thread);
        let Some(at) = own.or_else(|| holds.iter().position(|hold| hold.mode == LockMode::Exclusive)) else {
            return Err(not_held);
        };
        holds[at].depth = remaining.unwrap_or(holds[at].depth - 1);
        if holds[at].depth == 0 {
            let hold = holds.remove(at);
            if holds.is_empty() {
                self.held.remove(&lock);
            }
            emit(LockChange::Released { lock, hold });
        }
        own.map_or(Err(not_held), |_| Ok(()))
    }

    /// Releases the locks of a thread that ends.
    pub(crate) fn release_all(&mut self, thread: ThreadIx, emit: &mut impl FnMut(LockChange)) {
        let Self { held, undetermined } = self;
        held.retain(|&lock, holds| {
            if let Some(at) = holds.iter().position(|hold| hold.thread == thread) {
                undetermined.insert(lock);
                emit(LockChange::Released { lock, hold: holds.remove(at) });
            }
            !holds.is_empty()
        });
    }

    /// Notes that the memory of locks is freed. A program that uses them nevertheless is in error.
    pub(crate) fn free(&mut self, block: ByteRange, emit: &mut impl FnMut(LockChange)) {
        if self.held.is_empty() {
            return;
        }
        let freed: Vec<u64> = self.held.range(block.first..block.end()).map(|(&lock, _)| lock).collect();
        for lock in freed {
            self.reset(lock, emit);
            self.undetermined.insert(lock);
        }
    }

    /// Makes the lock a new one.
    pub(crate) fn reset(&mut self, lock: u64, emit: &mut impl FnMut(LockChange)) {
        self.undetermined.remove(&lock);
        let holds = self.held.remove(&lock).unwrap_or_default();
        holds.into_iter().for_each(|hold| emit(LockChange::Released { lock, hold }));
    }

    fn blocker(&self, thread: ThreadIx, lock: u64, mode: LockMode) -> Option<ThreadIx> {
        let mut others = self.holders(lock).iter().filter(|hold| hold.thread != thread);
        let excludes = |hold: &&Hold| hold.mode.excludes(mode);
        others.find(excludes).map(|hold| hold.thread)
    }
}
