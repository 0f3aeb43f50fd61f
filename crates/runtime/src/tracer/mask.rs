//! Signal masks: a program may block all signals, but a fault while its signal is blocked is the end of a
//! process. The signals by which we trace are therefore never blocked.

use super::tracer;

const OURS: u64 = 1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGTRAP - 1);

/// A mask for the kernel.
pub(crate) fn mask(mask: u64) -> u64 {
    if tracer().is_some() { mask & !OURS } else { mask }
}

/// A mask as an event tells it: the same whether we trace or not.
pub(crate) const fn logged_mask(mask: u64) -> u64 {
    mask & !OURS
}

/// What the program wants to be blocked.
pub(crate) struct Mask {
    given: *const libc::sigset_t,
    changed: Option<libc::sigset_t>,
}

impl Mask {
    /// The program's set but for the signals by which we trace.
    ///
    /// # Safety
    /// `set` is null or a signal set.
    pub(crate) unsafe fn without_ours(set: *const libc::sigset_t) -> Self {
        let mut changed = None;
        if tracer().is_some() && !set.is_null() {
            // SAFETY: the caller's contract.
            let mut copy = unsafe { *set };
            Self::strip(&mut copy);
            changed = Some(copy);
        }
        Self { given: set, changed }
    }

    /// Takes them out.
    pub(crate) fn strip(set: &mut libc::sigset_t) {
        // SAFETY: a signal set and valid numbers.
        unsafe {
            libc::sigdelset(set, libc::SIGSEGV);
            libc::sigdelset(set, libc::SIGTRAP);
        }
    }

    /// To be passed on.
    pub(crate) fn pointer(&self) -> *const libc::sigset_t {
        self.changed.as_ref().map_or(self.given, |set| &raw const *set)
    }
}
