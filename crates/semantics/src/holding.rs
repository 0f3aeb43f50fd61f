//! Holdings: which locks an operation acquires and releases.

use crate::{Operation, Step};

/// The mode in which a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// By readers, which do not exclude each other.
    Shared,
    /// By one thread.
    Exclusive,
}

/// The effect of an operation on a lock. It follows from the event alone, because the event has the recursion
/// depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// The thread acquired the lock, or holds it again after a wait.
    Acquired {
        /// The lock's address.
        lock: u64,
        /// The mode in which it is held.
        mode: LockMode,
    },
    /// The thread released the lock. A reader may hold it still: read locks have no depth.
    Released {
        /// The lock's address.
        lock: u64,
        /// The mode in which it was held.
        mode: LockMode,
    },
}

/// Emits the holdings of a step. Further levels of a recursive mutex are none.
#[inline]
pub fn holdings(step: &Step, emit: impl FnMut(Holding)) {
    match &step.operation {
        Operation::Mutex(op) => op.holdings(step.result, emit),
        Operation::RwLock(op) => op.holdings(step.result, emit),
        Operation::Cond(op) => op.holdings(step.result, emit),
        _ => {}
    }
}
