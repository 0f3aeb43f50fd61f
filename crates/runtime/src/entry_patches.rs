//! Functions of the program's precompiled code that order threads without an event.
//!
//! Rust's standard library is linked into the program and not instrumented. `Once::call` may find that another
//! thread has completed the initialisation meanwhile, `park` may find a token, and a lock on standard output may be
//! free: each acquires by an atomic operation that no hook sees. So the beginning of such a function is replaced by a
//! jump to a stub, which notes the call ([`crate::unseen_order`]), executes the replaced instructions and returns to the
//! rest. If the function waits, its futex is an event that comes later. If it does not, nothing else runs before it
//! returns, so its beginning is as good as its end.
//!
//! Unwinders do not see a stub: no call is made from there. While the note is made, they find the caller of the
//! function ([`gate`]).

use crate::{files::OpenFile, pauses, sys, unseen_order};
use alloc::{vec, vec::Vec};
use core::{
    arch::naked_asm,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};
use unsnarl_insn::iced::{Decoder, DecoderOptions, FlowControl, Instruction};
use unsnarl_wire::MAX_ORDERING_FUNCTIONS;

/// The length of a jump with a 32-bit displacement.
const JUMP: usize = 5;
/// The size of a stub, and the place in it where the replaced instructions are.
const STUB: usize = 48;
const REPLACED: usize = 24;
/// Stubs that find no room behind the program's code are before the program: at the first free multiple of this distance, and near enough for jumps.
const STEP: usize = 1 << 16;
const MAX_DISTANCE: usize = 1 << 30;
const PAGE: usize = 4096;
/// The maximum length of a function that is examined.
const MAX_FUNCTION_BYTES: usize = 1 << 14;

/// The addresses of the replaced instructions of each function.
static REPLACED_AT: [AtomicU64; MAX_ORDERING_FUNCTIONS] =
    [const { AtomicU64::new(0) }; MAX_ORDERING_FUNCTIONS];

/// Redirects these functions of the program, given by addresses in its file. If the system does not allow it, or the
/// beginning of a function cannot be moved, it stays as it is.
pub(crate) fn install(functions: &[[u64; 2]]) {
    let Some((base, memory)) = pauses::program_base().zip(OpenFile::for_writing(b"/proc/self/mem\0")) else {
        return;
    };
    let found: Vec<_> = functions
        .iter()
        .filter(|[start, end]| (JUMP..MAX_FUNCTION_BYTES).contains(&(end.wrapping_sub(*start) as usize)))
        .filter_map(|&[start, end]| {
            let at = base.wrapping_add(start as usize);
            let mut code = vec![0; (end - start) as usize];
            let is_read = memory.read_at(at, &mut code) == code.len() as isize;
            let len = movable_beginning(&code).filter(|_| is_read)?;
            code.truncate(len);
            Some((at, code))
        })
        .collect();
    let Some(first) = found.iter().map(|(at, _)| *at).min() else { return };
    let size = found.len() * STUB;
    let Some(stubs) = room_behind_code(size).or_else(|| map_stubs(first, size)) else { return };
    for (nth, (at, beginning)) in found.iter().enumerate() {
        let stub = stubs + nth * STUB;
        REPLACED_AT[nth].store((stub + REPLACED) as u64, Ordering::Relaxed);
        memory.write_at(stub, &stub_code(nth, stub, *at, beginning));
    }
    for (nth, (at, _)) in found.iter().enumerate() {
        memory.write_at(*at, &jump(*at, stubs + nth * STUB));
    }
}

/// Restores the functions: the reader of an instruction trace expects the program as it is in its file.
pub(crate) fn remove() {
    let Some(memory) = OpenFile::for_writing(b"/proc/self/mem\0") else { return };
    for replaced in REPLACED_AT.iter().map(|at| at.load(Ordering::Relaxed)).filter(|at| *at != 0) {
        // SAFETY: the stub's replaced instructions and the jump behind them, which were written above.
        let code = unsafe { core::slice::from_raw_parts(replaced as *const u8, STUB - REPLACED) };
        let len = usize::from(code[code.len() - 1]);
        let displacement = i32::from_le_bytes([code[len + 1], code[len + 2], code[len + 3], code[len + 4]]);
        let rest = (replaced as usize + len + JUMP).wrapping_add_signed(displacement as isize);
        memory.write_at(rest - len, &code[..len]);
    }
}

/// Returns the length of the instructions at the beginning of a function that can be executed elsewhere, and that a jump
/// can replace: no other instruction of the function leads into them.
fn movable_beginning(code: &[u8]) -> Option<usize> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut len = 0;
    while len < JUMP {
        let instruction = decoder.can_decode().then(|| decoder.decode())?;
        let moves =
            instruction.flow_control() == FlowControl::Next && !instruction.is_ip_rel_memory_operand();
        len = moves.then_some(instruction.next_ip() as usize)?;
    }
    let inside: Range<u64> = 1..len as u64;
    let leads_inside = |instruction: &Instruction| {
        let branches = matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        branches && inside.contains(&instruction.near_branch_target())
    };
    while decoder.can_decode() {
        if leads_inside(&decoder.decode()) {
            return None;
        }
    }
    (len + JUMP < STUB - REPLACED).then_some(len)
}

/// Finds room between the end of the program's code and that of its last page. So the program finds no further mapping
/// in `/proc/self/maps`, which Rust's backtraces read.
fn room_behind_code(size: usize) -> Option<usize> {
    let start = pauses::end_of_code()?.next_multiple_of(16);
    (size <= start.next_multiple_of(PAGE) - start).then_some(start)
}

/// Maps memory before the program, as near as possible.
fn map_stubs(function: usize, size: usize) -> Option<usize> {
    let protection = (libc::PROT_READ | libc::PROT_EXEC) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as usize;
    (1..MAX_DISTANCE / STEP).map_while(|steps| (function & !(STEP - 1)).checked_sub(steps * STEP)).find(
        |&at| {
            // SAFETY: a new mapping at a free address.
            let got = unsafe { sys::call(libc::SYS_mmap, [at, size, protection, flags, usize::MAX, 0]) };
            got as usize == at
        },
    )
}

/// Returns a jump from one address to another.
fn jump(from: usize, to: usize) -> [u8; JUMP] {
    let [a, b, c, d] = (to.wrapping_sub(from + JUMP) as u32).to_le_bytes();
    [0xe9, a, b, c, d]
}

/// Returns the code of a stub: `push` its number, jump to the gate; the replaced instructions, jump to the rest of the
/// function. The last byte is the length of the replaced instructions.
fn stub_code(nth: usize, stub: usize, function: usize, beginning: &[u8]) -> [u8; STUB] {
    let mut code = [0xcc; STUB];
    code[0] = 0x68;
    code[1..5].copy_from_slice(&(nth as u32).to_le_bytes());
    // jmp [rip + 0], followed by the address.
    code[5..11].copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
    code[11..19].copy_from_slice(&(gate as *const () as usize).to_le_bytes());
    let rest = REPLACED + beginning.len();
    code[REPLACED..rest].copy_from_slice(beginning);
    code[rest..rest + JUMP].copy_from_slice(&jump(stub + rest, function + beginning.len()));
    code[STUB - 1] = beginning.len() as u8;
    code
}

/// Entered by a stub: the stub's number is on the stack, above it the return address of the redirected function. All
/// registers that may hold arguments are kept.
#[unsafe(naked)]
unsafe extern "C" fn gate() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa_offset 16",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "push r10",
        "sub rsp, 128",
        ".cfi_adjust_cfa_offset 192",
        "movups [rsp + 0], xmm0",
        "movups [rsp + 16], xmm1",
        "movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4",
        "movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6",
        "movups [rsp + 112], xmm7",
        "mov rdi, [rsp + 192]",
        "call {}",
        "mov r11, rax",
        "movups xmm0, [rsp + 0]",
        "movups xmm1, [rsp + 16]",
        "movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]",
        "movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]",
        "movups xmm7, [rsp + 112]",
        "add rsp, 128",
        "pop r10",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -200",
        "jmp r11",
        ".cfi_endproc",
        sym note_call,
    )
}

/// Notes the call of a redirected function; returns where its replaced instructions are.
extern "C" fn note_call(nth: usize) -> u64 {
    unseen_order::note();
    REPLACED_AT[nth].load(Ordering::Relaxed)
}
