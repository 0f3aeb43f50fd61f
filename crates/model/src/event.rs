//! What happened: one executed operation.

use crate::{Op, Order, SiteIx, ThreadIx};
use core::ops::BitOr;

/// One visible operation that a thread executed. A trace is a sequence of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Who.
    pub thread: ThreadIx,
    /// What.
    pub op: Op,
    /// How it went.
    pub flags: Flags,
    /// The memory order of an atomic operation.
    pub order: Order,
    /// From where in the code.
    pub site: SiteIx,
    /// How many bytes an access touched; 0 for everything else.
    pub size: u32,
    /// On what: the address of the lock, the variable …; 0 where there is none.
    pub addr: u64,
    /// The operation's own figure: see [`Op`].
    pub value: u64,
}

/// Facts about how an operation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// Nothing to remark.
    pub const NONE: Self = Self(0);
    /// The switch to this event took the processor from a thread that could have gone on.
    pub const PREEMPTS: Self = Self(1);
    /// The wait ended because its time was up.
    pub const TIMED_OUT: Self = Self(2);
    /// The operation did not do what it is for (a try that found the lock taken, a failed
    /// compare-and-exchange, an error); what it changed, if anything, is in the value.
    pub const FAILED: Self = Self(4);
    /// The wait ended for no reason, as condition variables may.
    pub const SPURIOUS: Self = Self(8);
    /// A signal's handler ended the wait: both of these.
    pub const INTERRUPTED: Self = Self(Self::FAILED.0 | Self::SPURIOUS.0);
    /// The thread was cancelled here.
    pub const CANCELLED: Self = Self(16);
    /// The waiter before this operation had to block.
    pub const BLOCKED: Self = Self(32);

    /// The access is to the thread's own stack. What stood there may be left over from calls long gone, the
    /// runtime's own among them, so its value is not part of what makes two runs the same.
    pub const OWN_STACK: Self = Self(64);
    /// The atomic operation did not find what instrumented code had left in its variable, or nothing is known of
    /// that: code that is not instrumented may have written there, and ordered threads by it.
    pub const FOREIGN: Self = Self(128);
    /// Of any other operation: what else could have happened hangs on more than events tell, for the wait has a
    /// deadline, or the thread is in a region of its own in which nobody else may run.
    pub const UNDETERMINED: Self = Self(128);

    /// Whether all of `other`'s facts hold.
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
