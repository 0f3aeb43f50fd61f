//! Threads as fibers: contexts that glibc created, switched in user space on one kernel thread.
//!
//! A fiber begins as a kernel thread that glibc's `pthread_create` set up, with stack and thread-local
//! storage. It saves its registers, redirects the kernel's exit notification from its descriptor to a word of
//! the runtime, and exits ([`park`]). From then on the carrier switches to the saved context and back. At its
//! end the context gets a kernel thread once more ([`resume_as_thread`]), so that glibc's epilogue frees what
//! glibc allocated.

use crate::{context::Context, stack::pop_callee_saved, sys};
use core::{
    arch::naked_asm,
    sync::atomic::{AtomicBool, Ordering},
};

/// The instructions that save on the stack what [`switch`] restores from it.
macro_rules! push_context {
    () => {
        concat!(
            $crate::stack::push_callee_saved!(),
            "push 0\n", // room for the control words
            "stmxcsr [rsp]\n",
            "fnstcw [rsp + 4]\n",
        )
    };
}
pub(crate) use push_context;

/// False if the kernel reports the exit of every thread to its descriptor, because a sandbox forbids to change that.
static REDIRECTS_EXITS: AtomicBool = AtomicBool::new(true);

/// Checks whether exit notifications can be redirected. `tid` is where the C library redirected the main thread's.
pub(crate) fn check_exit_redirection(tid: *mut u32) {
    // SAFETY: the word belongs to the calling thread, whose notification goes there already.
    let result = unsafe { sys::call(libc::SYS_set_tid_address, [tid as usize, 0, 0, 0, 0, 0]) };
    REDIRECTS_EXITS.store(result >= 0, Ordering::Relaxed);
}

/// Returns whether a parked thread's exit is reported to its context; otherwise to its descriptor.
pub(crate) fn redirects_exits() -> bool {
    REDIRECTS_EXITS.load(Ordering::Relaxed)
}

/// Saves the context and ends the kernel thread without touching the stack again.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn park(context: *mut Context) {
    naked_asm!(
        push_context!(),
        "rdfsbase rax",
        "mov [rdi + 8], rax",
        "mov [rdi], rsp",
        "lea rdi, [rdi + 16]",
        "mov eax, 218", // set_tid_address
        "syscall",
        "xor edi, edi",
        "mov eax, 60", // exit, of this thread only
        "syscall",
        "ud2",
    )
}

/// Saves the context in `from` and continues with that of `to`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn switch(from: *mut Context, to: *const Context) {
    naked_asm!(
        push_context!(),
        // Read with the sizes of the stores: one load over both would stall.
        "mov edx, [rsp]",
        "movzx ecx, word ptr [rsp + 4]",
        "mov [rdi], rsp",
        "mov rsp, [rsi]",
        "mov rax, [rsi + 8]",
        "wrfsbase rax",
        // Loading floating-point control words is slow and rarely needed.
        "cmp edx, [rsp]",
        "jne 3f",
        "cmp cx, [rsp + 4]",
        "jne 3f",
        "2:",
        "add rsp, 8",
        pop_callee_saved!(),
        "ret",
        "3:",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "jmp 2b",
    )
}

/// Starts a kernel thread in the context as glibc would; returns the kernel's result.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn resume_as_thread(context: *const Context, tid: *mut u32) -> isize {
    naked_asm!(
        "mov rdx, rsi",
        "mov r10, rsi",
        "mov rsi, [rdi]",
        "mov r8, [rdi + 8]",
        // VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS, PARENT_SETTID, CHILD_CLEARTID
        "mov edi, 0x3d0f00",
        "mov eax, 56", // clone
        "syscall",
        ".globl unsnarl_resumed",
        ".hidden unsnarl_resumed", // the rewind filter allows this call
        "unsnarl_resumed:",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "add rsp, 8",
        pop_callee_saved!(),
        "ret",
    )
}
