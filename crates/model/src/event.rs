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
    /// The result of the operation.
    pub flags: Flags,
    /// The memory order of an atomic operation.
    pub order: Order,
    /// The site in the code.
    pub site: SiteIx,
    /// The number of bytes accessed; for other operations see [`Op`] and [`Self::waker`].
    pub size: u32,
    /// The address of the object: the lock, the variable …; 0 if there is none.
    pub addr: u64,
    /// A value whose meaning depends on the operation: see [`Op`].
    pub value: u64,
}

impl Event {
    /// Builds an event of a thread with no object, value or flags.
    #[must_use]
    pub const fn new(thread: ThreadIx, op: Op) -> Self {
        Self {
            thread,
            op,
            flags: Flags::NONE,
            order: Order::Relaxed,
            site: SiteIx(0),
            size: 0,
            addr: 0,
            value: 0,
        }
    }

    /// Returns the number of the event that woke the thread or sent the signal that it takes; `None` if the
    /// operation has no such event, or nothing in the program caused it.
    #[must_use]
    pub const fn waker(&self) -> Option<u64> {
        if self.op.has_waker() { (self.size as u64).checked_sub(1) } else { None }
    }

    /// Returns the mutex that a wait on a condition variable releases when it begins and takes back when it
    /// ends; `None` for other operations, and for a wait that never ended.
    #[must_use]
    pub fn waited_mutex(&self) -> Option<u64> {
        (matches!(self.op, Op::CondWait | Op::CondWake) && self.value != 0).then_some(self.value)
    }

    /// Replaces the waker of an operation that can have one.
    #[must_use]
    pub const fn with_waker(self, waker: Option<u64>) -> Self {
        Self { size: waker_field(waker), ..self }
    }
}

/// Returns the `size` of an event with this waker. Runs have far fewer than 2³² events.
#[must_use]
pub const fn waker_field(waker: Option<u64>) -> u32 {
    match waker {
        Some(number) => number as u32 + 1,
        None => 0,
    }
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
    /// unknown. Uninstrumented code may have written the variable, which may have ordered threads.
    pub const FOREIGN: Self = Self(128);

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
