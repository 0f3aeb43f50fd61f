//! Operations of different threads whose order matters and is left open.

use crate::{Op, Site, ThreadIx};

/// Two operations of different threads on the same thing, not both of them reading only, whose order the
/// program does not fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// What they are to each other.
    pub kind: ConflictKind,
    /// On what: the first byte that both touch, or the lock.
    pub addr: u64,
    /// In the order of execution.
    pub sides: [Side; 2],
}

/// What two operations are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ConflictKind {
    /// Accesses, not both atomic, that nothing orders: a data race.
    Race,
    /// The same, but in this run the order of critical sections happened to order them, and no lock protects
    /// them both: a race in another order.
    Hidden,
    /// Two atomic operations, or two operations that take the same lock: either may come first.
    Contention,
}

impl ConflictKind {
    /// The kind with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Race,
            1 => Self::Hidden,
            2 => Self::Contention,
            _ => return None,
        })
    }
}

/// One of two operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Who.
    pub thread: ThreadIx,
    /// What.
    pub op: Op,
    /// From where.
    pub site: Site,
}
