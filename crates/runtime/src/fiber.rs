//! Threads as fibers: contexts that glibc made, switched by hand on one kernel thread.
//!
//! A fiber begins as a kernel thread that glibc's `pthread_create` set up, stack and thread-local
//! storage included. It saves its registers, has its exit notified to a word of ours instead of its
//! descriptor, and leaves ([`park`]). From then on the carrier switches to the saved context and back.
//! At its end the context is given a kernel thread once more ([`resume_as_thread`]), so that glibc's own
//! epilogue frees what glibc allocated.

use crate::sys;
use core::arch::naked_asm;

/// A context to switch to. The assembly knows the places of its fields.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Fiber {
    stack_pointer: usize,
    thread_pointer: usize,
    /// Cleared by the kernel when the thread that glibc made is gone.
    alive: u32,
}

/// What runs threads. Kernel threads that pass a token can be another one.
pub(crate) trait Backend {
    /// The thread that is there already.
    fn adopt(thread_pointer: usize) -> Self;
    /// A thread to be made; it calls [`Backend::park`] when it is there.
    fn unborn() -> Self;
    /// On the new thread: leaves the scene and returns when switched to for the first time.
    fn park(&mut self);
    /// On the maker's side: waits until the new thread has parked.
    fn wait_parked(&mut self);
    /// Leaves `self` and goes on with `to`; returns when somebody switches back.
    fn switch(&mut self, to: &Self);
    /// Lets a thread that never will be switched to again run to its end; `tid` is cleared then.
    fn release(&mut self, tid: *mut u32);
    /// The thread pointer, by which hooks know whose call it is.
    fn thread_pointer(&self) -> usize;
    /// rip, rsp, rbp, rbx, r12 to r15 of a thread that is not running.
    fn registers(&self) -> [u64; 8];
}

impl Backend for Fiber {
    fn adopt(thread_pointer: usize) -> Self {
        Self { stack_pointer: 0, thread_pointer, alive: 0 }
    }

    fn unborn() -> Self {
        Self { stack_pointer: 0, thread_pointer: 0, alive: 1 }
    }

    #[inline]
    fn park(&mut self) {
        // SAFETY: on a fresh thread, whose stack nobody else uses; `self` outlives it.
        unsafe { park(self) }
    }

    fn wait_parked(&mut self) {
        sys::wait_until_cleared(&raw const self.alive);
    }

    #[inline]
    fn switch(&mut self, to: &Self) {
        // SAFETY: `to` was left by `park` or `switch`, is not running, and its stack is alive.
        unsafe { switch(self, to) }
    }

    fn release(&mut self, tid: *mut u32) {
        // SAFETY: the context is never used again; `tid` is in its descriptor, which glibc keeps.
        let created = unsafe { resume_as_thread(self, tid) };
        if created < 0 {
            crate::end::refuse(
                "the kernel refused a thread (is a limit on processes reached? see `ulimit -u`)",
            );
        }
        sys::wait_until_cleared(tid);
    }

    #[inline]
    fn thread_pointer(&self) -> usize {
        self.thread_pointer
    }

    fn registers(&self) -> [u64; 8] {
        let saved = self.stack_pointer as *const u64;
        // SAFETY: the context is saved: the stack holds control words, r15 to r12, rbx, rbp, rip.
        let word = |n: usize| unsafe { saved.add(n).read() };
        [word(7), self.stack_pointer as u64 + 64, word(6), word(5), word(4), word(3), word(2), word(1)]
    }
}

/// Saves the context in the fiber and ends the kernel thread without touching the stack again.
#[unsafe(naked)]
unsafe extern "C" fn park(fiber: *mut Fiber) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push 0", // room for the control words
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
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

/// Saves the context in `from` and goes on with that of `to`.
#[unsafe(naked)]
unsafe extern "C" fn switch(from: *mut Fiber, to: *const Fiber) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push 0", // room for the control words
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        // Read as they were written: one load over both would wait for the stores.
        "mov edx, [rsp]",
        "movzx ecx, word ptr [rsp + 4]",
        "mov [rdi], rsp",
        "mov rsp, [rsi]",
        "mov rax, [rsi + 8]",
        "wrfsbase rax",
        // Loading floating-point control is slow and hardly ever needed.
        "cmp edx, [rsp]",
        "jne 3f",
        "cmp cx, [rsp + 4]",
        "jne 3f",
        "2:",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        "3:",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "jmp 2b",
    )
}

/// Starts a kernel thread in the fiber's context, as glibc would have made it; the result is the
/// kernel's.
#[unsafe(naked)]
unsafe extern "C" fn resume_as_thread(fiber: *const Fiber, tid: *mut u32) -> isize {
    naked_asm!(
        "mov rdx, rsi",
        "mov r10, rsi",
        "mov rsi, [rdi]",
        "mov r8, [rdi + 8]",
        // VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS, PARENT_SETTID, CHILD_CLEARTID
        "mov edi, 0x3d0f00",
        "mov eax, 56", // clone
        "syscall",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}
