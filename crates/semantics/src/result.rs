//! How an operation ended.

use crate::Enabled;
use unsnarl_model::{Event, Flags};

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpResult {
    /// It did what it is for.
    Done,
    /// A wait ended without a cause, as condition variables permit. Otherwise like `Done`.
    Spurious,
    /// A try found the lock taken, a compare-and-exchange found another value, or there was an error.
    Failed,
    /// A signal handler interrupted it.
    Interrupted,
    /// Its deadline passed.
    TimedOut,
    /// The thread was cancelled in it.
    Cancelled,
}

impl OpResult {
    /// Returns the result of an event.
    #[must_use]
    #[inline]
    pub const fn of(event: &Event) -> Self {
        let flags = event.flags;
        if flags.has(Flags::CANCELLED) {
            Self::Cancelled
        } else if flags.has(Flags::TIMED_OUT) {
            Self::TimedOut
        } else if flags.has(Flags::INTERRUPTED) {
            Self::Interrupted
        } else if flags.has(Flags::FAILED) {
            Self::Failed
        } else if flags.has(Flags::SPURIOUS) {
            Self::Spurious
        } else {
            Self::Done
        }
    }

    /// Returns whether the operation took effect: a lock is held, a token taken, a value exchanged. The end
    /// of a wait on a condition variable holds its mutex again in any case.
    #[must_use]
    #[inline]
    pub const fn succeeded(self) -> bool {
        matches!(self, Self::Done | Self::Spurious)
    }
}

impl OpResult {
    /// Returns whether an operation that waits for something and had this result can be executed next.
    /// `condition` says whether what it waits for is there.
    pub(crate) fn of_blocking(self, condition: impl FnOnce() -> Enabled) -> Enabled {
        match self {
            // Most errors are returned at once, but a thread can also die in an operation after it waited.
            Self::Failed => match condition() {
                Enabled::No { .. } => Enabled::Unknown,
                other => other,
            },
            // Signals and cancellations come from anywhere.
            Self::Cancelled | Self::Interrupted => Enabled::Unknown,
            Self::TimedOut => match condition() {
                Enabled::No { .. } => Enabled::IfTimePasses,
                other => other,
            },
            Self::Done | Self::Spurious => condition(),
        }
    }
}

/// Returns whether the operation of an event took effect. See [`OpResult::succeeded`].
#[must_use]
#[inline]
pub const fn succeeded(event: &Event) -> bool {
    const UNSUCCESSFUL: u16 = Flags::FAILED.0 | Flags::TIMED_OUT.0 | Flags::CANCELLED.0;
    event.flags.0 & UNSUCCESSFUL == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::{Op, Order, SiteIx, ThreadIx};

    #[test]
    fn every_combination_of_flags_has_one_result() {
        for bits in 0..=u16::MAX {
            let event = Event {
                thread: ThreadIx::MAIN,
                op: Op::CondWake,
                flags: Flags(bits),
                order: Order::Relaxed,
                site: SiteIx(0),
                context: 0,
                size: 0,
                addr: 0,
                value: 0,
            };
            assert_eq!(succeeded(&event), OpResult::of(&event).succeeded(), "{bits:#018b}");
        }
    }
}
