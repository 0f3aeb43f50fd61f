//! Tracing by translated code.
//!
//! When control first reaches traced code, its basic block (up to a conditional jump, a return or an indirect
//! jump) is copied elsewhere. Control continues in the copy, which contains moves that write the trace. Jumps within translated code lead directly to translated code once their target is translated;
//! returns and indirect jumps look their target up. The original code stays in place but cannot be executed:
//! entering it faults, which triggers translation and catches returns from libraries.
//!
//! The stack holds original return addresses, so that unwinding and functions that inspect their caller work.
//! Looking up the target of a return changes flags, which no calling convention preserves.

use super::{
    Registers,
    code_cache::CodeCache,
    emitter::{Emitter, SAVED_RAX, SAVED_RCX},
    text::TracedText,
};
use crate::sys;
use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::Range;
use unsnarl_insn::iced::{Encoder, InstructionInfoFactory};
use unsnarl_wire::TracerWords;

/// The distance of the translation from its code: near enough for 32-bit displacements on both sides.
const DISTANCE: u64 = 1 << 30;

/// The translations of all traced code.
pub(super) struct Translator {
    segments: Vec<CodeCache>,
    factory: InstructionInfoFactory,
    encoder: Encoder,
    /// The words through which functions are called that may return to translated code; ascending.
    direct_returns: Vec<u64>,
}

impl Translator {
    /// Reserves memory for translations of this code; returns `None` if the system has none.
    pub(super) fn new(
        text: &TracedText,
        words: *const TracerWords,
        direct_returns: Vec<u64>,
    ) -> Option<Self> {
        let mut segments = Vec::new();
        // The tables lie below the shared memory, within GS's reach.
        let mut table_end = (words as u64 & !0xffff) - (16 << 20);
        for segment in text.segments() {
            let size = segment.end - segment.start;
            let table = (table_end - 8 * size) & !4095;
            table_end = table - 4096;
            if words as u64 - table > 1 << 30 || !sys::reserve(table as usize, 8 * size as usize) {
                return None;
            }
            let room = (32 * size + (16 << 20)).next_multiple_of(4096).min(512 << 20);
            let start = map_near(segment, room)?;
            let mut cache = CodeCache {
                text: segment.clone(),
                code: Emitter { at: start },
                end: start + room,
                table: table as *mut u64,
                table_offset: (table as i64 - words as i64) as u32,
                look_up: 0,
                tail_return: 0,
                unresolved_jumps: BTreeMap::new(),
                origins: Vec::new(),
                pauses: text.pauses(),
            };
            cache.emit_routines(text);
            segments.push(cache);
        }
        Some(Self {
            segments,
            factory: InstructionInfoFactory::new(),
            encoder: Encoder::new(64),
            direct_returns,
        })
    }

    /// Returns the translation of the code at this address, translating it if needed.
    pub(super) fn translation(&mut self, pc: u64) -> Option<u64> {
        let Self { segments, factory, encoder, direct_returns } = self;
        let cache = segments.iter_mut().find(|cache| cache.text.contains(&pc))?;
        match cache.translation_at(pc) {
            0 => cache.translate(pc, factory, encoder, direct_returns),
            known => Some(known),
        }
    }

    /// Returns the start of the translated instruction that contains `pc`, and its original address; `None`
    /// outside translated code.
    fn origin(&self, pc: u64) -> Option<(u64, u64)> {
        let cache = self.segments.iter().find(|s| (s.look_up..s.code.at).contains(&pc))?;
        let at = cache.origins.partition_point(|(start, _)| *start <= pc);
        cache.origins.get(at.checked_sub(1)?).copied()
    }
}

/// Maps memory for translations near the code.
fn map_near(text: &Range<u64>, room: u64) -> Option<u64> {
    let below = text.start.checked_sub(DISTANCE).filter(|at| *at > 1 << 20);
    let at = (below.unwrap_or(text.end + DISTANCE)) & !4095;
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE;
    let args = [at as usize, room as usize, protection as usize, flags as usize, usize::MAX, 0];
    // SAFETY: a new mapping at a free address.
    let got = unsafe { sys::call(libc::SYS_mmap, args) };
    (got as u64 == at).then_some(at)
}

/// Replaces a return address in translated code on the stack by the original one.
pub(super) fn restore_return_address(translator: &Translator, slot: *mut u64, tail: u64) {
    // SAFETY: a stack word that a call wrote and that has not been returned through yet.
    unsafe {
        if translator.segments.iter().any(|cache| cache.tail_return == *slot) {
            *slot = tail;
        } else if let Some((start, origin)) = translator.origin(*slot)
            && start == *slot
        {
            *slot = origin;
        }
    }
}

/// Sets GS so that translated code finds its words.
pub(super) fn set_gs(words: *const TracerWords) {
    // SAFETY: nothing else uses GS.
    unsafe {
        core::arch::asm!("wrgsbase {}", in(reg) words as usize, options(nostack, nomem, preserves_flags))
    };
}

/// Restores the original address and registers of an interrupted program; returns false if it was not in
/// translated code.
pub(super) fn restore(translator: &Translator, registers: &mut Registers, saved: [u64; 2]) -> bool {
    /// The length of a move that saves a register.
    const SAVE: u64 = 9;
    let pc = registers[libc::REG_RIP as usize] as u64;
    let Some((start, origin)) = translator.origin(pc) else { return false };
    registers[libc::REG_RIP as usize] = origin as i64;
    // SAFETY: translated code is readable.
    let begins =
        |at: u64, with: &[u8]| unsafe { core::slice::from_raw_parts(at as *const u8, with.len()) == with };
    let is_save = |at: u64, register: u8, place: u32| {
        begins(at, &[0x65, 0x48, 0x89, register, 0x25]) && begins(at + 5, &place.to_le_bytes())
    };
    if pc >= start + SAVE && is_save(start, 0x0c, SAVED_RCX) {
        registers[libc::REG_RCX as usize] = saved[1] as i64;
        if pc >= start + 2 * SAVE && is_save(start + SAVE, 0x04, SAVED_RAX) {
            registers[libc::REG_RAX as usize] = saved[0] as i64;
        }
    }
    true
}
