//! System calls that bypass the hooks: those that libraries make internally.
//!
//! The C library and OpenMP's wait by raw futexes, for the lock of a `FILE` or at a barrier, and the C
//! library reads and writes. Really blocking there would stop the only kernel thread, which must run the
//! thread being waited for. So where such calls are possible, the kernel's *syscall user dispatch* makes
//! every call from outside the runtime's code raise SIGSYS. A call that arrives here is either modelled, as
//! if a hook had been called, or made on the program's behalf. This takes some microseconds for each call and
//! is not enabled before it is needed ([`enable`]).
//!
//! A call arrives on the calling thread's stack, below the interrupted frame, so that the thread can wait
//! there while others run. Forked and spawned processes are not affected: the kernel disables the dispatch
//! there.

use crate::{
    handlers,
    hooks::{futex, stdio},
    stack::{pop_callee_saved, push_callee_saved},
    state::{Runtime, State},
    sys,
};
use core::{
    arch::{global_asm, naked_asm},
    ffi::c_void,
    mem::offset_of,
    sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
};
use unsnarl_model::Misuse;

/// The selector that the kernel reads: whether a call from outside the runtime is dispatched or executed.
static SELECTOR: AtomicU8 = AtomicU8::new(EXECUTE);
const EXECUTE: u8 = 0;
const DISPATCH: u8 = 1;

static ENABLED: AtomicBool = AtomicBool::new(false);

/// SIGSYS in a signal mask.
const SIGSYS_SET: u64 = 1 << (libc::SIGSYS - 1);

/// Enables the dispatch; returns false if the kernel does not support it (before Linux 5.11).
pub(crate) fn enable() -> bool {
    if ENABLED.load(Ordering::Relaxed) {
        return true;
    }
    if !dispatch() {
        return false;
    }
    ENABLED.store(true, Ordering::Relaxed);
    // Neither masks nor handlers may block SIGSYS now.
    (1..=64).for_each(handlers::refresh_action);
    let (how, ours) = (libc::SIG_UNBLOCK as usize, SIGSYS_SET);
    // SAFETY: unblocks a signal that the runtime handles.
    unsafe {
        sys::call(libc::SYS_rt_sigprocmask, [how, &raw const ours as usize, 0, size_of::<u64>(), 0, 0])
    };
    SELECTOR.store(DISPATCH, Ordering::Relaxed);
    true
}

/// Returns whether the dispatch is enabled.
pub(crate) fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Enables the dispatch in a controlled fork as in its parent.
pub(crate) fn enable_in_fork() {
    if ENABLED.load(Ordering::Relaxed) {
        dispatch();
    }
}

/// Enables the dispatch for the running kernel thread if it has not been done: the kernel keeps this setting
/// per thread.
pub(crate) fn enable_for_kernel_thread(dispatches: &AtomicBool) {
    if ENABLED.load(Ordering::Relaxed) && !dispatches.swap(true, Ordering::Relaxed) {
        dispatch();
    }
}

fn dispatch() -> bool {
    const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
    const ON: usize = 1;
    let (start, size) = runtime_code();
    let arguments = [PR_SET_SYSCALL_USER_DISPATCH, ON, start, size, SELECTOR.as_ptr() as usize, 0];
    // SAFETY: the selector lives as long as the process.
    unsafe { sys::call(libc::SYS_prctl, arguments) == 0 }
}

impl State {
    /// Prepares for threads that wait inside a library.
    pub(crate) fn expect_waits_in_libraries(&self, pc: u64) {
        if !enable() {
            self.warn(Misuse::NotModelled, pc, 0, "waits inside libraries (no syscall user dispatch here)");
        }
    }
}

/// Disables the dispatch while it is alive: for the runtime's own use of the C library.
pub(crate) struct PauseGuard(u8);

impl PauseGuard {
    pub(crate) fn new() -> Self {
        Self(SELECTOR.swap(EXECUTE, Ordering::Relaxed))
    }
}

impl Drop for PauseGuard {
    fn drop(&mut self) {
        SELECTOR.store(self.0, Ordering::Relaxed);
    }
}

/// Enables the dispatch while it is alive, also inside [`PauseGuard`]: for other threads that run meanwhile.
pub(crate) struct ResumeGuard(u8);

impl ResumeGuard {
    pub(crate) fn new() -> Self {
        let selector = if ENABLED.load(Ordering::Relaxed) { DISPATCH } else { EXECUTE };
        Self(SELECTOR.swap(selector, Ordering::Relaxed))
    }
}

impl Drop for ResumeGuard {
    fn drop(&mut self) {
        SELECTOR.store(self.0, Ordering::Relaxed);
    }
}

/// Returns the mask to set in the kernel.
pub(crate) fn mask(mask: u64) -> u64 {
    if ENABLED.load(Ordering::Relaxed) { mask & !SIGSYS_SET } else { mask }
}

/// Adapts an action for the kernel.
pub(crate) fn adapt_action(signal: i32, action: &mut libc::sigaction) {
    if !ENABLED.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: a signal set and a valid number.
    unsafe { libc::sigdelset(&raw mut action.sa_mask, libc::SIGSYS) };
    if signal == libc::SIGSYS {
        action.sa_sigaction = sigsys_entry as *const () as usize;
        action.sa_flags = (action.sa_flags | libc::SA_NODEFER) & !libc::SA_ONSTACK;
    }
}

/// Returns the start and size of the runtime's code: calls from there are never dispatched.
fn runtime_code() -> (usize, usize) {
    unsafe extern "C" {
        static __ehdr_start: libc::Elf64_Ehdr;
    }
    let start = (&raw const __ehdr_start) as usize;
    // SAFETY: the linker defines the start of this library; the header states where its program headers are.
    let headers = unsafe {
        let first = (start + __ehdr_start.e_phoff as usize) as *const libc::Elf64_Phdr;
        core::slice::from_raw_parts(first, __ehdr_start.e_phnum as usize)
    };
    let code = headers.iter().find(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0);
    code.map_or((0, 0), |h| (start + h.p_vaddr as usize, h.p_memsz as usize))
}

/// The handler of SIGSYS: a dispatched call or a plain signal. A dispatched one returns through the runtime's
/// own sigreturn, because the C library's would be dispatched again.
#[unsafe(naked)]
unsafe extern "C" fn sigsys_entry(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    naked_asm!(
        "cmp dword ptr [rsi + {code}], 2", // SYS_USER_DISPATCH
        "jne {other}",
        "lea rax, [rip + unsnarl_return_from_signal]",
        "mov [rsp], rax",
        "mov rdi, rdx",
        "jmp {handle_call}",
        code = const offset_of!(libc::siginfo_t, si_code),
        other = sym handlers::entry,
        handle_call = sym handle_call,
    )
}

// Unwinders recognise these instructions and must not take them for the end of another function.
global_asm!(
    ".p2align 4",
    "nop",
    ".hidden unsnarl_return_from_signal",
    "unsnarl_return_from_signal:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0", // mov rax, 15
    "syscall",
);

/// Handles a system call that a library made internally.
unsafe extern "C-unwind" fn handle_call(context: *mut libc::ucontext_t) {
    // SAFETY: the kernel's description of the caller, which waits for the result there.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    let register = |which: i32| registers[which as usize] as usize;
    let number = register(libc::REG_RAX) as i64;
    let arguments = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9];
    let arguments @ [first, second, third, ..] = arguments.map(register);
    let pc = register(libc::REG_RIP) as u64;
    // SAFETY: the program's call, made as requested or emulated.
    let result = unsafe {
        match number {
            libc::SYS_futex => match Runtime::enter() {
                Some(runtime) => wait_or_wake(runtime, arguments, pc),
                None => sys::call(number, arguments),
            },
            libc::SYS_read | libc::SYS_write | libc::SYS_readv | libc::SYS_writev | libc::SYS_close => {
                match Runtime::enter() {
                    Some(runtime) => stdio::call(runtime, number, arguments, (pc, register(libc::REG_RSP))),
                    None => sys::call(number, arguments),
                }
            }
            // The frame it returns to restores all registers, so the runtime's need not be kept.
            libc::SYS_rt_sigreturn => return_from_signal(register(libc::REG_RSP)),
            libc::SYS_rt_sigprocmask if second != 0 => {
                let kernel_mask = mask(*(second as *const u64));
                sys::call(number, [first, &raw const kernel_mask as usize, third, arguments[3], 0, 0])
            }
            // A child that shares the stack would return past the runtime's frames: it gets a copy.
            libc::SYS_vfork => sys::call(libc::SYS_fork, arguments),
            libc::SYS_clone if second == 0 => {
                let flags = first & !(libc::CLONE_VM | libc::CLONE_VFORK) as usize;
                sys::call(number, [flags, second, third, arguments[3], arguments[4], 0])
            }
            libc::SYS_clone => clone_onto_stack(registers.as_ptr()),
            libc::SYS_clone3 if *((first + CLONE3_STACK) as *const usize) != 0 => {
                clone_onto_stack(registers.as_ptr())
            }
            _ => sys::call(number, arguments),
        }
    };
    registers[libc::REG_RAX as usize] = result as i64;
}

/// The offset of the stack argument of `clone3`.
const CLONE3_STACK: usize = 40;

unsafe fn wait_or_wake(runtime: &mut Runtime, arguments: [usize; 6], pc: u64) -> isize {
    // A thread must not be cancelled inside a library.
    let asynchronous = core::mem::take(&mut runtime.state.me().cancel.asynchronous);
    // SAFETY: the program's call.
    let result = unsafe { futex::futex(runtime, arguments, pc) };
    let me = runtime.state.me();
    me.cancel.asynchronous = asynchronous;
    me.must_check_signals |= asynchronous;
    result
}

#[unsafe(naked)]
unsafe extern "C" fn return_from_signal(stack: usize) -> ! {
    naked_asm!("mov rsp, rdi", "jmp unsnarl_return_from_signal")
}

/// The address at which a child with its own stack continues.
static CHILD: AtomicUsize = AtomicUsize::new(0);

/// Clones with the caller's registers. The child has nothing of the runtime's stack and continues where the
/// caller would.
#[unsafe(naked)]
unsafe extern "C" fn clone_onto_stack(registers: *const i64) -> isize {
    naked_asm!(
        push_callee_saved!(),
        "mov rcx, [rdi + 8 * 16]",
        "mov [rip + {child}], rcx",
        "mov r8, [rdi]",
        "mov r9, [rdi + 8]",
        "mov r10, [rdi + 8 * 2]",
        "mov r12, [rdi + 8 * 4]",
        "mov r13, [rdi + 8 * 5]",
        "mov r14, [rdi + 8 * 6]",
        "mov r15, [rdi + 8 * 7]",
        "mov rsi, [rdi + 8 * 9]",
        "mov rbp, [rdi + 8 * 10]",
        "mov rbx, [rdi + 8 * 11]",
        "mov rdx, [rdi + 8 * 12]",
        "mov rax, [rdi + 8 * 13]",
        "mov rdi, [rdi + 8 * 8]",
        "syscall",
        "test rax, rax",
        "jz 2f",
        pop_callee_saved!(),
        "ret",
        "2:",
        "jmp [rip + {child}]",
        child = sym CHILD,
    )
}
