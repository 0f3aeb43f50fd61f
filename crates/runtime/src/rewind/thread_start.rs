//! Threads without a kernel thread: a fiber needs none, not even to start.
//!
//! The C library's `clone` is redirected here. A thread that the runtime creates as a fiber begins at once on
//! the carrier, on the stack and with the thread-local storage that the C library gave it. When it parks, its
//! creator continues. That saves the kernel's work for a thread that would end some instructions later. The C
//! library's registrations of the new thread with the kernel affect the carrier and are undone.

use crate::{
    context::Context,
    fiber::{self, push_context},
    real::Real,
    stack, sys,
};
use core::{
    arch::naked_asm,
    cell::UnsafeCell,
    mem::MaybeUninit,
    sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering},
};

struct ContextCell(UnsafeCell<MaybeUninit<Context>>);

// SAFETY: only the carrier touches it.
unsafe impl Sync for ContextCell {}

/// The context of a thread's creator, until the thread has parked.
static CREATOR: ContextCell = ContextCell(UnsafeCell::new(MaybeUninit::uninit()));
/// The thread pointer of the creator whose next thread starts here; 0 if there is none. The creator may have
/// to wait for other threads meanwhile, which may create threads too.
static CREATOR_THREAD: AtomicUsize = AtomicUsize::new(0);
/// True while a thread is starting and has not parked yet.
static IS_STARTING: AtomicBool = AtomicBool::new(false);
/// The kernel's thread id that all fibers share.
static TID: AtomicI32 = AtomicI32::new(0);
/// True if threads can start here.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// The address of the carrier's robust list, as registered with the kernel.
static ROBUST_LIST: AtomicUsize = AtomicUsize::new(0);

const LIST_BYTES: usize = 24;

/// Enables starting threads here; returns false if that is not possible.
pub(super) fn install_redirects(redirect: impl Fn(&Real, usize) -> bool) -> bool {
    static CLONE: Real = Real::new(c"clone");
    let (mut list, mut size) = (0usize, 0usize);
    let args = [0, &raw mut list as usize, &raw mut size as usize, 0, 0, 0];
    // SAFETY: there is room for both results.
    let status = unsafe { sys::call(libc::SYS_get_robust_list, args) };
    TID.store(sys::process(), Ordering::Relaxed);
    ROBUST_LIST.store(list, Ordering::Relaxed);
    let is_on = status == 0 && size == LIST_BYTES && redirect(&CLONE, clone as *const () as usize);
    IS_ON.store(is_on, Ordering::Relaxed);
    is_on
}

/// Makes threads start through the kernel again.
pub(super) fn disable() {
    IS_ON.store(false, Ordering::Relaxed);
}

/// Returns whether the thread that is being created with these attributes can start here.
pub(crate) fn prepare(attributes: *const libc::pthread_attr_t) -> bool {
    // The query leaves no trace on the program's stack.
    let can = IS_ON.load(Ordering::Relaxed) && stack::run_isolated(|| has_default_scheduling(attributes));
    CREATOR_THREAD.store(if can { sys::thread_pointer() } else { 0 }, Ordering::Relaxed);
    can
}

/// Ends a thread's creation, successful or not.
pub(crate) fn finish() {
    if CREATOR_THREAD.swap(0, Ordering::Relaxed) != 0 {
        // SAFETY: the carrier's list, as the C library registered it.
        unsafe {
            sys::call(
                libc::SYS_set_robust_list,
                [ROBUST_LIST.load(Ordering::Relaxed), LIST_BYTES, 0, 0, 0, 0],
            )
        };
    }
}

/// Returns whether a thread is starting here.
pub(crate) fn is_starting() -> bool {
    IS_STARTING.load(Ordering::Relaxed)
}

/// Parks the new thread: its creator continues; returns at the next switch to the thread.
pub(crate) fn park(context: &mut Context) {
    context.thread_pointer = sys::thread_pointer();
    context.parked.store(0, Ordering::Relaxed);
    IS_STARTING.store(false, Ordering::Relaxed);
    // SAFETY: the creator waits in `clone`.
    unsafe { fiber::switch(context, (*CREATOR.0.get()).as_ptr()) };
}

/// Returns whether the attributes set no priority and no processors: a thread with either waits until its
/// creator has configured it in the kernel.
fn has_default_scheduling(attributes: *const libc::pthread_attr_t) -> bool {
    unsafe extern "C" {
        fn pthread_getattr_default_np(attributes: *mut libc::pthread_attr_t) -> i32;
        fn pthread_attr_getinheritsched(attributes: *const libc::pthread_attr_t, inherits: *mut i32) -> i32;
    }
    const INHERITS: i32 = 0;
    let mut inherits = 1;
    // If the attributes name no processors, glibc fills the whole set; otherwise it sets no more than exist.
    let mut processors = [0u8; 1024];
    let mut default = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: `attributes` is null or points to attributes, and there is room for the results.
    unsafe {
        let is_default = attributes.is_null();
        if is_default && pthread_getattr_default_np(default.as_mut_ptr()) != 0 {
            return false;
        }
        let attributes = if is_default { default.as_ptr() } else { attributes };
        pthread_attr_getinheritsched(attributes, &raw mut inherits);
        libc::pthread_attr_getaffinity_np(attributes, processors.len(), processors.as_mut_ptr().cast());
        if is_default {
            libc::pthread_attr_destroy(default.as_mut_ptr());
        }
    }
    inherits == INHERITS && processors.iter().all(|&byte| byte == 0xff)
}

/// `clone(function, stack, flags, argument, parent_tid, thread_pointer, child_tid)`
#[unsafe(naked)]
unsafe extern "C" fn clone() {
    naked_asm!(
        ".cfi_startproc",
        "mov rax, fs:[0x10]",
        "cmp rax, [rip + {creator_thread}]",
        "jne 2f",
        "mov byte ptr [rip + {is_starting}], 1",
        "mov eax, [rip + {tid}]",
        "mov [r8], eax",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 16",
        "mov r8, rdi",
        "mov rdx, r9",
        "lea rdi, [rip + {creator}]",
        "call {begin}",
        "add rsp, 8",
        ".cfi_def_cfa_offset 8",
        "mov eax, [rip + {tid}]",
        "ret",
        // The ordinary call.
        "2:",
        "mov r10, [rsp + 8]",
        "and rsi, -16",
        "sub rsi, 16",
        "mov [rsi + 8], rcx",
        "mov [rsi], rdi",
        "mov edi, edx",
        "mov rdx, r8",
        "mov r8, r9",
        "mov eax, 56", // clone
        "syscall",
        // Other parts of the library refer to it.
        ".globl unsnarl_cloned",
        ".hidden unsnarl_cloned",
        "unsnarl_cloned:",
        "test rax, rax",
        "js 4f",
        "jz 3f",
        "ret",
        "4:",
        "mov rdi, rax",
        "jmp {failed}",
        "3:",
        ".cfi_undefined rip",
        "xor ebp, ebp",
        "pop rax",
        "pop rdi",
        "call rax",
        "mov edi, eax",
        "mov eax, 60", // exit
        "syscall",
        "ud2",
        ".cfi_endproc",
        creator_thread = sym CREATOR_THREAD,
        is_starting = sym IS_STARTING,
        tid = sym TID,
        creator = sym CREATOR,
        begin = sym begin_thread,
        failed = sym failed,
    )
}

unsafe extern "C" fn failed(error: isize) -> i32 {
    sys::set_errno(-error as i32);
    -1
}

/// Saves the creator's context as [`fiber::switch`] does, and calls the thread's function on the thread's
/// stack.
#[unsafe(naked)]
unsafe extern "C" fn begin_thread() {
    naked_asm!(
        ".cfi_startproc",
        push_context!(),
        "rdfsbase rax",
        "mov [rdi + 8], rax",
        "mov [rdi], rsp",
        ".cfi_undefined rip",
        "and rsi, -16",
        "mov rsp, rsi",
        "wrfsbase rdx",
        "xor ebp, ebp",
        "mov rdi, rcx",
        "call r8",
        "ud2",
        ".cfi_endproc",
    )
}
