//! Order that uninstrumented code may have made without an event.
//!
//! A thread that enters such code, where it is known to synchronise, notes it here. From its next access or
//! event on, the thread counts as ordered after everything done before ([`Flags::MAY_BE_ORDERED`]). No other
//! thread runs between the note and that access or event, unless it is chosen right before it.

use crate::state::{Runtime, State};
use unsnarl_model::Flags;

/// Notes about what a thread has executed since its last event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnseenOrder {
    /// The race detector has not been informed.
    unapplied: bool,
    /// No event says so yet.
    unlogged: bool,
}

impl UnseenOrder {
    #[inline]
    pub(crate) const fn is_unapplied(self) -> bool {
        self.unapplied
    }

    #[inline]
    pub(crate) const fn is_unlogged(self) -> bool {
        self.unlogged
    }
}

impl State {
    /// Informs the race detector of what the running thread has noted.
    #[cold]
    #[inline(never)]
    pub(crate) fn apply_unseen_order(&mut self) {
        let thread = self.current;
        self.me().unseen_order.unapplied = false;
        if let Some(conflicts) = &mut self.conflicts {
            conflicts.order_after_all(thread);
        }
    }

    /// Returns the flags for the event that the running thread is about to log, and forgets the note.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_unseen_order(&mut self) -> Flags {
        if self.me().unseen_order.unapplied {
            self.apply_unseen_order();
        }
        self.me().unseen_order.unlogged = false;
        Flags::MAY_BE_ORDERED
    }
}

/// Notes that the calling thread executes uninstrumented code that may order it after other threads.
pub(crate) fn note() {
    if let Some(runtime) = Runtime::enter() {
        runtime.state.me().unseen_order = UnseenOrder { unapplied: true, unlogged: true };
    }
}
