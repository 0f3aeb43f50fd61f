//! Threads as kernel threads that pass a token: its holder runs, the others sleep in the kernel.
//!
//! This is slower than fibers by a factor of a hundred, but debuggers see every thread with its own stack,
//! registers and id. The runtime's state is handed over with the token: the store that passes it releases,
//! the exchange that takes it acquires.
//!
//! A thread without the token blocks all signals except those that only it can cause: signals to the process
//! interrupt the running thread, as with fibers.

use crate::{context::Context, crash, dispatch, handlers, stack, sys};
use core::{arch::naked_asm, sync::atomic::Ordering};

/// Signals that a thread without the token does not block: faults (a debugger steps by SIGTRAP), and the one
/// by which glibc makes all threads change their user.
const UNBLOCKED: u64 = {
    const SETXID: i32 = 33;
    let signals =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS, SETXID];
    let (mut mask, mut n) = (0, 0);
    while n < signals.len() {
        mask |= 1 << (signals[n] - 1);
        n += 1;
    }
    mask
};

/// Saves the calling thread's context as `fiber::switch` does, so that stacks are found in the same way, and
/// calls a function that returns when the thread may go on. It has unwind information for debuggers.
macro_rules! save_and_call {
    ($function:path) => {
        naked_asm!(
            ".cfi_startproc",
            "push rbp",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset rbp, 0",
            "push rbx",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset rbx, 0",
            "push r12",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset r12, 0",
            "push r13",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset r13, 0",
            "push r14",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset r14, 0",
            "push r15",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset r15, 0",
            "push 0", // where a fiber has its control words
            ".cfi_adjust_cfa_offset 8",
            "mov [rdi], rsp",
            "call {}",
            "add rsp, 56", // a call keeps these registers
            ".cfi_adjust_cfa_offset -56",
            "ret",
            ".cfi_endproc",
            sym $function,
        )
    };
}

/// Reports to the creator that the new thread has started, and waits for the token.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn park(context: *mut Context) {
    save_and_call!(wait_for_first_turn)
}

/// Passes the token to `to` and waits until it comes back to `from`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn pass(from: *mut Context, to: *const Context) {
    save_and_call!(give_and_wait)
}

unsafe extern "C" fn wait_for_first_turn(context: *mut Context) {
    crash::use_signal_stack();
    // SAFETY: as below.
    let before = unsafe {
        let before = block_signals() & !(*context).added_mask();
        (*context).set_mask(before);
        before
    };
    // SAFETY: the creator waits and reads only the word that is cleared last.
    let context = unsafe {
        (*context).thread_pointer = sys::thread_pointer();
        &*context
    };
    context.parked.store(0, Ordering::Release);
    sys::wake(&context.parked);
    take(context);
    restore_mask(context, before);
}

unsafe extern "C" fn give_and_wait(from: *const Context, to: *const Context) {
    // SAFETY: contexts are parts of records, which do not move.
    let (from, to) = unsafe { (&*from, &*to) };
    let before = block_signals() & !from.added_mask();
    from.set_mask(before);
    give(to);
    take(from);
    restore_mask(from, before);
}

/// Sets the mask of a thread that has just got the token. A replay may set another mask, so the stack is cleared
/// afterwards. The runtime's own stack cannot be used: a thread that ended gets here while its creator is on it.
fn restore_mask(me: &Context, own: u64) {
    set_mask(handlers::mask_with_kept(me, own));
    stack::clear_unused_stack();
}

/// Passes the token to a thread.
pub(crate) fn give(to: &Context) {
    to.token.store(1, Ordering::Release);
    sys::wake(&to.token);
}

/// Sleeps until the calling thread gets the token.
fn take(me: &Context) {
    while me.token.swap(0, Ordering::Acquire) == 0 {
        sys::wait_while(&me.token, 0);
    }
    dispatch::enable_for_kernel_thread(&me.dispatches);
}

/// Blocks signals; returns the previous mask.
///
/// The kernel queues a blocked signal even if the program ignores it, and a queued one interrupts the running
/// thread: its system calls may then return early. `getdents` does, if a child ends meanwhile. So ignored signals
/// are blocked only if the thread itself blocks them; the kernel then drops them.
fn block_signals() -> u64 {
    let before = set_mask(!UNBLOCKED);
    let dropped = handlers::ignored_by_default() & !before;
    if dropped != 0 {
        set_mask(!(UNBLOCKED | dropped));
    }
    before
}

fn set_mask(mask: u64) -> u64 {
    let mask = dispatch::mask(mask);
    let mut before = 0u64;
    let (set, new, old) = (libc::SIG_SETMASK as usize, &raw const mask as usize, &raw mut before as usize);
    // SAFETY: the calling thread's mask.
    unsafe { sys::call(libc::SYS_rt_sigprocmask, [set, new, old, size_of::<u64>(), 0, 0]) };
    before
}
