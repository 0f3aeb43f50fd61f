//! Events: the executed operations.

use crate::{Op, Order, SiteIx, ThreadIx};
use core::ops::BitOr;

/// One visible operation that a thread executed. A trace is a sequence of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The executing thread.
    pub thread: ThreadIx,
    /// The operation.
    pub op: Op,
    /// How the operation went.
    pub flags: Flags,
    /// The memory order of an atomic operation.
    pub order: Order,
    /// The site in the code.
    pub site: SiteIx,
    /// The number of bytes accessed; 0 for other operations.
    pub size: u32,
    /// The address of the object: the lock, the variable …; 0 if there is none.
    pub addr: u64,
    /// A value whose meaning depends on the operation: see [`Op`].
    pub value: u64,
}

/// Facts about how an operation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No flag set.
    pub const NONE: Self = Self(0);
    /// The switch to this event preempted a thread that could have continued.
    pub const PREEMPTS: Self = Self(1);
    /// The wait timed out.
    pub const TIMED_OUT: Self = Self(2);
    /// The operation failed: a try found the lock taken, a compare-and-exchange failed, or there was an
    /// error. The value shows what it changed, if anything.
    pub const FAILED: Self = Self(4);
    /// The wait ended spuriously, as condition variables permit.
    pub const SPURIOUS: Self = Self(8);
    /// A signal handler interrupted the wait: failed and spurious.
    pub const INTERRUPTED: Self = Self(Self::FAILED.0 | Self::SPURIOUS.0);
    /// The thread was cancelled here.
    pub const CANCELLED: Self = Self(16);
    /// The thread had to block before this operation.
    pub const BLOCKED: Self = Self(32);

    /// The access is to the thread's own stack. The old contents may be left over from earlier calls,
    /// including the runtime's own, so the value is ignored when two runs are compared.
    pub const OWN_STACK: Self = Self(64);
    /// The atomic operation did not find the value that instrumented code had stored last, or that value is
    /// unknown. Uninstrumented code may have written the variable and thereby ordered threads.
    pub const FOREIGN: Self = Self(128);
    /// For any other operation: the alternatives depend on more than the events show, because the wait has a
    /// deadline or the thread is in an exclusive region in which no other thread may run.
    pub const UNDETERMINED: Self = Self(128);

    /// Returns whether all flags of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
