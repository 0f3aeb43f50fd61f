//! The executed instructions, and the blocks in which the tracer records them.

use super::{Code, calls::ARGUMENTS};
use crate::{InstructionIx, hash::Hashed};
use unsnarl_insn::{
    BlockLayout, Effects, MAX_BLOCK,
    iced::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic},
    static_successor,
};
use unsnarl_wire::StepWord;

/// The control transfer of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ControlTransfer {
    Next,
    Branch,
    Jump,
    IndirectJump,
    Call,
    Return,
}

/// An executed instruction.
#[derive(Clone, Debug)]
pub struct Insn {
    /// The address.
    pub pc: u64,
    /// The number of bytes.
    pub len: u8,
    pub(super) effects: Effects,
    pub(super) transfer: ControlTransfer,
    /// Part of a stub by which other modules are called: irrelevant to a slice.
    pub(super) stub: bool,
    /// A call of a stub.
    pub(super) calls_stub: bool,
    pub(super) pushes: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) insns: Vec<u32>,
    pub(super) layout: BlockLayout,
    /// The argument registers that it writes, as bits.
    pub(super) sets_arguments: u8,
}

/// All executed instructions and blocks.
#[derive(Debug, Default)]
pub(super) struct Insns {
    insns: Vec<Insn>,
    by_pc: Hashed<u64, u32>,
    blocks: Vec<Block>,
    by_head: Hashed<u64, u32>,
}

impl Insns {
    /// Returns the number of instructions.
    pub(super) fn len(&self) -> u32 {
        self.insns.len() as u32
    }

    #[inline]
    pub(super) fn insn(&self, number: u32) -> &Insn {
        &self.insns[number as usize]
    }

    /// Returns the number of an executed instruction.
    pub(super) fn instruction_at(&self, pc: u64) -> Option<InstructionIx> {
        self.by_pc.get(&pc).map(|&number| InstructionIx(number))
    }

    #[inline]
    pub(super) fn block(&self, number: u32) -> &Block {
        &self.blocks[number as usize]
    }

    /// Returns the block of a head word, if it is known.
    #[inline]
    pub(super) fn known(&self, head: StepWord) -> Option<u32> {
        self.by_head.get(&head.0).copied()
    }

    /// Returns the block of a head word, decoding it if necessary; `None` if there is no such code.
    pub(super) fn block_for(
        &mut self,
        head: StepWord,
        code: &Code,
        factory: &mut InstructionInfoFactory,
    ) -> Option<u32> {
        if let Some(known) = self.known(head) {
            return Some(known);
        }
        let mut instructions = Vec::with_capacity(head.count().into());
        let mut pc = head.pc();
        for _ in 0..head.count().min(MAX_BLOCK as u8) {
            let instruction = code.decode(pc)?;
            pc = static_successor(&instruction).unwrap_or_else(|| instruction.next_ip());
            instructions.push(instruction);
        }
        let layout = BlockLayout::of(&instructions, factory);
        let insns: Vec<u32> =
            instructions.iter().map(|instruction| self.add(instruction, code, factory)).collect();
        let mut sets_arguments = 0;
        for &insn in &insns {
            for part in &self.insns[insn as usize].effects.defs {
                if let Some(n) = ARGUMENTS.iter().position(|argument| argument.granule == part.granule) {
                    sets_arguments |= 1 << n;
                }
            }
        }
        let number = self.blocks.len() as u32;
        self.blocks.push(Block { insns, layout, sets_arguments });
        self.by_head.insert(head.0, number);
        Some(number)
    }

    fn add(&mut self, instruction: &Instruction, code: &Code, factory: &mut InstructionInfoFactory) -> u32 {
        let pc = instruction.ip();
        if let Some(&known) = self.by_pc.get(&pc) {
            return known;
        }
        let transfer = match instruction.flow_control() {
            FlowControl::ConditionalBranch => ControlTransfer::Branch,
            FlowControl::UnconditionalBranch => ControlTransfer::Jump,
            FlowControl::IndirectBranch => ControlTransfer::IndirectJump,
            FlowControl::Call | FlowControl::IndirectCall if instruction.mnemonic() == Mnemonic::Call => {
                ControlTransfer::Call
            }
            FlowControl::Return => ControlTransfer::Return,
            _ => ControlTransfer::Next,
        };
        let number = self.insns.len() as u32;
        self.insns.push(Insn {
            pc,
            len: instruction.len() as u8,
            effects: Effects::of(instruction, factory),
            transfer,
            stub: code.is_stub(pc),
            pushes: instruction.mnemonic() == Mnemonic::Push,
            calls_stub: transfer == ControlTransfer::Call && code.is_stub(instruction.near_branch_target()),
        });
        self.by_pc.insert(pc, number);
        number
    }
}
