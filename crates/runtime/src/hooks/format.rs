//! Functions that format text into a buffer: the text is written by the C library, which is not instrumented.
//!
//! The size of the text is known only when it has been formatted. So it is formatted twice while accesses are
//! observed: first without a buffer, for the number of bytes that will be written.

use crate::{access, stack};
use core::{
    arch::naked_asm,
    ffi::{c_char, c_int},
};
use unsnarl_model::Op;

/// The arguments of a variadic function, as the ABI lays out `va_list`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    general: u32,
    floating: u32,
    overflow: usize,
    registers: usize,
}

unsafe extern "C" {
    fn vsnprintf(to: *mut c_char, size: usize, format: *const c_char, list: *mut Arguments) -> c_int;
    fn vsprintf(to: *mut c_char, format: *const c_char, list: *mut Arguments) -> c_int;
    fn __vsnprintf_chk(
        to: *mut c_char,
        size: usize,
        flag: c_int,
        room: usize,
        format: *const c_char,
        list: *mut Arguments,
    ) -> c_int;
    fn __vsprintf_chk(
        to: *mut c_char,
        flag: c_int,
        room: usize,
        format: *const c_char,
        list: *mut Arguments,
    ) -> c_int;
}

/// Handles the write of a text that is about to be formatted.
unsafe fn note(to: *mut c_char, size: usize, format: *const c_char, list: *const Arguments, pc: u64) {
    if !access::is_observing() || size == 0 {
        return;
    }
    // SAFETY: the program's arguments, of which a copy is used up. Nothing is written.
    let len = stack::run_isolated(|| unsafe {
        let mut copy = *list;
        vsnprintf(core::ptr::null_mut(), 0, format, &raw mut copy) as isize
    });
    if let Ok(len) = usize::try_from(len) {
        access::range(Op::Write, to as usize, (len + 1).min(size), pc);
    }
}

unsafe extern "C-unwind" fn format_list(
    to: *mut c_char,
    format: *const c_char,
    list: *mut Arguments,
    pc: u64,
) -> c_int {
    // SAFETY: the program keeps the contract of the function it called.
    unsafe {
        note(to, usize::MAX, format, list, pc);
        vsprintf(to, format, list)
    }
}
crate::atomic::exported!("rcx" "__wrap_vsprintf", format_list);

unsafe extern "C-unwind" fn format_bounded_list(
    to: *mut c_char,
    size: usize,
    format: *const c_char,
    list: *mut Arguments,
    pc: u64,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        note(to, size, format, list, pc);
        vsnprintf(to, size, format, list)
    }
}
crate::atomic::exported!("r8" "__wrap_vsnprintf", format_bounded_list);

unsafe extern "C-unwind" fn format_checked_list(
    to: *mut c_char,
    flag: c_int,
    room: usize,
    format: *const c_char,
    list: *mut Arguments,
    pc: u64,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        note(to, room, format, list, pc);
        __vsprintf_chk(to, flag, room, format, list)
    }
}
crate::atomic::exported!("r9" "__wrap___vsprintf_chk", format_checked_list);

/// Its six arguments leave no register for the return address.
unsafe extern "C-unwind" fn format_bounded_checked_list(
    to: *mut c_char,
    size: usize,
    flag: c_int,
    room: usize,
    format: *const c_char,
    list: *mut Arguments,
    pc: u64,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        note(to, size.min(room), format, list, pc);
        __vsnprintf_chk(to, size, flag, room, format, list)
    }
}
six_arguments!(__wrap___vsnprintf_chk, format_bounded_checked_list);

/// The general registers of a call, in the order of arguments.
type Registers = [usize; 6];

/// Defines a variadic function: its handler gets the registers of the call, its `va_list` after so many fixed
/// arguments, and the return address.
macro_rules! variadic {
    ($name:literal, $fixed:literal, $handler:path) => {
        const _: () = {
            #[unsafe(naked)]
            #[unsafe(export_name = $name)]
            unsafe extern "C-unwind" fn entry() {
                naked_asm!(
                    ".cfi_startproc",
                    "push rbp",
                    ".cfi_def_cfa_offset 16",
                    ".cfi_offset rbp, -16",
                    "mov rbp, rsp",
                    ".cfi_def_cfa_register rbp",
                    // The area that `va_list` refers to (176 bytes), then the list itself.
                    "sub rsp, 208",
                    "mov [rsp], rdi",
                    "mov [rsp + 8], rsi",
                    "mov [rsp + 16], rdx",
                    "mov [rsp + 24], rcx",
                    "mov [rsp + 32], r8",
                    "mov [rsp + 40], r9",
                    "movaps [rsp + 48], xmm0",
                    "movaps [rsp + 64], xmm1",
                    "movaps [rsp + 80], xmm2",
                    "movaps [rsp + 96], xmm3",
                    "movaps [rsp + 112], xmm4",
                    "movaps [rsp + 128], xmm5",
                    "movaps [rsp + 144], xmm6",
                    "movaps [rsp + 160], xmm7",
                    "mov dword ptr [rsp + 176], {general}",
                    "mov dword ptr [rsp + 180], 48",
                    "lea rax, [rbp + 16]",
                    "mov [rsp + 184], rax",
                    "mov [rsp + 192], rsp",
                    "mov rdi, rsp",
                    "lea rsi, [rsp + 176]",
                    "mov rdx, [rbp + 8]",
                    "call {handler}",
                    "leave",
                    ".cfi_def_cfa rsp, 8",
                    "ret",
                    ".cfi_endproc",
                    general = const $fixed * 8,
                    handler = sym $handler,
                )
            }
        };
    };
}

unsafe extern "C-unwind" fn format(registers: &Registers, list: *mut Arguments, pc: u64) -> c_int {
    let [to, format, ..] = *registers;
    // SAFETY: the program keeps the contract of the function it called.
    unsafe { format_list(to as _, format as _, list, pc) }
}
variadic!("__wrap_sprintf", 2, format);

unsafe extern "C-unwind" fn format_bounded(registers: &Registers, list: *mut Arguments, pc: u64) -> c_int {
    let [to, size, format, ..] = *registers;
    // SAFETY: as above.
    unsafe { format_bounded_list(to as _, size, format as _, list, pc) }
}
variadic!("__wrap_snprintf", 3, format_bounded);

unsafe extern "C-unwind" fn format_checked(registers: &Registers, list: *mut Arguments, pc: u64) -> c_int {
    let [to, flag, room, format, ..] = *registers;
    // SAFETY: as above.
    unsafe { format_checked_list(to as _, flag as c_int, room, format as _, list, pc) }
}
variadic!("__wrap___sprintf_chk", 4, format_checked);

unsafe extern "C-unwind" fn format_bounded_checked(
    registers: &Registers,
    list: *mut Arguments,
    pc: u64,
) -> c_int {
    let [to, size, flag, room, format, _] = *registers;
    // SAFETY: as above.
    unsafe { format_bounded_checked_list(to as _, size, flag as c_int, room, format as _, list, pc) }
}
variadic!("__wrap___snprintf_chk", 5, format_bounded_checked);
