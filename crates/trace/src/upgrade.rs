//! Events of older files, translated to their present meaning. No other code knows what they meant.
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
use unsnarl_model::{Event, Flags, Op, ThreadIx};

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
