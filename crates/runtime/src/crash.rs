//! Deadly signals: who, where, with what last words.
//!
//! The runtime's own handler stays installed for them. A handler of the program's is kept in a table
//! and called from ours; only what it does not handle counts as a crash.

use crate::{
    end,
    real::{Real, real},
    state::Runtime,
    sys,
};
use core::{cell::UnsafeCell, ffi::c_void, mem};
use unsnarl_wire::{EndKind, TIME_IS_UP};

real! {
    fn sigaction(signal: i32, new: *const libc::sigaction, old: *mut libc::sigaction) -> i32;
    fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> i32;
}

/// Signals whose default is death and that tell of a failure.
pub(crate) const DEADLY: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];

const STACK: usize = 64 << 10;

struct Table(UnsafeCell<[libc::sigaction; 65]>);

// SAFETY: reached by the carrier only.
unsafe impl Sync for Table {}

/// What the program asked for: for deadly signals, and for those whose handlers want a stack of their own.
// SAFETY: all zeros is the default disposition.
static WANTED: Table = Table(UnsafeCell::new(unsafe { mem::zeroed() }));

/// Installs the handlers and the stack they run on.
pub(crate) fn install() {
    let Some(stack) = sys::map(STACK) else { return };
    let stack = libc::stack_t { ss_sp: stack as *mut c_void, ss_flags: 0, ss_size: STACK };
    // SAFETY: the stack stays mapped; the handlers fit their signatures.
    unsafe {
        sigaltstack(&raw const stack, core::ptr::null_mut());
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        // Not deferred: a crash within a handler of the program's is still a crash.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        for signal in DEADLY {
            sigaction(signal, &raw const action, core::ptr::null_mut());
        }
        action.sa_sigaction = time_is_up as *const () as usize;
        sigaction(TIME_IS_UP, &raw const action, core::ptr::null_mut());
    }
}

/// The program asks for a disposition, or about it: `sigaction`.
///
/// # Safety
/// As `sigaction`.
pub(crate) unsafe fn exchange(signal: i32, new: *const libc::sigaction, old: *mut libc::sigaction) -> i32 {
    if !(1..=64).contains(&signal) {
        // SAFETY: passed on.
        return unsafe { sigaction(signal, new, old) };
    }
    // SAFETY: the carrier only; pointers as by `sigaction`.
    unsafe {
        let entry = &mut (*WANTED.0.get())[signal as usize];
        let before = *entry;
        let deadly = DEADLY.contains(&signal);
        let wanted = if new.is_null() { None } else { Some(*new) };
        let on_stack =
            |a: &libc::sigaction| a.sa_flags & libc::SA_ONSTACK != 0 && a.sa_sigaction > libc::SIG_IGN;
        let mut result = 0;
        if !deadly {
            // Our dispatcher knows the thread's own stack; the kernel only knows the carrier's.
            let install = wanted.filter(on_stack).map(|mut action| {
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags |= libc::SA_SIGINFO;
                action
            });
            let chosen = install.as_ref().map_or(new, |action| &raw const *action);
            result = sigaction(signal, chosen, old);
        }
        if result == 0 {
            if let Some(wanted) = wanted {
                *entry = wanted;
            }
            if !old.is_null() && (deadly || on_stack(&before)) {
                *old = before;
            }
        }
        result
    }
}

unsafe extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the table is written by the carrier only, and we interrupt it.
    let wanted = unsafe { (*WANTED.0.get())[signal as usize] };
    match wanted.sa_sigaction {
        libc::SIG_IGN if signal != libc::SIGABRT => {}
        libc::SIG_DFL | libc::SIG_IGN => die(signal, info, context),
        handler => {
            let stack = Runtime::interrupted().map(|r| r.state.me().alternate_stack);
            let own = stack
                .filter(|s| wanted.sa_flags & libc::SA_ONSTACK != 0 && s.ss_flags & libc::SS_DISABLE == 0);
            let top = own.map_or(0, |s| (s.ss_sp as usize + s.ss_size) & !15);
            // SAFETY: the program installed the handler for this, and gave the stack for it. A handler that
            // takes one argument ignores the others.
            unsafe { call_handler(signal, info, context, handler, top) };
        }
    }
}

/// Calls a handler, on the stack that ends at `top` if that is not 0.
#[unsafe(naked)]
unsafe extern "C" fn call_handler(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    handler: usize,
    top: usize,
) {
    core::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "test r8, r8",
        "cmovnz rsp, r8",
        "call rcx",
        "mov rsp, rbp",
        "pop rbp",
        "ret",
    )
}

/// Writes down what can be known, then dies of the signal for real.
fn die(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    if let Some(runtime) = Runtime::interrupted() {
        let state = &runtime.state;
        let header = state.log.header();
        let registers = registers(context);
        if header.end.kind == EndKind::Unknown || header.end.kind == EndKind::Exit {
            end::conclude(state, EndKind::Signal, "");
            if signal == libc::SIGABRT {
                end::set_message(&mut header.end, abort_message());
            }
        }
        header.end.signal = signal;
        header.end.pc = registers[0];
        // SAFETY: the kernel's description of the signal.
        header.end.addr = unsafe { (*info).si_addr() } as u64;
        let top = state.threads[state.current.index()].stack_top;
        state.log.stack(state.current, registers, top);
    }
    // SAFETY: the default disposition, then the signal itself.
    unsafe {
        let default: libc::sigaction = mem::zeroed();
        sigaction(signal, &raw const default, core::ptr::null_mut());
        let process = sys::process() as usize;
        sys::call(libc::SYS_tgkill, [process, process, signal as usize, 0, 0, 0]);
    }
    sys::exit(128 + signal)
}

unsafe extern "C" fn time_is_up(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    if let Some(runtime) = Runtime::interrupted() {
        let state = &runtime.state;
        let registers = registers(context);
        end::conclude(state, EndKind::Timeout, "");
        state.log.header().end.pc = registers[0];
        state.log.stack(state.current, registers, state.threads[state.current.index()].stack_top);
    }
    sys::exit(96)
}

/// rip, rsp, rbp, rbx, r12 to r15 at the interruption.
fn registers(context: *mut c_void) -> [u64; 8] {
    // SAFETY: what the kernel passes to a handler.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
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

/// What glibc says before it aborts by itself ("free(): invalid pointer").
fn abort_message() -> &'static [u8] {
    static MESSAGE: Real = Real::new(c"__abort_msg");
    let Some(place) = MESSAGE.find() else { return b"" };
    // SAFETY: a pointer to a size and a C string, or null.
    unsafe {
        let message = *place.cast::<*const u8>();
        if message.is_null() { b"" } else { crate::log::c_bytes(message.add(4).cast()).trim_ascii_end() }
    }
}
