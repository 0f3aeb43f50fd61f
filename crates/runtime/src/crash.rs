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

struct Table(UnsafeCell<[libc::sigaction; 32]>);

// SAFETY: reached by the carrier only.
unsafe impl Sync for Table {}

/// What the program asked for, for deadly signals.
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

/// The program asks for a disposition of a deadly signal, or about it.
///
/// # Safety
/// As `sigaction`.
pub(crate) unsafe fn exchange(signal: i32, new: *const libc::sigaction, old: *mut libc::sigaction) -> i32 {
    // SAFETY: the carrier only; deadly signals have numbers below 32; pointers as by `sigaction`.
    unsafe {
        let entry = &mut (*WANTED.0.get())[signal as usize];
        let before = *entry;
        if !new.is_null() {
            *entry = *new;
        }
        if !old.is_null() {
            *old = before;
        }
    }
    0
}

unsafe extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the table is written by the carrier only, and we interrupt it.
    let wanted = unsafe { (*WANTED.0.get())[signal as usize] };
    match wanted.sa_sigaction {
        libc::SIG_DFL => die(signal, info, context),
        libc::SIG_IGN if signal != libc::SIGABRT => {}
        libc::SIG_IGN => die(signal, info, context),
        handler if wanted.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);
            // SAFETY: the program installed it for this.
            unsafe { mem::transmute::<usize, Handler>(handler)(signal, info, context) }
        }
        // SAFETY: the program installed it for this.
        handler => unsafe { mem::transmute::<usize, unsafe extern "C" fn(i32)>(handler)(signal) },
    }
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
