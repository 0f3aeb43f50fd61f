//! Events and outcomes of older files, translated to their present meaning. No other code knows what they
//! meant.
//!
//! Up to format 10, a run that was stopped had one kind of outcome, a time-out, and only its message named the
//! limit.
//!
//! Up to format 9, no flag said that an operation has a deadline. It certainly had one if it passed.
//!
//! Up to format 8
//! - the end of a wait had the number of the waking event as its value, or the largest number if there was none;
//! - only the beginning of a wait on a condition variable named the mutex, without its recursion depth;
//! - a requeue had the number of affected waiters as its value, and no target;
//! - a flag that now says that an atomic variable was changed by other code had another meaning for all other
//!   operations.

use std::collections::HashMap;
use unsnarl_model::{Event, Flags, Limit, Op, OutcomeKind, ThreadIx};

/// The first format whose events name all objects that they act on.
const SELF_CONTAINED: u32 = 9;
/// The first format with the flag for deadlines.
const DEADLINES: u32 = 10;

/// Translates the events of a file in their order.
#[derive(Debug)]
pub(crate) enum Upgrade {
    /// From format 9.
    Deadlines,
    /// From formats up to 8.
    Objects(ObjectState),
}

impl Upgrade {
    /// Returns the translation from this format; `None` if its events need none.
    pub(crate) fn from(format: u32) -> Option<Self> {
        match format {
            DEADLINES.. => None,
            SELF_CONTAINED..DEADLINES => Some(Self::Deadlines),
            _ => Some(Self::Objects(ObjectState::default())),
        }
    }

    pub(crate) fn upgrade(&mut self, event: &mut Event) {
        if let Self::Objects(state) = self {
            state.upgrade(event);
        }
        if event.flags.has(Flags::TIMED_OUT) {
            event.flags = event.flags | Flags::BOUNDED;
        }
    }
}

/// Determines by which limit a run was stopped.
pub(crate) fn upgrade_outcome(kind: &mut OutcomeKind, message: &str) {
    if !matches!(kind, OutcomeKind::Undecided(_)) {
        return;
    }
    let limit = match message {
        _ if message.starts_with("the limit of ") => Limit::Events,
        _ if message.starts_with("the limit on output") => Limit::Output,
        _ if message.starts_with("the limit on memory") => Limit::Memory,
        _ if message.starts_with("the plan ended") => Limit::Plan,
        _ => Limit::Time,
    };
    *kind = OutcomeKind::Undecided(limit);
}

/// Facts from earlier events about the objects of later ones.
#[derive(Debug, Default)]
pub(crate) struct ObjectState {
    /// The mutex that a thread released for a wait on a condition variable.
    waits: HashMap<ThreadIx, u64>,
    /// The recursion depth of each mutex.
    depths: HashMap<u64, u64>,
}

impl ObjectState {
    fn upgrade(&mut self, event: &mut Event) {
        if !event.op.is_atomic() {
            event.flags = event.flags.without(Flags::FOREIGN);
        }
        let failed = event.flags.has(Flags::FAILED);
        match event.op {
            Op::Lock | Op::TryLock | Op::Unlock if !failed => {
                self.depths.insert(event.addr, event.value);
            }
            Op::CondWait => {
                self.waits.insert(event.thread, event.value);
                let depth = self.depths.entry(event.value).or_default();
                *depth = depth.saturating_sub(u64::from(!failed));
                event.size = *depth;
            }
            Op::CondWake => {
                let mutex = self.waits.remove(&event.thread).unwrap_or(0);
                *self.depths.entry(mutex).or_default() += 1;
                *event = Event { value: mutex, ..*event }.with_waker(waker(event.value));
            }
            op if op.has_waker() => *event = Event { value: 0, ..*event }.with_waker(waker(event.value)),
            Op::FutexRequeue => (event.size, event.value) = (event.value, 0),
            _ => {}
        }
    }
}

fn waker(value: u64) -> Option<u64> {
    (value < u64::from(u32::MAX)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_out_of_older_format_becomes_the_limit_of_its_message() {
        let upgraded = |message: &str| {
            let mut kind = OutcomeKind::Undecided(Limit::Time);
            upgrade_outcome(&mut kind, message);
            kind
        };
        for (message, limit) in [
            ("the limit of 400 events was reached (--max-events raises it)", Limit::Events),
            ("the limit on output was reached (--max-output raises it)", Limit::Output),
            ("the limit on memory was reached (--max-memory raises it)", Limit::Memory),
            ("the plan ended before the program did", Limit::Plan),
            ("the time limit was reached (--timeout raises it)", Limit::Time),
        ] {
            assert_eq!(upgraded(message), OutcomeKind::Undecided(limit), "{message}");
        }
        let mut failure = OutcomeKind::Livelock;
        upgrade_outcome(&mut failure, "the limit of 400 events was reached");
        assert_eq!(failure, OutcomeKind::Livelock, "other kinds stay");
    }
}
