//! Signal masks. A program may block all signals, but a fault whose signal is blocked kills the process. The
//! tracer's signals are therefore never blocked.

use super::tracer;

const TRACER_SIGNALS: u64 = 1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGTRAP - 1);

/// Returns the mask to set in the kernel.
pub(crate) fn mask(mask: u64) -> u64 {
    if tracer().is_some() { mask & !TRACER_SIGNALS } else { mask }
}

/// Returns the mask as it is logged: the same with and without tracing.
pub(crate) const fn logged_mask(mask: u64) -> u64 {
    mask & !TRACER_SIGNALS
}

/// The signals that the program wants to block.
pub(crate) struct Mask {
    given: *const libc::sigset_t,
    changed: Option<libc::sigset_t>,
}

impl Mask {
    /// Returns the program's set without the tracer's signals.
    ///
    /// # Safety
    /// `set` is null or a signal set.
    pub(crate) unsafe fn without_ours(set: *const libc::sigset_t) -> Self {
        let mut changed = None;
        if tracer().is_some() && !set.is_null() {
            // SAFETY: the caller's contract.
            let mut copy = unsafe { *set };
            Self::remove_tracer_signals(&mut copy);
            changed = Some(copy);
        }
        Self { given: set, changed }
    }

    /// Removes the tracer's signals.
    pub(crate) fn remove_tracer_signals(set: &mut libc::sigset_t) {
        // SAFETY: a signal set and valid numbers.
        unsafe {
            libc::sigdelset(set, libc::SIGSEGV);
            libc::sigdelset(set, libc::SIGTRAP);
        }
    }

    /// Returns the set to pass on.
    pub(crate) fn pointer(&self) -> *const libc::sigset_t {
        self.changed.as_ref().map_or(self.given, |set| &raw const *set)
    }
}
