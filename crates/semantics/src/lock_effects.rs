//! Lock effects: which locks an operation acquires and releases.

use crate::{Operation, Step};

/// The mode in which a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// By readers, which do not exclude each other.
    Shared,
    /// By one thread.
    Exclusive,
}

impl LockMode {
    /// Returns whether two threads cannot hold a lock in these modes at the same time.
    #[must_use]
    #[inline]
    pub const fn excludes(self, other: Self) -> bool {
        matches!((self, other), (Self::Exclusive, _) | (_, Self::Exclusive))
    }
}

/// A held lock and its mode. `L` identifies the lock: by its address, or by its number in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeldLock<L = u64> {
    /// The lock.
    pub lock: L,
    /// The mode in which it is held.
    pub mode: LockMode,
}

/// The effect of an operation on a lock. It follows from the event alone, because the event has the recursion
/// depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEffect {
    /// The thread acquired the lock, or holds it again after a wait.
    Acquired(HeldLock),
    /// The thread released the lock. A reader may hold it still: read locks have no depth.
    Released(HeldLock),
}

/// Emits the lock effects of a step. Further levels of a recursive mutex are none.
#[inline]
pub fn lock_effects(step: &Step, emit: impl FnMut(LockEffect)) {
    match &step.operation {
        Operation::Mutex(op) => op.lock_effects(step.result, emit),
        Operation::RwLock(op) => op.lock_effects(step.result, emit),
        Operation::Cond(op) => op.lock_effects(step.result, emit),
        _ => {}
    }
}
