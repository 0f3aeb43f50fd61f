//! Which of the writes that the compiler announces are stores of bit-fields.
//!
//! gcc announces such a store as one write, before the code loads the word that contains the bit-field. The
//! instructions that follow show it. They are decoded once for each site, and only for schedule points.

use crate::{heap, stack, state::Runtime, sys};
use core::sync::atomic::{AtomicU64, Ordering};
use unsnarl_insn::{
    iced::{Decoder, DecoderOptions},
    is_partial_store,
};

const ENTRIES: usize = 512;
/// The number of bytes of code to look at.
const CODE: usize = 128;
const PAGE: usize = 4096;

/// The results so far: the return address, and the result in the lowest bit. Sites replace each other.
static KNOWN: [AtomicU64; ENTRIES] = [const { AtomicU64::new(0) }; ENTRIES];

/// Returns whether the write of so many bytes that is announced at this return address keeps some of their
/// bits.
pub(crate) fn contains(pc: u64, size: u64) -> bool {
    let entry = &KNOWN[(pc ^ pc >> 9) as usize % ENTRIES];
    let known = entry.load(Ordering::Relaxed);
    if known >> 1 == pc {
        return known & 1 == 1;
    }
    let is_partial = stack::run_isolated(|| heap::with_plan_heap(|| inspect(pc, size as usize)));
    entry.store(pc << 1 | u64::from(is_partial), Ordering::Relaxed);
    is_partial
}

fn inspect(pc: u64, size: usize) -> bool {
    let start = pc as usize;
    let rest_of_page = PAGE - start % PAGE;
    let len = if sys::is_readable(start + CODE) { CODE } else { rest_of_page.min(CODE) };
    // SAFETY: the code that is about to be executed, up to the end of its page or of the next one.
    let code = unsafe { core::slice::from_raw_parts(start as *const u8, len) };
    is_partial_store(pc, size, |at| {
        let rest = code.get((at - pc) as usize..).filter(|rest| !rest.is_empty())?;
        Some(Decoder::with_ip(64, rest, at, DecoderOptions::NONE).decode())
    })
}

impl Runtime {
    /// Handles a store that keeps some bits: it reads the whole, and writes the whole after a second schedule
    /// point, as it was when it was read.
    pub(crate) fn store_part(&mut self, addr: usize, size: u64, pc: u64) {
        let loaded = self.log_part(unsnarl_model::Op::Read, addr, size, pc);
        self.log_part(unsnarl_model::Op::Write, addr, size, pc);
        // The code that follows loads the word and stores it with some bits changed. No other thread runs in
        // between, so it must find what it would have loaded before the second point.
        let bytes = loaded.to_le_bytes();
        // SAFETY: the program is about to write these bytes.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), addr as *mut u8, size as usize) };
    }
}
