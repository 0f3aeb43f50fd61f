//! The translations of one segment of the traced code, block by block.

use super::{
    emitter::{Emitter, INSIDE, ReturnAddressPush, SAVED_RCX, SLOT, TAIL, TARGET, patch},
    text::TracedText,
};
use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::Range;
use unsnarl_insn::{
    Address, BlockLayout,
    iced::{
        Code, ConditionCode, Decoder, DecoderOptions, Encoder, FlowControl, Instruction,
        InstructionInfoFactory, MemoryOperand, Mnemonic, OpKind, Register,
    },
    static_successor,
};
use unsnarl_wire::{StepKind, StepWord};

/// The maximum number of instructions in a block.
const MAX_BLOCK_INSTRUCTIONS: usize = 64;

/// The translations of one segment.
pub(super) struct CodeCache {
    pub(super) text: Range<u64>,
    pub(super) code: Emitter,
    /// The end of the memory for translations.
    pub(super) end: u64,
    /// For each byte of the text the translation of the code there, or 0; reached through GS at this offset.
    pub(super) table: *mut u64,
    pub(super) table_offset: u32,
    /// The routine that continues at the target in rax.
    pub(super) look_up: u64,
    /// The return address of functions that were reached by a tail call.
    pub(super) tail_return: u64,
    /// Jumps to code that is not translated yet, by target address.
    pub(super) unresolved_jumps: BTreeMap<u64, Vec<u64>>,
    /// The starts of translated instructions with their original addresses; ascending.
    pub(super) origins: Vec<(u64, u64)>,
    /// Functions that are never translated: the tracer handles the fault there.
    pub(super) pauses: &'static [u64],
}

impl CodeCache {
    fn table_entry(&self, pc: u64) -> *mut u64 {
        // SAFETY: within the table, which has a word for each byte of the text.
        unsafe { self.table.add((pc - self.text.start) as usize) }
    }

    pub(super) fn translation_at(&self, pc: u64) -> u64 {
        // SAFETY: as above.
        unsafe { *self.table_entry(pc) }
    }

    /// Emits the shared routines: looking up a target, and leaving for untraced code. On entry rax holds the
    /// target, and the previous rax and rcx are saved.
    pub(super) fn emit_routines(&mut self, text: &TracedText) {
        let code = &mut self.code;
        self.look_up = code.at;
        code.compare_rax(&self.text);
        let outside = code.jump(&[0x0f, 0x83], 0);
        code.opcode(&[0x65, 0x48, 0x8b, 0x0c, 0xcd], self.table_offset);
        code.bytes(&[0x48, 0x85, 0xc9]);
        let unknown = code.jump(&[0x0f, 0x84], 0);
        code.store_rcx(TARGET);
        let jump_to_target = |code: &mut Emitter| {
            code.restore_rax();
            code.restore_rcx();
            code.jump_through(TARGET);
        };
        jump_to_target(code);
        // Traced but not translated: the tracer handles the fault there.
        let fault = code.at;
        code.store_rax(TARGET);
        jump_to_target(code);
        patch(unknown, fault);
        patch(outside, code.at);
        for other in text.segments().iter().filter(|other| **other != self.text) {
            code.compare_rax(other);
            code.jump(&[0x0f, 0x82], fault);
        }
        // Leaving: writes the record and clears the inside flag.
        code.store_rax(TARGET);
        code.load_next();
        code.store(Register::RAX, 0);
        code.bytes(&[0xc6, 0x41, 0x07, StepKind::Leave as u8]);
        let registers = [Register::RSP, Register::RDI, Register::RSI, Register::RDX];
        for (register, at) in registers.into_iter().zip(1..) {
            code.store(register, 8 * at);
        }
        code.load_rax(SAVED_RCX);
        code.store(Register::RAX, 40);
        code.store(Register::R8, 48);
        code.store(Register::R9, 56);
        code.restore_rax();
        code.store(Register::RAX, 64);
        code.advance(72);
        code.store_next();
        code.store_constant(INSIDE, 0);
        code.restore_rcx();
        code.jump_through(TARGET);
        // Return from a tail call.
        self.tail_return = code.at;
        code.save_rcx();
        code.save_rax();
        code.load_next();
        code.load_rax(TAIL);
        code.store(Register::RAX, 0);
        code.bytes(&[0xc6, 0x41, 0x07, StepKind::Enter as u8]);
        code.restore_rax();
        code.entry_record();
        code.load_rax(TAIL);
        code.jump(&[0xe9], self.look_up);
    }

    /// Translates the block at an address.
    pub(super) fn translate(
        &mut self,
        pc: u64,
        factory: &mut InstructionInfoFactory,
        encoder: &mut Encoder,
        direct_returns: &[u64],
    ) -> Option<u64> {
        const MAX_BYTES: u64 = MAX_BLOCK_INSTRUCTIONS as u64 * 256;
        if self.code.at + MAX_BYTES > self.end {
            crate::end::refuse("there is no more room for translated code");
        }
        let block = self.decode(pc)?;
        let layout = BlockLayout::of(&block, factory);
        let start = self.code.at;
        self.origins.push((start, pc));
        self.emit_block_record(pc, &block, &layout);
        for (at, instruction) in block.iter().enumerate() {
            if at > 0 {
                self.origins.push((self.code.at, instruction.ip()));
                self.emit_samples(&layout, at);
            }
            // A fault belongs to the instruction itself.
            self.origins.push((self.code.at, instruction.ip()));
            if at + 1 < block.len() {
                self.emit_inner(instruction, encoder)?;
            } else if is_plain(instruction) {
                self.emit_copy(instruction, encoder)?;
                self.emit_jump(&[0xe9], instruction.next_ip());
            } else {
                let is_stub = self.slot_of_stub(pc).is_some();
                self.emit_end(instruction, is_stub, encoder, direct_returns)?;
            }
        }
        // SAFETY: an entry of the table.
        unsafe { *self.table_entry(pc) = start };
        for place in self.unresolved_jumps.remove(&pc).unwrap_or_default() {
            patch(place, start);
        }
        Some(start)
    }

    /// Decodes a block: up to the first conditional or indirect branch, across direct jumps and calls.
    fn decode(&self, mut pc: u64) -> Option<Vec<Instruction>> {
        let mut decoder = self.decoder(pc);
        let mut block: Vec<Instruction> = Vec::new();
        while block.len() < MAX_BLOCK_INSTRUCTIONS && block.iter().all(|known| known.ip() != pc) {
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
    fn emit_block_record(&mut self, pc: u64, block: &[Instruction], layout: &BlockLayout) {
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
            self.emit_sample(sample.address, 8 * (1 + at as i32));
        }
        let code = &mut self.code;
        code.advance(bytes);
        code.store_next();
        code.restore_rcx();
    }

    /// Emits the samples due before an instruction, into the record that was already written.
    fn emit_samples(&mut self, layout: &BlockLayout, at: usize) {
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
            self.emit_sample(sample.address, 8 * (number as i32 - layout.words() as i32));
        }
        self.code.restore_rcx();
    }

    /// Stores an address at an offset from rcx. rcx is saved, and rax if it is needed.
    fn emit_sample(&mut self, address: Address, offset: i32) {
        let code = &mut self.code;
        if !needs_scratch(address) {
            code.store(address.base, offset);
            return;
        }
        if address.index == Register::None {
            // The base is rcx.
            code.load_rax(SAVED_RCX);
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
            code.opcode(&[rex, 0x8d, 0x04, scale << 6 | (index & 7) << 3 | 5], 0);
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
    fn emit_inner(&mut self, instruction: &Instruction, encoder: &mut Encoder) -> Option<()> {
        if is_plain(instruction) {
            return self.emit_copy(instruction, encoder);
        }
        // The target's code follows directly.
        if instruction.mnemonic() == Mnemonic::Call {
            self.code.push(instruction.next_ip());
        }
        Some(())
    }

    /// Copies an instruction, adapting only displacements relative to its address.
    fn emit_copy(&mut self, instruction: &Instruction, encoder: &mut Encoder) -> Option<()> {
        if instruction.is_ip_rel_memory_operand() {
            return self.code.instruction(instruction, encoder).then_some(());
        }
        // SAFETY: the instruction was decoded from there.
        let bytes = unsafe { core::slice::from_raw_parts(instruction.ip() as *const u8, instruction.len()) };
        self.code.bytes(bytes);
        Some(())
    }

    /// Emits a jump to code of the text.
    fn emit_jump(&mut self, opcode: &[u8], to: u64) {
        let known = if self.text.contains(&to) { self.translation_at(to) } else { 0 };
        let place = self.code.jump(opcode, if known == 0 { to } else { known });
        if known == 0 {
            self.unresolved_jumps.entry(to).or_default().push(place);
        }
    }

    /// Emits the instruction that ends a block.
    fn emit_end(
        &mut self,
        instruction: &Instruction,
        is_stub: bool,
        encoder: &mut Encoder,
        direct_returns: &[u64],
    ) -> Option<()> {
        let target = instruction.near_branch_target();
        // The place for the return address, if the called function may return to translated code.
        let mut returns = None;
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch => {
                if self.slot_of_stub(target).is_some_and(|slot| direct_returns.binary_search(&slot).is_ok()) {
                    self.emit_tail_call();
                }
                self.emit_jump(&[0xe9], target);
            }
            FlowControl::ConditionalBranch if instruction.condition_code() != ConditionCode::None => {
                let condition = instruction.condition_code() as u8 - 1;
                if instruction.is_jcc_short_or_near() {
                    self.emit_jump(&[0x0f, 0x80 + condition], target);
                } else {
                    self.emit_loop(instruction, encoder)?;
                }
                self.emit_jump(&[0xe9], instruction.next_ip());
            }
            FlowControl::ConditionalBranch => {
                self.emit_loop(instruction, encoder)?;
                self.emit_jump(&[0xe9], instruction.next_ip());
            }
            FlowControl::Call => {
                returns = self.emit_call(instruction, direct_returns);
                self.emit_jump(&[0xe9], target);
            }
            FlowControl::Return => {
                let code = &mut self.code;
                code.save_rcx();
                code.save_rax();
                code.bytes(&[0x48, 0x8b, 0x04, 0x24]);
                let more =
                    if instruction.op0_kind() == OpKind::Immediate16 { instruction.immediate16() } else { 0 };
                code.opcode(&[0x48, 0x8d, 0xa4, 0x24], 8 + u32::from(more));
                code.jump(&[0xe9], self.look_up);
            }
            FlowControl::IndirectBranch | FlowControl::IndirectCall => {
                // A stub gets here too, but its call has already set the return address.
                if !is_stub
                    && instruction.mnemonic() == Mnemonic::Jmp
                    && instruction.is_ip_rel_memory_operand()
                    && direct_returns.binary_search(&instruction.ip_rel_memory_address()).is_ok()
                {
                    self.emit_tail_call();
                }
                self.code.save_rcx();
                self.code.save_rax();
                let load = if instruction.op0_kind() == OpKind::Register {
                    Instruction::with2(Code::Mov_r64_rm64, Register::RAX, instruction.op0_register())
                } else {
                    Instruction::with2(Code::Mov_r64_rm64, Register::RAX, memory_operand(instruction))
                };
                if !self.code.instruction(&load.ok()?, encoder) {
                    return None;
                }
                if instruction.mnemonic() == Mnemonic::Call {
                    returns = self.emit_call(instruction, direct_returns);
                }
                self.code.jump(&[0xe9], self.look_up);
            }
            _ => return None,
        }
        if let Some(place) = returns {
            place.write(self.code.at);
            self.emit_return_path(instruction.next_ip());
        }
        Some(())
    }

    /// Pushes a return address: the original one, or a placeholder to be filled in.
    fn emit_call(&mut self, call: &Instruction, direct_returns: &[u64]) -> Option<ReturnAddressPush> {
        let slot = if call.is_ip_rel_memory_operand() {
            Some(call.ip_rel_memory_address())
        } else {
            self.slot_of_stub(call.near_branch_target())
        };
        if slot.is_none_or(|slot| direct_returns.binary_search(&slot).is_err()) {
            self.code.push(call.next_ip());
            return None;
        }
        let pushed = ReturnAddressPush(self.code.at);
        self.code.push(0);
        self.code.store_rsp(SLOT);
        Some(pushed)
    }

    /// Prepares a tail call of a function that may return to translated code: if the return address on the
    /// stack is in traced code, replaces it by one in translated code. Changes flags, which no calling
    /// convention preserves.
    fn emit_tail_call(&mut self) {
        let code = &mut self.code;
        code.save_rcx();
        code.save_rax();
        code.bytes(&[0x48, 0x8b, 0x04, 0x24]);
        code.compare_rax(&self.text);
        let elsewhere = code.jump(&[0x0f, 0x83], 0);
        code.store_rax(TAIL);
        // lea rax, [rip + …]
        code.jump(&[0x48, 0x8d, 0x05], self.tail_return);
        code.bytes(&[0x48, 0x89, 0x04, 0x24]);
        code.store_rsp(SLOT);
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
    fn emit_return_path(&mut self, pc: u64) {
        self.origins.push((self.code.at, pc));
        let code = &mut self.code;
        code.save_rcx();
        code.save_rax();
        code.load_next();
        code.store_word(StepWord::new(StepKind::Enter, pc, 0).0, 0);
        code.entry_record();
        code.restore_rax();
        code.restore_rcx();
        self.emit_jump(&[0xe9], pc);
    }

    /// `loop` and `jrcxz` have a short range: they branch over a jump.
    fn emit_loop(&mut self, instruction: &Instruction, encoder: &mut Encoder) -> Option<()> {
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
        self.emit_jump(&[0xe9], instruction.near_branch_target());
        patch(skip, self.code.at);
        Some(())
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
fn memory_operand(instruction: &Instruction) -> MemoryOperand {
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
