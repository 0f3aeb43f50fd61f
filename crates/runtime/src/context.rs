//! Where a thread stands while it does not run, and what threads run on.
//!
//! glibc makes every thread, with its stack and its thread-local storage. What becomes of it then is the backend's
//! business, and nobody else's: as a fiber it is switched to by hand ([`crate::fiber`]); as a kernel thread it waits
//! until it is given the token ([`crate::token`]). Either way one thread runs at a time and decides who is next, so
//! that the same plan gives the same trace.

use crate::{debug, end, fiber, rewind::thread_start, sys, token};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What threads run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ThreadBackend {
    /// One kernel thread, the carrier, for all of them.
    Fibers,
    /// One kernel thread for each, of which only the holder of the token runs: what debuggers can follow.
    Kernel,
}

/// A thread while it does not run. Assembly knows the places of its fields.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Context {
    /// Where its registers are saved: control words, r15 to r12, rbx, rbp, rip.
    stack_pointer: usize,
    /// By which hooks know whose call it is.
    pub(crate) thread_pointer: usize,
    /// Cleared when the thread that glibc made has parked.
    pub(crate) parked: AtomicU32,
    /// 1 if it may go on, see [`token`].
    pub(crate) token: AtomicU32,
    /// Whether the kernel tells us of the system calls of this kernel thread, see [`crate::dispatch`].
    pub(crate) dispatches: AtomicBool,
    backend: ThreadBackend,
    /// The signal mask that a kernel thread had when it gave the token away.
    mask: AtomicU64,
}

/// How many seconds the last steps of a thread may take, which take microseconds: nobody schedules them.
const EXIT_TIMEOUT_SECONDS: i64 = 10;

impl Context {
    /// The thread that is there already.
    pub(crate) fn adopt(backend: ThreadBackend, thread_pointer: usize) -> Self {
        let (parked, token, dispatches) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
        Self { stack_pointer: 0, thread_pointer, parked, token, dispatches, backend, mask: AtomicU64::new(0) }
    }

    /// A thread to be made; it calls [`Context::park`] when it is there.
    pub(crate) fn new_unstarted(backend: ThreadBackend) -> Self {
        Self { parked: AtomicU32::new(1), ..Self::adopt(backend, 0) }
    }

    pub(crate) fn backend(&self) -> ThreadBackend {
        self.backend
    }

    /// The signal mask of a kernel thread without the token.
    pub(crate) fn mask(&self) -> u64 {
        self.mask.load(Ordering::Relaxed)
    }

    pub(crate) fn set_mask(&self, mask: u64) {
        self.mask.store(mask, Ordering::Relaxed);
    }

    /// On the new thread: leaves the scene and returns when it is its turn for the first time.
    #[inline]
    pub(crate) fn park(&mut self) {
        // SAFETY: on a fresh thread, whose stack nobody else uses; `self` outlives it.
        unsafe {
            match self.backend {
                ThreadBackend::Fibers if thread_start::is_starting() => thread_start::park(self),
                ThreadBackend::Fibers => fiber::park(self),
                ThreadBackend::Kernel => {
                    token::park(self);
                    debug::arrived();
                }
            }
        }
    }

    /// On the maker's side: waits until the new thread has parked.
    pub(crate) fn wait_parked(&self) {
        while !sys::wait_until_cleared(self.parked.as_ptr(), EXIT_TIMEOUT_SECONDS) {}
    }

    /// Leaves `self` and goes on with `to`; returns when somebody switches back.
    #[inline]
    pub(crate) fn switch(&mut self, to: &Self) {
        // SAFETY: `to` has parked or switched away, does not run, and its stack is alive.
        unsafe {
            match self.backend {
                ThreadBackend::Fibers => fiber::switch(self, to),
                ThreadBackend::Kernel => {
                    token::pass(self, to);
                    debug::arrived();
                }
            }
        }
    }

    /// Lets a thread that never will be switched to again run to its end, out of control; the kernel clears `tid`
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

    /// rip, rsp, rbp, rbx, r12 to r15 of a thread that does not run.
    pub(crate) fn registers(&self) -> [u64; 8] {
        let saved = self.stack_pointer as *const u64;
        // SAFETY: both backends save them so.
        let word = |n: usize| unsafe { saved.add(n).read() };
        [word(7), self.stack_pointer as u64 + 64, word(6), word(5), word(4), word(3), word(2), word(1)]
    }
}
