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
    /// Facts about the operation and how it went.
    pub flags: Flags,
    /// The memory order of an atomic operation.
    pub order: Order,
    /// The site in the code.
    pub site: SiteIx,
    /// The calling context, by its number in the trace; 0 if it was not recorded.
    pub context: u32,
    /// The number of bytes accessed or allocated. For other operations see [`Op`]; an operation that has a
    /// waker keeps it here, as [`Waker`] encodes it.
    pub size: u64,
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
            context: 0,
            size: 0,
            addr: 0,
            value: 0,
        }
    }

    /// Returns the number of the event that woke the thread or sent the signal that it takes; `None` if the
    /// operation has no such event, or nothing in the program caused it.
    #[must_use]
    pub const fn waker(&self) -> Option<u64> {
        if self.op.has_waker() { Waker::from_word(self.size).event() } else { None }
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
        Self { size: Waker::new(waker).word(), ..self }
    }
}

/// The event that woke a thread or sent the signal that it takes, if there was one, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waker(u64);

impl Waker {
    /// Encodes the number of an event.
    #[must_use]
    #[inline]
    pub const fn new(event: Option<u64>) -> Self {
        match event {
            Some(number) => Self(number + 1),
            None => Self(0),
        }
    }

    /// Returns the waker with this encoding.
    #[must_use]
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// Returns the encoding.
    #[must_use]
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Returns the number of the event.
    #[must_use]
    #[inline]
    pub const fn event(self) -> Option<u64> {
        self.0.checked_sub(1)
    }
}

/// Facts about an operation and how it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u16);

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
    /// The operation does not wait without limit: it has a deadline, or it is a try of an operation that has
    /// no try of its own, like `pthread_tryjoin_np`.
    pub const BOUNDED: Self = Self(256);
    /// Executed inside an undivided region: no other thread could run, unless this one had to wait.
    pub const UNDIVIDED: Self = Self(512);
    /// The thread entered an undivided region after this event, before its next one.
    pub const ENTERS_REGION: Self = Self(1024);
    /// Since its last event, the thread has executed uninstrumented code that may have ordered it after everything
    /// done before this event.
    pub const MAY_BE_ORDERED: Self = Self(2048);

    /// The flags that describe the call and what came before it rather than how it went. Older traces lack some of
    /// them.
    pub const OF_CALL: Self =
        Self(Self::BOUNDED.0 | Self::UNDIVIDED.0 | Self::ENTERS_REGION.0 | Self::MAY_BE_ORDERED.0);

    /// Returns whether all flags of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns these flags without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
