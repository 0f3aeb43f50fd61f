//! Conflicts: operations of different threads whose order matters and is not determined.

use crate::{Op, Site, ThreadIx};

/// Two operations of different threads on the same object, at least one of them not a pure read, whose order
/// the program does not determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The kind of conflict.
    pub kind: ConflictKind,
    /// The first byte that both access, or the address of the lock.
    pub addr: u64,
    /// The two operations in the order of execution.
    pub sides: [Side; 2],
}

/// The kinds of conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ConflictKind {
    /// Unordered accesses, not both atomic: a data race.
    Race,
    /// Like a race, but in this run the order of critical sections ordered the accesses, and no common lock
    /// protects them. It may be a race in another order.
    Hidden,
    /// Two atomic operations, or two operations that acquire the same lock: either may come first.
    Contention,
    /// Like a race, but called by uninstrumented code, which may have ordered the accesses.
    Possible,
}

impl ConflictKind {
    /// Returns the kind with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Race,
            1 => Self::Hidden,
            2 => Self::Contention,
            3 => Self::Possible,
            _ => return None,
        })
    }
}

/// One of two conflicting operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    pub thread: ThreadIx,
    pub op: Op,
    pub site: Site,
}
