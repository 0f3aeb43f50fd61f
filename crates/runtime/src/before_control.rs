//! The program before control begins: constructors of libraries that are loaded first.
//!
//! The C library itself served these calls, so its objects are in the state that glibc leaves them in. The runtime keeps
//! the state of every object in glibc's own form; only the thread ids of owners differ: glibc stores the kernel's, the
//! runtime its own. Signals that are pending by then, and handlers that were installed, are taken over.

use crate::{
    environment::take_from_kernel,
    handlers,
    hooks::ids,
    signals::{SentSignal, SignalSet},
    state::State,
    sys,
};
use alloc::vec::Vec;
use core::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU32, Ordering},
};
use unsnarl_model::ThreadIx;

/// The kernel's id of the thread that executed the constructors.
static THREAD: AtomicU32 = AtomicU32::new(0);

struct PendingCell(UnsafeCell<Vec<SentSignal>>);

// SAFETY: reached only while the process has one thread.
unsafe impl Sync for PendingCell {}

/// The signals that were pending when the library was loaded. A fork does not inherit the kernel's.
static PENDING: PendingCell = PendingCell(UnsafeCell::new(Vec::new()));

/// Notes the signals and handlers that the constructors have left. Called once for each process that loads the program.
pub(crate) fn note() {
    THREAD.store(sys::thread() as u32, Ordering::Relaxed);
    handlers::take_over_actions();
    let mut pending: SignalSet = 0;
    let size = size_of::<SignalSet>();
    // SAFETY: there is room for the result.
    unsafe { sys::call(libc::SYS_rt_sigpending, [&raw mut pending as usize, size, 0, 0, 0, 0]) };
    if pending == 0 {
        return;
    }
    // SAFETY: see above.
    let noted = unsafe { &mut *PENDING.0.get() };
    while let Some(sent) = take_from_kernel(pending) {
        noted.push(sent);
    }
}

/// Returns the runtime's id of the thread that the C library stored as an owner.
pub(crate) fn owner(stored: u32) -> u32 {
    if stored != 0 && stored == THREAD.load(Ordering::Relaxed) { ids::PROCESS as u32 } else { stored }
}

impl State {
    /// Makes the signals pending that were so before control began.
    pub(crate) fn take_over_signals(&mut self) {
        // SAFETY: see above.
        for sent in unsafe { &*PENDING.0.get() } {
            let to_thread = matches!(sent.info.code(), libc::SI_TKILL);
            // The constructors run in every run, so this is no input from outside: the first event stands for it.
            self.send(SentSignal { event: Some(0), ..*sent }, to_thread.then_some(ThreadIx::MAIN));
        }
    }
}
