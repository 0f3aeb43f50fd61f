//! The transition from the first load to the second.

use crate::{
    addresses,
    sys::{self, MapMode},
};
use core::{
    arch::{asm, naked_asm},
    convert::Infallible,
};

unsafe extern "C" {
    fn dlsym(handle: *mut core::ffi::c_void, name: *const core::ffi::c_char) -> *mut core::ffi::c_void;
}

/// Unregisters libc's restartable sequences: the kernel would write to an area that is gone, and libc
/// registers another one.
pub(crate) fn leave_restartable_sequences() {
    const UNREGISTER: usize = 1;
    const SIGNATURE: usize = 0x5305_3053;
    const MIN_SIZE: usize = 32;
    // SAFETY: libc's description of the area, if it exists: a pointer-sized offset from the thread pointer.
    unsafe {
        let offset = dlsym(core::ptr::null_mut(), c"__rseq_offset".as_ptr());
        if offset.is_null() {
            return;
        }
        let mut area: usize;
        asm!("mov {}, fs:[0x10]", out(reg) area, options(nostack, pure, readonly));
        area = area.wrapping_add(*offset.cast::<usize>());
        // Newer versions of libc register more than the minimum size.
        let _ = (MIN_SIZE..=256)
            .step_by(32)
            .any(|size| sys::call(libc::SYS_rseq, [area, size, UNREGISTER, SIGNATURE, 0, 0]) == 0);
    }
}

/// Removes the first load and starts the loader.
pub(crate) fn enter(entry: usize, stack: usize) -> Result<Infallible, &'static str> {
    const PAGE: usize = 4096;
    const CODE: usize = 64;
    if !sys::map(addresses::TRAMPOLINE, PAGE, libc::PROT_READ | libc::PROT_WRITE, MapMode::Free) {
        return Err("cannot map a page of code");
    }
    // SAFETY: the function is shorter, and the code behind it is readable.
    unsafe {
        core::ptr::copy_nonoverlapping(replace_and_jump as *const u8, addresses::TRAMPOLINE as *mut u8, CODE);
        let executable = (libc::PROT_READ | libc::PROT_EXEC) as usize;
        if sys::call(libc::SYS_mprotect, [addresses::TRAMPOLINE, PAGE, executable, 0, 0, 0]) != 0 {
            return Err("the system does not allow generated code");
        }
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the copied code needs nothing of what it replaces; the loader finds the stack that it expects.
    unsafe {
        asm!(
            "jmp {trampoline}",
            trampoline = in(reg) addresses::TRAMPOLINE,
            in("rax") libc::SYS_mmap,
            in("rdi") addresses::TOP,
            in("rsi") addresses::CEILING - addresses::TOP,
            in("rdx") libc::PROT_NONE,
            in("r10") flags,
            in("r8") usize::MAX,
            in("r9") 0,
            in("r12") stack,
            in("r13") entry,
            options(noreturn)
        )
    }
}

/// Makes the prepared system call and jumps to r13 with the stack at r12.
#[unsafe(naked)]
unsafe extern "C" fn replace_and_jump() {
    naked_asm!(
        "syscall",
        "test rax, rax",
        "js 2f",
        "mov rsp, r12",
        "mov rax, r13",
        // Registers are cleared as after exec.
        "xor ebx, ebx",
        "xor ecx, ecx",
        "xor edx, edx",
        "xor esi, esi",
        "xor edi, edi",
        "xor ebp, ebp",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r10d, r10d",
        "xor r11d, r11d",
        "xor r12d, r12d",
        "xor r13d, r13d",
        "xor r14d, r14d",
        "xor r15d, r15d",
        "jmp rax",
        "2:",
        "ud2",
    )
}
