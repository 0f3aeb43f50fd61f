//! Signals that the kernel never blocks, although the program may.
//!
//! A fault or trap whose signal is blocked kills the process, and the runtime handles some that are no errors: of the
//! tracer, of the watchdog, and of reads of the time-stamp counter. So the kernel's mask lacks these signals, and the
//! thread's context knows which of them the program blocks.

use crate::{signals::SignalSet, signals::only, state::State};

const UNBLOCKABLE: SignalSet = only(libc::SIGSEGV) | only(libc::SIGTRAP);

/// Returns the mask to set in the kernel, and to log.
pub(crate) const fn mask(mask: SignalSet) -> SignalSet {
    mask & !UNBLOCKABLE
}

/// Removes these signals from the mask of a handler.
pub(crate) fn adapt_action(action: &mut libc::sigaction) {
    remove(&mut action.sa_mask, UNBLOCKABLE);
}

fn word(set: &mut libc::sigset_t) -> &mut SignalSet {
    // SAFETY: the first word of a set holds all existing signals.
    unsafe { &mut *(&raw mut *set).cast() }
}

fn remove(set: &mut libc::sigset_t, signals: SignalSet) {
    *word(set) &= !signals;
}

/// A change of a signal mask that the program asks for.
pub(crate) struct MaskChange {
    how: i32,
    requested: SignalSet,
    /// The set without these signals.
    pub(crate) for_kernel: libc::sigset_t,
}

impl MaskChange {
    pub(crate) fn new(how: i32, set: &libc::sigset_t) -> Self {
        let mut for_kernel = *set;
        let requested = *word(&mut for_kernel) & UNBLOCKABLE;
        remove(&mut for_kernel, UNBLOCKABLE);
        Self { how, requested, for_kernel }
    }
}

impl State {
    /// Returns these of the signals that the running thread blocks.
    fn blocked_unblockable(&mut self) -> SignalSet {
        self.me().context.blocked_unblockable()
    }

    /// Adds them to the mask that the kernel reported to the program.
    ///
    /// # Safety
    /// `old` is null or a set.
    pub(crate) unsafe fn complete_mask(&mut self, old: *mut libc::sigset_t) {
        // SAFETY: the caller's contract.
        if let Some(old) = unsafe { old.as_mut() } {
            *word(old) |= self.blocked_unblockable();
        }
    }

    /// Notes which of them the program blocks after a change.
    pub(crate) fn note_mask_change(&mut self, change: &MaskChange) {
        let before = self.blocked_unblockable();
        let blocked = match change.how {
            libc::SIG_BLOCK => before | change.requested,
            libc::SIG_UNBLOCK => before & !change.requested,
            _ => change.requested,
        };
        self.me().context.set_blocked_unblockable(blocked);
    }

    /// Makes the kernel block none of them, as control begins.
    pub(crate) fn unblock_unblockable(&mut self) {
        let inherited = self.me().mask;
        if inherited & UNBLOCKABLE != 0 {
            self.set_mask(inherited);
        }
    }

    /// Notes which of them the program blocks by a new mask.
    pub(crate) fn note_mask(&mut self, mask: SignalSet) {
        self.me().context.set_blocked_unblockable(mask & UNBLOCKABLE);
    }
}
