//! Saved thread contexts, and the thread backends.
//!
//! glibc creates every thread, with its stack and its thread-local storage. Only the backend determines how
//! it runs then: a fiber is switched to in user space ([`crate::fiber`]); a kernel thread waits until it gets
//! the token ([`crate::token`]). Either way one thread runs at a time and decides which is next, so that the
//! same plan gives the same trace.

use crate::{debug, end, fiber, rewind::thread_start, sys, token};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The way in which threads are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ThreadBackend {
    /// One kernel thread, the carrier, for all of them.
    Fibers,
    /// One kernel thread for each, of which only the token holder runs: debuggers can follow these.
    Kernel,
}

/// A thread that does not run. Assembly code uses the offsets of its fields.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Context {
    /// The address of its saved registers: control words, r15 to r12, rbx, rbp, rip.
    stack_pointer: usize,
    /// The thread pointer, by which hooks recognise the calling thread.
    pub(crate) thread_pointer: usize,
    /// Cleared when the thread that glibc created has parked.
    pub(crate) parked: AtomicU32,
    /// 1 if it may go on, see [`token`].
    pub(crate) token: AtomicU32,
    /// True if system calls of this kernel thread are dispatched, see [`crate::dispatch`].
    pub(crate) dispatches: AtomicBool,
    backend: ThreadBackend,
    /// The signal mask of a kernel thread when it passed the token on.
    mask: AtomicU64,
    /// The signals that its kernel mask has in addition to its own, see [`crate::handlers::mask_with_kept`].
    added_mask: AtomicU64,
    /// The signals that its own mask has and the kernel's lacks, see [`crate::unblockable`].
    blocked_unblockable: AtomicU64,
}

/// The limit for the last steps of a thread in seconds; they take microseconds and are not scheduled.
const EXIT_TIMEOUT_SECONDS: i64 = 10;

impl Context {
    /// Creates the context of the existing thread.
    pub(crate) fn adopt(backend: ThreadBackend, thread_pointer: usize) -> Self {
        let (parked, token, dispatches) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
        let [mask, added_mask, blocked_unblockable] = [0; 3].map(AtomicU64::new);
        Self {
            stack_pointer: 0,
            thread_pointer,
            parked,
            token,
            dispatches,
            backend,
            mask,
            added_mask,
            blocked_unblockable,
        }
    }

    /// Creates the context of a new thread, which calls [`Context::park`] when it starts.
    pub(crate) fn new_unstarted(backend: ThreadBackend) -> Self {
        Self { parked: AtomicU32::new(1), ..Self::adopt(backend, 0) }
    }

    pub(crate) fn backend(&self) -> ThreadBackend {
        self.backend
    }

    /// Returns the signal mask of a kernel thread without the token.
    pub(crate) fn mask(&self) -> u64 {
        self.mask.load(Ordering::Relaxed)
    }

    pub(crate) fn set_mask(&self, mask: u64) {
        self.mask.store(mask, Ordering::Relaxed);
    }

    pub(crate) fn added_mask(&self) -> u64 {
        self.added_mask.load(Ordering::Relaxed)
    }

    pub(crate) fn set_added_mask(&self, signals: u64) {
        self.added_mask.store(signals, Ordering::Relaxed);
    }

    pub(crate) fn blocked_unblockable(&self) -> u64 {
        self.blocked_unblockable.load(Ordering::Relaxed)
    }

    pub(crate) fn set_blocked_unblockable(&self, signals: u64) {
        self.blocked_unblockable.store(signals, Ordering::Relaxed);
    }

    /// Returns the thread's own mask if the kernel's is this one.
    pub(crate) fn own_mask(&self, kernel: u64) -> u64 {
        kernel & !self.added_mask() | self.blocked_unblockable()
    }

    /// Parks the new thread; returns at its first turn.
    #[inline]
    pub(crate) fn park(&mut self) {
        // SAFETY: called on a fresh thread, whose stack no other thread uses; `self` outlives it.
        unsafe {
            match self.backend {
                ThreadBackend::Fibers if thread_start::is_starting() => thread_start::park(self),
                ThreadBackend::Fibers => fiber::park(self),
                ThreadBackend::Kernel => {
                    token::park(self);
                    debug::stop_if_requested();
                }
            }
        }
    }

    /// Waits in the creator until the new thread has parked. `tid` is the word in its descriptor that the kernel clears
    /// if the exit notification cannot be redirected.
    pub(crate) fn wait_parked(&self, tid: *mut u32) {
        let is_reported_to_descriptor = self.backend == ThreadBackend::Fibers
            && !fiber::redirects_exits()
            && self.parked.load(Ordering::Relaxed) != 0;
        let word = if is_reported_to_descriptor { tid } else { self.parked.as_ptr() };
        while !sys::wait_until_cleared(word, EXIT_TIMEOUT_SECONDS) {}
    }

    /// Switches from `self` to `to`; returns when a thread switches back.
    #[inline]
    pub(crate) fn switch(&mut self, to: &Self) {
        // SAFETY: `to` has parked or switched away, does not run, and its stack is alive.
        unsafe {
            match self.backend {
                ThreadBackend::Fibers => fiber::switch(self, to),
                ThreadBackend::Kernel => {
                    token::pass(self, to);
                    debug::stop_if_requested();
                }
            }
        }
    }

    /// Lets a thread that is never switched to again run to its end, uncontrolled; the kernel clears `tid`
    /// then.
    pub(crate) fn release(&self, tid: *mut u32) {
        match self.backend {
            ThreadBackend::Fibers => {
                // SAFETY: the context is never used again; `tid` is in its descriptor, which glibc keeps.
                let created = unsafe { fiber::resume_as_thread(self, tid) };
                if created < 0 {
                    end::refuse(
                        "the kernel refused a thread (is a limit on processes reached? see `ulimit -u`)",
                    );
                }
            }
            ThreadBackend::Kernel => token::give(self),
        }
        if !sys::wait_until_cleared(tid, EXIT_TIMEOUT_SECONDS) {
            end::refuse(
                "a thread that ended waits in the C library for a lock that another thread holds, most likely that of the \
                 program's allocator; use the C library's allocator under unsnarl",
            );
        }
    }

    /// Returns whether the thread has parked or switched away, so that its registers are saved.
    pub(crate) const fn is_saved(&self) -> bool {
        self.stack_pointer != 0
    }

    /// Returns rip, rsp, rbp, rbx, r12 to r15 of a thread that does not run.
    pub(crate) fn registers(&self) -> [u64; 8] {
        let saved = self.stack_pointer as *const u64;
        // SAFETY: both backends save the registers this way.
        let word = |n: usize| unsafe { saved.add(n).read() };
        [word(7), self.stack_pointer as u64 + 64, word(6), word(5), word(4), word(3), word(2), word(1)]
    }
}
