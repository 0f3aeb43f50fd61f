//! Fatal signals: thread, location and last message.
//!
//! The runtime's handler stays installed for them; only signals that the program does not handle itself (see
//! [`crate::handlers`]) count as crashes.

use crate::{
    end, handlers,
    real::{Real, real},
    stack,
    state::Runtime,
    sys,
};
use core::{
    ffi::c_void,
    mem,
    ops::Range,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};
use unsnarl_wire::{EndKind, TIMEOUT_SIGNAL};

real! {
    fn sigaction(signal: i32, new: *const libc::sigaction, old: *mut libc::sigaction) -> i32;
    fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> i32;
}

/// Signals that indicate a failure and whose default action is fatal.
pub(crate) const DEADLY: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];

const STACK: usize = 64 << 10;

/// The address of the shared signal stack; 0 before it exists.
static SIGNAL_STACK: AtomicUsize = AtomicUsize::new(0);

/// True after `abort` was called.
static ABORTING: AtomicBool = AtomicBool::new(false);

/// Returns the signal stack registered with the kernel, which the runtime's own handlers use.
pub(crate) fn stack() -> Range<usize> {
    let start = SIGNAL_STACK.load(Ordering::Relaxed);
    start..start + STACK
}

/// Notes a call of `abort`: SIGABRT follows, and only a jump out of its handler prevents death.
pub(crate) fn note_abort() {
    ABORTING.store(true, Ordering::Relaxed);
}

/// Returns whether SIGABRT comes from `abort`, also if the C library called it after a message.
pub(crate) fn is_aborting() -> bool {
    ABORTING.load(Ordering::Relaxed) || !abort_message().is_empty()
}

/// Installs the handlers and their stack.
pub(crate) fn install() {
    let Some(stack) = sys::map(STACK, false) else { return };
    SIGNAL_STACK.store(stack, Ordering::Relaxed);
    use_signal_stack();
    install_timeout_handler();
    DEADLY.into_iter().for_each(handlers::take_over);
}

/// Installs the handler without the C library, which reserves this signal.
fn install_timeout_handler() {
    /// The kernel's layout: handler, flags, return trampoline, mask.
    #[repr(C)]
    struct Action(usize, usize, usize, u64);
    const SA_RESTORER: i32 = 0x0400_0000;
    let flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | SA_RESTORER;
    let handler = on_timeout as *const () as usize;
    // The handler does not return.
    let action = Action(handler, flags as usize, handler, 0);
    let args = [TIMEOUT_SIGNAL as usize, &raw const action as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the handler has the required signature.
    unsafe { sys::call(libc::SYS_rt_sigaction, args) };
}

/// Makes the calling kernel thread handle signals on the shared stack: only the running thread gets any.
pub(crate) fn use_signal_stack() {
    let Range { start, .. } = stack();
    let stack = libc::stack_t { ss_sp: start as *mut c_void, ss_flags: 0, ss_size: STACK };
    // SAFETY: the stack stays mapped.
    unsafe { sigaltstack(&raw const stack, core::ptr::null_mut()) };
}

/// Records what is known of the crash, then dies of the signal.
pub(crate) fn die(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    if let Some(runtime) = Runtime::interrupted() {
        runtime.log_unfinished();
        let state = &runtime.state;
        let header = state.log.header();
        let registers = stack::registers_of_thread(registers(context));
        if header.end.kind == EndKind::Unknown || header.end.kind == EndKind::Exit {
            end::conclude(state, EndKind::Signal, "");
            if signal == libc::SIGABRT {
                end::set_message(&mut header.end, abort_message());
            }
        }
        header.end.signal = signal;
        header.end.pc = registers[0];
        // SAFETY: the kernel's description of the signal.
        let (addr, code) = unsafe { ((*info).si_addr() as u64, (*info).si_code) };
        (header.end.addr, header.end.signal_code) = (addr, code);
        let top = state.threads[state.current.index()].stack_top;
        state.log.stack(state.current, registers, top);
    }
    // SAFETY: sets the default disposition, then sends the signal.
    unsafe {
        let default: libc::sigaction = mem::zeroed();
        sigaction(signal, &raw const default, core::ptr::null_mut());
        let (process, thread) = (sys::process() as usize, sys::thread() as usize);
        sys::call(libc::SYS_tgkill, [process, thread, signal as usize, 0, 0, 0]);
    }
    sys::exit(128 + signal)
}

unsafe extern "C" fn on_timeout(_: i32, _: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    if let Some(runtime) = Runtime::interrupted() {
        let state = &runtime.state;
        crate::tracer::restore_originals(context);
        let registers = stack::registers_of_thread(registers(context));
        end::conclude(state, EndKind::Timeout, "");
        end::waits_for_environment(state);
        state.log.header().end.pc = registers[0];
        state.log.stack(state.current, registers, state.threads[state.current.index()].stack_top);
    }
    sys::exit(96)
}

/// Returns rip, rsp, rbp, rbx, r12 to r15 at the interruption.
fn registers(context: *const libc::ucontext_t) -> [u64; 8] {
    // SAFETY: the context that the kernel passes to a handler.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    [
        libc::REG_RIP,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RBX,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ]
    .map(|r| registers[r as usize] as u64)
}

/// Returns glibc's message before it aborts by itself ("free(): invalid pointer").
fn abort_message() -> &'static [u8] {
    static MESSAGE: Real = Real::new(c"__abort_msg");
    let Some(place) = MESSAGE.find() else { return b"" };
    // SAFETY: glibc defines the symbol as a pointer that is null or points to a size and a C string.
    unsafe {
        let message = *place.cast::<*const u8>();
        if message.is_null() { b"" } else { crate::log::c_bytes(message.add(4).cast()).trim_ascii_end() }
    }
}
