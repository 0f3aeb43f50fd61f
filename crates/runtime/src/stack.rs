//! A separate stack for code whose execution depends on the plan.
//!
//! The runtime runs on the stack of the thread that called it. The program can read what runtime functions
//! left there, in memory that it does not initialise: padding of copied values, for example, ends up on the
//! heap and in logged accesses. A replay uses another plan than its recording, but the program must find the
//! same bytes. So all code whose path depends on the plan runs on this stack: taking control, choosing the
//! next thread, and answers from outside.

use crate::{end, rewind, sys};
use core::{
    arch::{
        asm, naked_asm,
        x86_64::{__cpuid, __cpuid_count},
    },
    mem::MaybeUninit,
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};

/// The instructions that clear the caller-saved registers, except the one for results.
macro_rules! clear_caller_saved {
    () => {
        concat!(
            "xor ecx, ecx\n",
            "xor edx, edx\n",
            "xor esi, esi\n",
            "xor edi, edi\n",
            "xor r8d, r8d\n",
            "xor r9d, r9d\n",
            "xor r10d, r10d\n",
            "xor r11d, r11d\n",
            "pxor xmm0, xmm0\n",
            "pxor xmm1, xmm1\n",
            "pxor xmm2, xmm2\n",
            "pxor xmm3, xmm3\n",
            "pxor xmm4, xmm4\n",
            "pxor xmm5, xmm5\n",
            "pxor xmm6, xmm6\n",
            "pxor xmm7, xmm7\n",
            "pxor xmm8, xmm8\n",
            "pxor xmm9, xmm9\n",
            "pxor xmm10, xmm10\n",
            "pxor xmm11, xmm11\n",
            "pxor xmm12, xmm12\n",
            "pxor xmm13, xmm13\n",
            "pxor xmm14, xmm14\n",
            "pxor xmm15, xmm15\n",
        )
    };
}

/// The instructions that save the callee-saved registers on the stack.
macro_rules! push_callee_saved {
    () => {
        "push rbp\npush rbx\npush r12\npush r13\npush r14\npush r15\n"
    };
}

/// The instructions that undo [`push_callee_saved`].
macro_rules! pop_callee_saved {
    () => {
        "pop r15\npop r14\npop r13\npop r12\npop rbx\npop rbp\n"
    };
}
pub(crate) use {clear_caller_saved, pop_callee_saved, push_callee_saved};

const SIZE: usize = 256 << 10;
/// An unmapped guard page, so that an overflow crashes.
const GUARD: usize = 4096;
/// The size of the caller's registers saved at the top of the stack, from the top down: rsp, rbx, r12 to r15.
const SAVED: usize = 6 * 8;

/// The top of the stack; 0 before it exists.
static TOP: AtomicUsize = AtomicUsize::new(0);

/// True if the AVX-512 registers exist, which the C library uses to copy and compare memory.
static HAS_MORE_REGISTERS: AtomicBool = AtomicBool::new(false);

/// Maps the stack.
pub(crate) fn create() {
    HAS_MORE_REGISTERS.store(has_more_registers(), Ordering::Relaxed);
    let Some(at) = sys::map(GUARD + SIZE, true) else { end::refuse("there is no memory for a stack") };
    // SAFETY: a part of the new mapping.
    unsafe { sys::call(libc::SYS_mprotect, [at, GUARD, libc::PROT_NONE as usize, 0, 0, 0]) };
    TOP.store(at + GUARD + SIZE, Ordering::Relaxed);
}

/// A result type without padding, so that no stray bytes are copied out of the separate stack.
pub(crate) trait PaddingFree {}
impl PaddingFree for () {}
impl PaddingFree for bool {}
impl PaddingFree for u32 {}
impl PaddingFree for u64 {}
impl PaddingFree for isize {}

/// Runs a job on the runtime's separate stack. The job neither unwinds nor switches to another thread.
#[inline]
pub(crate) fn run_on_own_stack<T: PaddingFree, J: FnOnce() -> T>(job: J) -> T {
    struct Call<T, J> {
        job: Option<J>,
        done: MaybeUninit<T>,
    }
    unsafe extern "C" fn run<T, J: FnOnce() -> T>(call: *mut u8) {
        // SAFETY: the pointer is the call that is passed below.
        let call = unsafe { &mut *call.cast::<Call<T, J>>() };
        if let Some(job) = call.job.take() {
            call.done.write(job());
        }
    }
    let top = TOP.load(Ordering::Relaxed);
    let mut call = Call { job: Some(job), done: MaybeUninit::uninit() };
    if top.wrapping_sub(&raw const call as usize) <= SIZE {
        // Already on this stack.
        // SAFETY: the pointer is this call's. The job is present, so its result is written.
        return unsafe {
            run::<T, J>((&raw mut call).cast());
            call.done.assume_init()
        };
    }
    // SAFETY: the stack exists since control was taken, and it is unused: only the running thread gets here,
    // and it returns before another one runs. The job is present, so its result is written.
    unsafe {
        call_on((&raw mut call).cast(), run::<T, J>, top);
        call.done.assume_init()
    }
}

/// Like [`run_on_own_stack`], for jobs that copy or compare memory: the C library uses AVX-512 registers for
/// that, which are visible in signal frames. It is not inlined so that callers keep nothing of the job in
/// registers.
#[inline(never)]
pub(crate) fn run_isolated<T: PaddingFree, J: FnOnce() -> T>(job: J) -> T {
    let done = run_on_own_stack(job);
    clear_more_registers();
    done
}

fn has_more_registers() -> bool {
    const XSAVE_IS_ON: u32 = 1 << 27;
    const AVX_512: u32 = 1 << 16;
    const KEPT_BY_KERNEL: u32 = 0b1110_0000;
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & XSAVE_IS_ON == 0 || __cpuid_count(7, 0).ebx & AVX_512 == 0 {
        return false;
    }
    let enabled: u32;
    // SAFETY: the processor has the instruction, as was just checked; it only reads which state the kernel
    // keeps for each thread.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") enabled, out("edx") _, options(nomem, nostack)) };
    enabled & KEPT_BY_KERNEL == KEPT_BY_KERNEL
}

/// Clears the AVX-512 registers. Choosing a thread does not touch them, only large copies and comparisons do.
pub(crate) fn clear_more_registers() {
    if !HAS_MORE_REGISTERS.load(Ordering::Relaxed) {
        return;
    }
    macro_rules! clear {
        ($clear:literal: $($register:literal)*) => {
            // SAFETY: the registers exist, and no caller keeps values in them across calls.
            unsafe {
                asm!($(concat!($clear, " ", $register, ", ", $register, ", ", $register)),*, options(nomem, nostack));
            }
        };
    }
    clear!("vpxorq": "zmm16" "zmm17" "zmm18" "zmm19" "zmm20" "zmm21" "zmm22" "zmm23");
    clear!("kxorw": "k0" "k1" "k2" "k3" "k4" "k5" "k6" "k7");
    clear!("vpxorq": "zmm24" "zmm25" "zmm26" "zmm27" "zmm28" "zmm29" "zmm30" "zmm31");
}

/// Calls a function on another stack and clears the registers it may have used. The caller's registers are
/// saved at the top of that stack, so that a stack walk can continue at the call site.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call_on(data: *mut u8, function: unsafe extern "C" fn(*mut u8), top: usize) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov [rdx - 8], rsp",
        "mov [rdx - 16], rbx",
        "mov [rdx - 24], r12",
        "mov [rdx - 32], r13",
        "mov [rdx - 40], r14",
        "mov [rdx - 48], r15",
        "lea rsp, [rdx - {saved}]",
        "call rsi",
        // Caller-saved registers leak too: the loader saves all of them on the program's stack when it
        // resolves a function.
        "xor eax, eax",
        clear_caller_saved!(),
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        saved = const SAVED,
    )
}

/// Runs a job that the program asked for and that sees kernel values which differ from run to run: process
/// ids and times. The job may switch to other threads and unwind. Afterwards no trace of it is left on the
/// stack or in registers, except the values that the job captures.
#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
#[inline(always)]
pub(crate) extern "C-unwind" fn run_without_residue<T, J: FnOnce() -> T>(job: J) -> T {
    #[allow(improper_ctypes_definitions, reason = "as above")]
    #[inline(never)]
    extern "C-unwind" fn run<T, J: FnOnce() -> T>(job: J) -> T {
        job()
    }
    let done = run(job);
    clear_unused_stack();
    done
}

/// Overwrites the unused stack below the caller's frame and the caller-saved registers, after code that takes
/// another path in a replay.
pub(crate) fn clear_unused_stack() {
    // SAFETY: there is as much stack as any function of this crate may need.
    unsafe { clear_below() };
    clear_more_registers();
}

#[unsafe(naked)]
unsafe extern "C" fn clear_below() {
    naked_asm!(
        "lea rdi, [rsp - {depth}]",
        "mov ecx, {depth} / 8",
        "xor eax, eax",
        "cld",
        "rep stosq",
        clear_caller_saved!(),
        "ret",
        depth = const CLEARED_DEPTH,
    )
}

/// The stack depth of the C library functions that are called this way: `posix_spawn`, `fork`.
const CLEARED_DEPTH: usize = 4096;

/// The address of the spare stacks, and the distance from one to the next.
const SPARE_STACKS: usize = 0x6d00_0000_0000;
const SPARE_STACK_SIZE: usize = 1 << 20;

/// The spare stacks in use, one bit for each.
static USED_SPARES: AtomicU32 = AtomicU32::new(0);

/// Runs a job of the C library that sees times, process ids or answers from the network, and uses more stack
/// than can be cleared afterwards. The job may switch to other threads and unwind; its stack is then not used
/// again.
#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
pub(crate) extern "C-unwind" fn run_on_spare_stack<T, J: FnOnce() -> T>(job: J) -> T {
    struct Call<T, J> {
        job: Option<J>,
        done: Option<T>,
    }
    unsafe extern "C-unwind" fn run<T, J: FnOnce() -> T>(call: *mut u8) {
        // SAFETY: the pointer is the call that is passed below.
        let call = unsafe { &mut *call.cast::<Call<T, J>>() };
        call.done = call.job.take().map(|job| job());
    }
    let nth = (!USED_SPARES.load(Ordering::Relaxed)).trailing_zeros();
    let start = SPARE_STACKS + nth as usize * SPARE_STACK_SIZE;
    if nth == u32::BITS || !sys::reserve(start + GUARD, SPARE_STACK_SIZE - GUARD) {
        return job();
    }
    USED_SPARES.fetch_or(1 << nth, Ordering::Relaxed);
    let mut call = Call { job: Some(job), done: None };
    // SAFETY: the stack was just mapped, and it belongs to this call until it returns.
    unsafe { unwinding_call_on((&raw mut call).cast(), run::<T, J>, start + SPARE_STACK_SIZE) };
    clear_more_registers();
    // SAFETY: no code runs there any more.
    unsafe { rewind::call(libc::SYS_munmap, [start + GUARD, SPARE_STACK_SIZE - GUARD, 0, 0, 0, 0]) };
    USED_SPARES.fetch_and(!(1 << nth), Ordering::Relaxed);
    match call.done {
        Some(done) => done,
        None => end::refuse("a call returned without a result"),
    }
}

/// [`call_on`] for functions that may unwind.
#[unsafe(naked)]
unsafe extern "C-unwind" fn unwinding_call_on(
    data: *mut u8,
    function: unsafe extern "C-unwind" fn(*mut u8),
    top: usize,
) {
    naked_asm!("jmp {}", sym call_on)
}

/// Returns the top of the runtime's stack that contains this address.
fn top_of_stack_with(address: usize) -> Option<usize> {
    let top = TOP.load(Ordering::Relaxed);
    if (top.saturating_sub(SIZE)..top).contains(&address) {
        return Some(top);
    }
    let spares = SPARE_STACKS..SPARE_STACKS + u32::BITS as usize * SPARE_STACK_SIZE;
    spares.contains(&address).then_some((address & !(SPARE_STACK_SIZE - 1)) + SPARE_STACK_SIZE)
}

/// Returns the thread's registers (rip, rsp, rbp, rbx, r12 to r15) on its own stack, given those of the
/// processor.
pub(crate) fn registers_of_thread(registers: [u64; 8]) -> [u64; 8] {
    let Some(top) = top_of_stack_with(registers[1] as usize) else { return registers };
    // SAFETY: the code on the separate stack saved these registers there, and rbp and the return address on
    // its own stack.
    unsafe {
        let saved = |nth: usize| (top as *const u64).sub(nth).read();
        let frame = saved(1) as *const u64;
        [
            frame.add(1).read(),
            frame.add(2) as u64,
            frame.read(),
            saved(2),
            saved(3),
            saved(4),
            saved(5),
            saved(6),
        ]
    }
}
