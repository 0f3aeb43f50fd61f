//! `pause` instructions in precompiled code.
//!
//! Locks of Rust's standard library check a hundred times whether they are free before they wait, and pause
//! after each check. Under control no thread frees one meanwhile, and the pauses took a fifth of the time of
//! runs with much contention. So the processes that serve runs replace them by other no-ops of the same
//! length.

use crate::files::OpenFile;
use alloc::vec;
use unsnarl_insn::iced::{Code, Decoder, DecoderOptions};

/// `pause`, and `xchg ax, ax`, which takes no time.
const PAUSE: [u8; 2] = [0xf3, 0x90];
const NO_OP: [u8; 2] = [0x66, 0x90];

/// The maximum length of a function that waits.
const MAX_FUNCTION_BYTES: u64 = 4096;

/// Removes the pauses from these functions of the program, given by addresses in its file. If the system does
/// not allow it, they stay.
pub(crate) fn remove_pauses(functions: &[[u64; 2]]) {
    let Some(base) = program_base() else { return };
    let Some(memory) = OpenFile::for_writing(b"/proc/self/mem\0") else { return };
    for &[start, end] in
        functions.iter().filter(|[start, end]| (1..MAX_FUNCTION_BYTES).contains(&end.wrapping_sub(*start)))
    {
        let at = base.wrapping_add(start as usize);
        let mut code = vec![0; (end - start) as usize];
        if memory.read_at(at, &mut code) == code.len() as isize {
            each_pause(&code, |offset| memory.write_at(at + offset, &NO_OP));
        }
    }
}

/// Calls `found` for each pause in a function's code: the same bytes may be part of another instruction.
fn each_pause(code: &[u8], mut found: impl FnMut(usize)) {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let offset = instruction.ip() as usize;
        if instruction.code() == Code::Pause && code[offset..].starts_with(&PAUSE) {
            found(offset);
        }
    }
}

/// Returns the difference between addresses here and in the program's file.
pub(crate) fn program_base() -> Option<usize> {
    let headers = program_headers()?;
    let own = headers.iter().find(|header| header.p_type == libc::PT_PHDR)?;
    Some((headers.as_ptr() as usize).wrapping_sub(own.p_vaddr as usize))
}

/// Returns the address of the end of the program's code.
pub(crate) fn end_of_code() -> Option<usize> {
    let is_code =
        |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0;
    let code = program_headers()?.iter().find(is_code)?;
    Some(program_base()?.wrapping_add((code.p_vaddr + code.p_memsz) as usize))
}

fn program_headers() -> Option<&'static [libc::Elf64_Phdr]> {
    // SAFETY: only a query; the kernel states the address and number of the program headers.
    unsafe {
        let first = libc::getauxval(libc::AT_PHDR) as *const libc::Elf64_Phdr;
        let count = libc::getauxval(libc::AT_PHNUM) as usize;
        (!first.is_null()).then(|| core::slice::from_raw_parts(first, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn pause_bytes_inside_instructions_are_ignored() {
        // mov eax, 0x90f390; pause; nop; jmp back
        let code = [0xb8, 0x90, 0xf3, 0x90, 0x00, 0xf3, 0x90, 0x90, 0xeb, 0xf6];
        let mut pauses = Vec::new();
        each_pause(&code, |offset| pauses.push(offset));
        assert_eq!(pauses, [5]);
    }
}
