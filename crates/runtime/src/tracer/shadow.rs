//! Tracing by translated code: the shadow text.
//!
//! When control reaches traced code for the first time, the basic block (up to a conditional jump, a return
//! or an indirect jump) is copied elsewhere, with inserted moves that write the trace; control continues
//! there. Jumps within translated code lead directly to translated code once their target is translated;
//! returns and indirect jumps look their target up. The original code stays in place but cannot be executed:
//! entering it faults, which triggers translation and catches returns from libraries.
//!
//! The stack holds original return addresses, so that unwinding and functions that inspect their caller work.
//! The moves that write the trace change neither flags nor stack: they use the GS segment, which Linux
//! programs on x86-64 leave alone. Looking up the target of a return changes flags, which no calling
//! convention preserves.

use super::{Registers, text::TracedText};
use crate::sys;
use alloc::{collections::BTreeMap, vec::Vec};
use core::{mem::offset_of, ops::Range};
use unsnarl_insn::{
    Address, BlockLayout,
    iced::{
        Code, ConditionCode, Decoder, DecoderOptions, Encoder, FlowControl, Instruction,
        InstructionInfoFactory, MemoryOperand, Mnemonic, OpKind, Register,
    },
    static_successor,
};
use unsnarl_wire::{StepKind, StepWord, TracerWords};

const NEXT: u32 = offset_of!(TracerWords, next) as u32;
const SAVED_RAX: u32 = offset_of!(TracerWords, saved) as u32;
const SAVED_RCX: u32 = SAVED_RAX + 8;
const TARGET: u32 = offset_of!(TracerWords, target) as u32;
const INSIDE: u32 = offset_of!(TracerWords, inside) as u32;
const SLOT: u32 = offset_of!(TracerWords, slot) as u32;
const TAIL: u32 = offset_of!(TracerWords, tail) as u32;
const RUNNING: u32 = offset_of!(TracerWords, running) as u32;

/// The maximum number of instructions in a block.
const LONGEST: usize = 64;

/// The distance of the translation from its code: near enough for 32-bit displacements on both sides.
const DISTANCE: u64 = 1 << 30;

/// The translations of one segment.
struct CodeCache {
    text: Range<u64>,
    code: Emitter,
    /// The end of the memory for translations.
    end: u64,
    /// For each byte of the text the translation of the code there, or 0; reached through GS at this offset.
    table: *mut u64,
    table_offset: u32,
    /// The routine that continues at the target in rax.
    look_up: u64,
    /// The return address of functions that were reached by a tail call.
    tail_back: u64,
    /// Jumps to code that is not translated yet, by target address.
    waiting: BTreeMap<u64, Vec<u64>>,
    /// The starts of translated instructions with their original addresses; ascending.
    origins: Vec<(u64, u64)>,
    /// Functions that are never translated: the tracer handles the fault there.
    pauses: &'static [u64],
}

pub(super) struct Shadows {
    segments: Vec<CodeCache>,
    factory: InstructionInfoFactory,
    encoder: Encoder,
    /// The words through which functions are called that may return to translated code; ascending.
    safe: Vec<u64>,
}

impl Shadows {
    /// Reserves memory for translations of this code; returns `None` if the system has none.
    pub(super) fn new(text: &TracedText, words: *const TracerWords, safe: Vec<u64>) -> Option<Self> {
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
            let start = place(segment, room)?;
            let mut shadow = CodeCache {
                text: segment.clone(),
                code: Emitter { at: start },
                end: start + room,
                table: table as *mut u64,
                table_offset: (table as i64 - words as i64) as u32,
                look_up: 0,
                tail_back: 0,
                waiting: BTreeMap::new(),
                origins: Vec::new(),
                pauses: text.pauses(),
            };
            shadow.routines(text);
            segments.push(shadow);
        }
        Some(Self { segments, factory: InstructionInfoFactory::new(), encoder: Encoder::new(64), safe })
    }

    /// Returns the translation of the code at this address, translating it if needed.
    pub(super) fn translation(&mut self, pc: u64) -> Option<u64> {
        let Self { segments, factory, encoder, safe } = self;
        let shadow = segments.iter_mut().find(|shadow| shadow.text.contains(&pc))?;
        match shadow.known(pc) {
            0 => shadow.translate(pc, factory, encoder, safe),
            known => Some(known),
        }
    }

    /// Returns the start of the translated instruction that contains `pc`, and its original address; `None`
    /// outside translated code.
    fn origin(&self, pc: u64) -> Option<(u64, u64)> {
        let shadow = self.segments.iter().find(|s| (s.look_up..s.code.at).contains(&pc))?;
        let at = shadow.origins.partition_point(|(start, _)| *start <= pc);
        shadow.origins.get(at.checked_sub(1)?).copied()
    }
}

/// Maps memory for translations near the code.
fn place(text: &Range<u64>, room: u64) -> Option<u64> {
    let below = text.start.checked_sub(DISTANCE).filter(|at| *at > 1 << 20);
    let at = (below.unwrap_or(text.end + DISTANCE)) & !4095;
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE;
    let args = [at as usize, room as usize, protection as usize, flags as usize, usize::MAX, 0];
    // SAFETY: a new mapping at a free address.
    let got = unsafe { sys::call(libc::SYS_mmap, args) };
    (got as u64 == at).then_some(at)
}

/// A writer of machine code.
struct Emitter {
    at: u64,
}

impl Emitter {
    fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: callers ensure that there is room.
        unsafe { (self.at as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.at += bytes.len() as u64;
    }

    fn number(&mut self, number: u32) {
        self.bytes(&number.to_le_bytes());
    }

    /// Emits an opcode followed by a displacement or an immediate.
    fn with(&mut self, opcode: &[u8], number: u32) {
        self.bytes(opcode);
        self.number(number);
    }

    /// Emits a jump, conditional with another opcode; returns the address of its displacement.
    fn jump(&mut self, opcode: &[u8], to: u64) -> u64 {
        self.bytes(opcode);
        let place = self.at;
        self.number(to.wrapping_sub(place + 4) as u32);
        place
    }

    fn save_rax(&mut self) {
        self.with(&[0x65, 0x48, 0x89, 0x04, 0x25], SAVED_RAX);
    }

    fn save_rcx(&mut self) {
        self.with(&[0x65, 0x48, 0x89, 0x0c, 0x25], SAVED_RCX);
    }

    fn restore_rax(&mut self) {
        self.with(&[0x65, 0x48, 0x8b, 0x04, 0x25], SAVED_RAX);
    }

    fn restore_rcx(&mut self) {
        self.with(&[0x65, 0x48, 0x8b, 0x0c, 0x25], SAVED_RCX);
    }

    /// Loads the address of the next trace word into rcx.
    fn load_next(&mut self) {
        self.with(&[0x65, 0x48, 0x8b, 0x0c, 0x25], NEXT);
    }

    fn store_next(&mut self) {
        self.with(&[0x65, 0x48, 0x89, 0x0c, 0x25], NEXT);
    }

    /// `mov [rcx + offset], register`
    fn store(&mut self, register: Register, offset: i32) {
        let number = register.number() as u8;
        let rex = 0x48 | (number >> 3) << 2;
        self.with(&[rex, 0x89, 0x81 | (number & 7) << 3], offset as u32);
    }

    /// `mov dword [rcx + offset], half`, twice.
    fn store_word(&mut self, word: u64, offset: i32) {
        for half in [0, 4] {
            self.with(&[0xc7, 0x81], (offset + half) as u32);
            self.number((word >> (8 * half)) as u32);
        }
    }

    fn advance(&mut self, bytes: i32) {
        self.with(&[0x48, 0x8d, 0x89], bytes as u32);
    }

    /// Pushes an address without using a register.
    fn push(&mut self, address: u64) {
        self.bytes(&[0x48, 0x8d, 0x64, 0x24, 0xf8]);
        self.with(&[0xc7, 0x04, 0x24], address as u32);
        self.with(&[0xc7, 0x44, 0x24, 0x04], (address >> 32) as u32);
    }

    /// Emits the rest of an entry record at rcx; clobbers rax.
    fn entered(&mut self) {
        self.store(Register::RSP, 8);
        self.store(Register::RAX, 16);
        self.store(Register::RDX, 24);
        for (word, at) in [(RUNNING, 32), (RUNNING + 8, 40)] {
            self.with(&[0x65, 0x48, 0x8b, 0x04, 0x25], word);
            self.store(Register::RAX, at);
        }
        self.advance(48);
        self.store_next();
        for (word, value) in [(INSIDE, 1), (SLOT, 0)] {
            self.with(&[0x65, 0x48, 0xc7, 0x04, 0x25], word);
            self.number(value);
        }
    }

    /// Compares rax's offset in a segment, which goes to rcx, with the segment's size.
    fn compare_rax(&mut self, segment: &Range<u64>) {
        self.bytes(&[0x48, 0xb9]);
        self.bytes(&segment.start.wrapping_neg().to_le_bytes());
        self.bytes(&[0x48, 0x8d, 0x0c, 0x08]);
        self.with(&[0x48, 0x81, 0xf9], (segment.end - segment.start) as u32);
    }

    /// Encodes an instruction for its new address; returns false if it cannot be encoded there.
    fn instruction(&mut self, instruction: &Instruction, encoder: &mut Encoder) -> bool {
        let encoded = encoder.encode(instruction, self.at).is_ok();
        let buffer = encoder.take_buffer();
        if encoded {
            self.bytes(&buffer);
        }
        let mut buffer = buffer;
        buffer.clear();
        encoder.set_buffer(buffer);
        encoded
    }
}

impl CodeCache {
    fn entry(&self, pc: u64) -> *mut u64 {
        // SAFETY: within the table, which has a word for each byte of the text.
        unsafe { self.table.add((pc - self.text.start) as usize) }
    }

    fn known(&self, pc: u64) -> u64 {
        // SAFETY: as above.
        unsafe { *self.entry(pc) }
    }

    /// Emits the shared routines: looking up a target, and leaving for untraced code. On entry rax holds the
    /// target, and the previous rax and rcx are saved.
    fn routines(&mut self, text: &TracedText) {
        let code = &mut self.code;
        self.look_up = code.at;
        code.compare_rax(&self.text);
        let not_here = code.jump(&[0x0f, 0x83], 0);
        code.with(&[0x65, 0x48, 0x8b, 0x0c, 0xcd], self.table_offset);
        code.bytes(&[0x48, 0x85, 0xc9]);
        let unknown = code.jump(&[0x0f, 0x84], 0);
        code.with(&[0x65, 0x48, 0x89, 0x0c, 0x25], TARGET);
        let go = |code: &mut Emitter| {
            code.restore_rax();
            code.restore_rcx();
            code.with(&[0x65, 0xff, 0x24, 0x25], TARGET);
        };
        go(code);
        // Traced but not translated: the tracer handles the fault there.
        let fault = code.at;
        code.with(&[0x65, 0x48, 0x89, 0x04, 0x25], TARGET);
        go(code);
        patch(unknown, fault);
        patch(not_here, code.at);
        for other in text.segments().iter().filter(|other| **other != self.text) {
            code.compare_rax(other);
            code.jump(&[0x0f, 0x82], fault);
        }
        // Leaving: writes the record and clears the inside flag.
        code.with(&[0x65, 0x48, 0x89, 0x04, 0x25], TARGET);
        code.load_next();
        code.store(Register::RAX, 0);
        code.bytes(&[0xc6, 0x41, 0x07, StepKind::Leave as u8]);
        let registers = [Register::RSP, Register::RDI, Register::RSI, Register::RDX];
        for (register, at) in registers.into_iter().zip(1..) {
            code.store(register, 8 * at);
        }
        code.with(&[0x65, 0x48, 0x8b, 0x04, 0x25], SAVED_RCX);
        code.store(Register::RAX, 40);
        code.store(Register::R8, 48);
        code.store(Register::R9, 56);
        code.restore_rax();
        code.store(Register::RAX, 64);
        code.advance(72);
        code.store_next();
        code.with(&[0x65, 0x48, 0xc7, 0x04, 0x25], INSIDE);
        code.number(0);
        code.restore_rcx();
        code.with(&[0x65, 0xff, 0x24, 0x25], TARGET);
        // Return from a tail call.
        self.tail_back = code.at;
        code.save_rcx();
        code.save_rax();
        code.load_next();
        code.with(&[0x65, 0x48, 0x8b, 0x04, 0x25], TAIL);
        code.store(Register::RAX, 0);
        code.bytes(&[0xc6, 0x41, 0x07, StepKind::Enter as u8]);
        code.restore_rax();
        code.entered();
        code.with(&[0x65, 0x48, 0x8b, 0x04, 0x25], TAIL);
        code.jump(&[0xe9], self.look_up);
    }

    /// Translates the block at an address.
    fn translate(
        &mut self,
        pc: u64,
        factory: &mut InstructionInfoFactory,
        encoder: &mut Encoder,
        safe: &[u64],
    ) -> Option<u64> {
        const MAX_BYTES: u64 = LONGEST as u64 * 256;
        if self.code.at + MAX_BYTES > self.end {
            crate::end::refuse("there is no more room for translated code");
        }
        let block = self.decode(pc)?;
        let layout = BlockLayout::of(&block, factory);
        let start = self.code.at;
        self.origins.push((start, pc));
        self.begin(pc, &block, &layout);
        for (at, instruction) in block.iter().enumerate() {
            if at > 0 {
                self.origins.push((self.code.at, instruction.ip()));
                self.samples(&layout, at);
            }
            // A fault belongs to the instruction itself.
            self.origins.push((self.code.at, instruction.ip()));
            if at + 1 < block.len() {
                self.pass(instruction, encoder)?;
            } else if is_plain(instruction) {
                self.copy(instruction, encoder)?;
                self.jump(&[0xe9], instruction.next_ip());
            } else {
                let is_stub = self.slot_of_stub(pc).is_some();
                self.end(instruction, is_stub, encoder, safe)?;
            }
        }
        // SAFETY: an entry of the table.
        unsafe { *self.entry(pc) = start };
        for place in self.waiting.remove(&pc).unwrap_or_default() {
            patch(place, start);
        }
        Some(start)
    }

    /// Decodes a block: up to the first conditional or indirect branch, across direct jumps and calls.
    fn decode(&self, mut pc: u64) -> Option<Vec<Instruction>> {
        let mut decoder = self.decoder(pc);
        let mut block: Vec<Instruction> = Vec::new();
        while block.len() < LONGEST && block.iter().all(|known| known.ip() != pc) {
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                // It faults as the original does, if it is executed.
                break;
            }
            block.push(instruction);
            let Some(next) = static_successor(&instruction) else { break };
            if next != instruction.next_ip() {
                // Control leaves through a stub and returns by a separate path.
                if !self.text.contains(&next) || self.slot_of_stub(next).is_some() {
                    break;
                }
                decoder = self.decoder(next);
            }
            if self.pauses.contains(&next) {
                break;
            }
            pc = next;
        }
        (!block.is_empty()).then_some(block)
    }

    fn decoder(&self, pc: u64) -> Decoder<'static> {
        let left = (self.text.end - pc) as usize;
        // SAFETY: the rest of the segment, which stays readable.
        let bytes = unsafe { core::slice::from_raw_parts(pc as *const u8, left) };
        Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE)
    }

    /// Emits the block's record and the samples taken at its start.
    fn begin(&mut self, pc: u64, block: &[Instruction], layout: &BlockLayout) {
        let bytes = 8 * (1 + layout.words() as i32);
        let code = &mut self.code;
        code.save_rcx();
        let first = layout.samples.iter().take_while(|sample| sample.at == 0).count();
        let uses_rax = layout.samples[..first].iter().any(|sample| needs_scratch(sample.address));
        if uses_rax {
            code.save_rax();
        }
        code.load_next();
        code.store_word(StepWord::new(StepKind::Block, pc, block.len() as u8).0, 0);
        for (at, sample) in layout.samples[..first].iter().enumerate() {
            self.sample(sample.address, 8 * (1 + at as i32));
        }
        let code = &mut self.code;
        code.advance(bytes);
        code.store_next();
        code.restore_rcx();
    }

    /// Emits the samples due before an instruction, into the record that was already written.
    fn samples(&mut self, layout: &BlockLayout, at: usize) {
        let due = || layout.samples.iter().enumerate().filter(|(_, sample)| usize::from(sample.at) == at);
        if due().next().is_none() {
            return;
        }
        let uses_rax = due().any(|(_, sample)| needs_scratch(sample.address));
        self.code.save_rcx();
        if uses_rax {
            self.code.save_rax();
        }
        self.code.load_next();
        for (number, sample) in due() {
            self.sample(sample.address, 8 * (number as i32 - layout.words() as i32));
        }
        self.code.restore_rcx();
    }

    /// Stores an address at an offset from rcx. rcx is saved, and rax if it is needed.
    fn sample(&mut self, address: Address, offset: i32) {
        let code = &mut self.code;
        if !needs_scratch(address) {
            code.store(address.base, offset);
            return;
        }
        if address.index == Register::None {
            // The base is rcx.
            code.with(&[0x65, 0x48, 0x8b, 0x04, 0x25], SAVED_RCX);
            code.store(Register::RAX, offset);
            code.restore_rax();
            return;
        }
        let in_use = address.base == Register::RCX || address.index == Register::RCX;
        if in_use {
            code.restore_rcx();
        }
        // lea rax, [base + index * scale]
        let (base, index) = (address.base, address.index.number() as u8);
        let scale = address.scale.trailing_zeros() as u8;
        if base == Register::None {
            let rex = 0x48 | (index >> 3) << 1;
            code.with(&[rex, 0x8d, 0x04, scale << 6 | (index & 7) << 3 | 5], 0);
        } else {
            let base = base.number() as u8;
            let rex = 0x48 | (index >> 3) << 1 | base >> 3;
            code.bytes(&[rex, 0x8d, 0x44, scale << 6 | (index & 7) << 3 | base & 7, 0]);
        }
        if in_use {
            code.load_next();
        }
        code.store(Register::RAX, offset);
        // Another sample may use rax.
        code.restore_rax();
    }

    /// Emits an instruction within a block.
    fn pass(&mut self, instruction: &Instruction, encoder: &mut Encoder) -> Option<()> {
        if is_plain(instruction) {
            return self.copy(instruction, encoder);
        }
        // The target's code follows directly.
        if instruction.mnemonic() == Mnemonic::Call {
            self.code.push(instruction.next_ip());
        }
        Some(())
    }

    /// Copies an instruction, adapting only displacements relative to its address.
    fn copy(&mut self, instruction: &Instruction, encoder: &mut Encoder) -> Option<()> {
        if instruction.is_ip_rel_memory_operand() {
            return self.code.instruction(instruction, encoder).then_some(());
        }
        // SAFETY: the instruction was decoded from there.
        let bytes = unsafe { core::slice::from_raw_parts(instruction.ip() as *const u8, instruction.len()) };
        self.code.bytes(bytes);
        Some(())
    }

    /// Emits a jump to code of the text.
    fn jump(&mut self, opcode: &[u8], to: u64) {
        let known = if self.text.contains(&to) { self.known(to) } else { 0 };
        let place = self.code.jump(opcode, if known == 0 { to } else { known });
        if known == 0 {
            self.waiting.entry(to).or_default().push(place);
        }
    }

    /// Emits the instruction that ends a block.
    fn end(
        &mut self,
        instruction: &Instruction,
        is_stub: bool,
        encoder: &mut Encoder,
        safe: &[u64],
    ) -> Option<()> {
        let target = instruction.near_branch_target();
        // The place for the return address, if the called function may return to translated code.
        let mut returns = None;
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch => {
                if self.slot_of_stub(target).is_some_and(|slot| safe.binary_search(&slot).is_ok()) {
                    self.tail_call();
                }
                self.jump(&[0xe9], target);
            }
            FlowControl::ConditionalBranch if instruction.condition_code() != ConditionCode::None => {
                let condition = instruction.condition_code() as u8 - 1;
                if instruction.is_jcc_short_or_near() {
                    self.jump(&[0x0f, 0x80 + condition], target);
                } else {
                    self.looping(instruction, encoder)?;
                }
                self.jump(&[0xe9], instruction.next_ip());
            }
            FlowControl::ConditionalBranch => {
                self.looping(instruction, encoder)?;
                self.jump(&[0xe9], instruction.next_ip());
            }
            FlowControl::Call => {
                returns = self.call(instruction, safe);
                self.jump(&[0xe9], target);
            }
            FlowControl::Return => {
                let code = &mut self.code;
                code.save_rcx();
                code.save_rax();
                code.bytes(&[0x48, 0x8b, 0x04, 0x24]);
                let more =
                    if instruction.op0_kind() == OpKind::Immediate16 { instruction.immediate16() } else { 0 };
                code.with(&[0x48, 0x8d, 0xa4, 0x24], 8 + u32::from(more));
                code.jump(&[0xe9], self.look_up);
            }
            FlowControl::IndirectBranch | FlowControl::IndirectCall => {
                // A stub gets here too, but its call has already set the return address.
                if !is_stub
                    && instruction.mnemonic() == Mnemonic::Jmp
                    && instruction.is_ip_rel_memory_operand()
                    && safe.binary_search(&instruction.ip_rel_memory_address()).is_ok()
                {
                    self.tail_call();
                }
                self.code.save_rcx();
                self.code.save_rax();
                let load = if instruction.op0_kind() == OpKind::Register {
                    Instruction::with2(Code::Mov_r64_rm64, Register::RAX, instruction.op0_register())
                } else {
                    Instruction::with2(Code::Mov_r64_rm64, Register::RAX, memory(instruction))
                };
                if !self.code.instruction(&load.ok()?, encoder) {
                    return None;
                }
                if instruction.mnemonic() == Mnemonic::Call {
                    returns = self.call(instruction, safe);
                }
                self.code.jump(&[0xe9], self.look_up);
            }
            _ => return None,
        }
        if let Some(place) = returns {
            place.write(self.code.at);
            self.come_back(instruction.next_ip());
        }
        Some(())
    }

    /// Pushes a return address: the original one, or a placeholder to be filled in.
    fn call(&mut self, call: &Instruction, safe: &[u64]) -> Option<ReturnAddressPush> {
        let slot = if call.is_ip_rel_memory_operand() {
            Some(call.ip_rel_memory_address())
        } else {
            self.slot_of_stub(call.near_branch_target())
        };
        if slot.is_none_or(|slot| safe.binary_search(&slot).is_err()) {
            self.code.push(call.next_ip());
            return None;
        }
        let pushed = ReturnAddressPush(self.code.at);
        self.code.push(0);
        self.code.with(&[0x65, 0x48, 0x89, 0x24, 0x25], SLOT);
        Some(pushed)
    }

    /// Prepares a tail call of a function that may return to translated code: if the return address on the
    /// stack is in traced code, replaces it by one in translated code. Changes flags, which no calling
    /// convention preserves.
    fn tail_call(&mut self) {
        let code = &mut self.code;
        code.save_rcx();
        code.save_rax();
        code.bytes(&[0x48, 0x8b, 0x04, 0x24]);
        code.compare_rax(&self.text);
        let elsewhere = code.jump(&[0x0f, 0x83], 0);
        code.with(&[0x65, 0x48, 0x89, 0x04, 0x25], TAIL);
        // lea rax, [rip + …]
        code.jump(&[0x48, 0x8d, 0x05], self.tail_back);
        code.bytes(&[0x48, 0x89, 0x04, 0x24]);
        code.with(&[0x65, 0x48, 0x89, 0x24, 0x25], SLOT);
        patch(elsewhere, code.at);
        code.restore_rax();
        code.restore_rcx();
    }

    /// Returns the address of the word that a stub jumps through, if `pc` is a stub.
    fn slot_of_stub(&self, pc: u64) -> Option<u64> {
        let mut decoder = self.text.contains(&pc).then(|| self.decoder(pc))?;
        let mut instruction = decoder.decode();
        if matches!(instruction.mnemonic(), Mnemonic::Endbr64) {
            instruction = decoder.decode();
        }
        let jumps = instruction.flow_control() == FlowControl::IndirectBranch;
        (jumps && instruction.is_ip_rel_memory_operand()).then(|| instruction.ip_rel_memory_address())
    }

    /// Emits the return path of a call: the entry record and a jump.
    fn come_back(&mut self, pc: u64) {
        self.origins.push((self.code.at, pc));
        let code = &mut self.code;
        code.save_rcx();
        code.save_rax();
        code.load_next();
        code.store_word(StepWord::new(StepKind::Enter, pc, 0).0, 0);
        code.entered();
        code.restore_rax();
        code.restore_rcx();
        self.jump(&[0xe9], pc);
    }

    /// `loop` and `jrcxz` have a short range: they branch over a jump.
    fn looping(&mut self, instruction: &Instruction, encoder: &mut Encoder) -> Option<()> {
        let mut over = *instruction;
        let start = self.code.at;
        // Two bytes for the instruction, at most one prefix, and the jump that is not taken.
        over.set_near_branch64(start + 32);
        let mut probe = Emitter { at: start };
        if !probe.instruction(&over, encoder) {
            return None;
        }
        let len = probe.at - start;
        over.set_near_branch64(start + len + 5);
        if !self.code.instruction(&over, encoder) {
            return None;
        }
        let skip = self.code.jump(&[0xe9], 0);
        self.jump(&[0xe9], instruction.near_branch_target());
        patch(skip, self.code.at);
        Some(())
    }
}

/// The address of an emitted push of a return address.
struct ReturnAddressPush(u64);

impl ReturnAddressPush {
    /// Fills in the address.
    fn write(&self, address: u64) {
        let mut emitter = Emitter { at: self.0 };
        emitter.push(address);
    }
}

/// Replaces a return address in translated code on the stack by the original one.
pub(super) fn restore_return_address(shadows: &Shadows, slot: *mut u64, tail: u64) {
    // SAFETY: a stack word that a call wrote and that has not been returned through yet.
    unsafe {
        if shadows.segments.iter().any(|shadow| shadow.tail_back == *slot) {
            *slot = tail;
        } else if let Some((start, origin)) = shadows.origin(*slot)
            && start == *slot
        {
            *slot = origin;
        }
    }
}

/// Returns whether an instruction always continues at the next one.
fn is_plain(instruction: &Instruction) -> bool {
    instruction.flow_control() != FlowControl::UnconditionalBranch
        && instruction.mnemonic() != Mnemonic::Call
        && static_successor(instruction).is_some()
}

/// Returns whether storing an address needs another register besides rcx.
fn needs_scratch(address: Address) -> bool {
    address.index != Register::None || address.base == Register::RCX
}

/// Returns the memory operand of an instruction.
fn memory(instruction: &Instruction) -> MemoryOperand {
    MemoryOperand::new(
        instruction.memory_base(),
        instruction.memory_index(),
        instruction.memory_index_scale(),
        instruction.memory_displacement64() as i64,
        instruction.memory_displ_size(),
        false,
        instruction.segment_prefix(),
    )
}

/// Redirects a jump.
fn patch(place: u64, to: u64) {
    let relative = to.wrapping_sub(place + 4) as u32;
    // SAFETY: a displacement that this module wrote; only this processor executes it.
    unsafe { (place as *mut u32).write_unaligned(relative) };
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
pub(super) fn restore(shadows: &Shadows, registers: &mut Registers, saved: [u64; 2]) -> bool {
    /// The length of a move that saves a register.
    const SAVE: u64 = 9;
    let pc = registers[libc::REG_RIP as usize] as u64;
    let Some((start, origin)) = shadows.origin(pc) else { return false };
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
