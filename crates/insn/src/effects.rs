//! The registers that an instruction reads and writes.

use crate::{
    layout::writes,
    registers::{FLAGS, RegisterPart, part},
};
use alloc::vec::Vec;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

/// The kinds of pure copies: the consumers of a copy depend on its inputs, not on the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// No copy.
    No,
    /// Saves a register on the stack or restores it: the value belongs to its original writer.
    Saves,
    /// Sets up a frame pointer, which has no consumers.
    Frame,
}

/// The effects of an instruction on registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effects {
    /// The registers read, including address registers.
    pub uses: Vec<RegisterPart>,
    /// The registers written.
    pub defs: Vec<RegisterPart>,
    /// The kind of copy, if it is one.
    pub copy: CopyKind,
    /// True if it accesses memory by an atomic update.
    pub atomic: bool,
}

impl Effects {
    /// Computes the effects of this instruction.
    #[must_use]
    pub fn of(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Self {
        let mut effects = Self {
            uses: Vec::new(),
            defs: Vec::new(),
            copy: copy(instruction),
            atomic: is_atomic(instruction),
        };
        if effects.copy == CopyKind::Frame {
            effects.defs.extend(part(Register::RBP, true));
            return effects;
        }
        let clears = clears(instruction);
        for used in factory.info(instruction).used_registers() {
            let conditional = matches!(used.access(), OpAccess::CondWrite | OpAccess::ReadCondWrite);
            if writes(used.access()) {
                effects.defs.extend(part(used.register(), true));
            }
            // If the write may not happen, the previous contents remain visible.
            if reads(used.access()) && !clears || conditional {
                effects.uses.extend(part(used.register(), conditional));
            }
        }
        let flags = |bits: u32| RegisterPart { granule: FLAGS, mask: (bits & 0x7f) as u8 };
        let (read, modified) = (flags(instruction.rflags_read()), flags(instruction.rflags_modified()));
        if read.mask != 0 && !clears {
            effects.uses.push(read);
        }
        if modified.mask != 0 {
            effects.defs.push(modified);
        }
        effects
    }
}

const fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// Returns whether an instruction updates memory atomically: by a lock prefix, or as an exchange with memory does
/// without one.
fn is_atomic(instruction: &Instruction) -> bool {
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg
        && (0..instruction.op_count()).any(|n| instruction.op_kind(n) == OpKind::Memory);
    instruction.has_lock_prefix() || exchanges
}

fn copy(instruction: &Instruction) -> CopyKind {
    let register = |n| instruction.op_kind(n) == OpKind::Register;
    match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Pop if register(0) => CopyKind::Saves,
        Mnemonic::Mov
            if register(0)
                && register(1)
                && instruction.op0_register() == Register::RBP
                && instruction.op1_register() == Register::RSP =>
        {
            CopyKind::Frame
        }
        _ => CopyKind::No,
    }
}

/// Returns whether the result does not depend on the previous contents, as for `xor eax, eax`.
fn clears(instruction: &Instruction) -> bool {
    let same = |a: u32, b: u32| {
        instruction.op_kind(a) == OpKind::Register
            && instruction.op_kind(b) == OpKind::Register
            && instruction.op_register(a) == instruction.op_register(b)
    };
    match instruction.mnemonic() {
        Mnemonic::Xor | Mnemonic::Sub | Mnemonic::Pxor | Mnemonic::Xorps | Mnemonic::Xorpd => same(0, 1),
        Mnemonic::Vpxor | Mnemonic::Vxorps | Mnemonic::Vxorpd if instruction.op_count() == 3 => same(1, 2),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::gpr;
    use iced_x86::{Decoder, DecoderOptions};

    fn effects(code: &[u8]) -> Effects {
        let instruction = Decoder::with_ip(64, code, 0, DecoderOptions::NONE).decode();
        Effects::of(&instruction, &mut InstructionInfoFactory::new())
    }

    #[test]
    fn clearing_a_register_reads_nothing() {
        let effects = effects(&[0x31, 0xc0]);
        assert_eq!(effects.uses, []);
        assert!(effects.defs.contains(&gpr(0)));
    }

    #[test]
    fn conditional_move_reads_its_destination() {
        // cmovne eax, edx
        let effects = effects(&[0x0f, 0x45, 0xc2]);
        assert!(effects.uses.iter().any(|p| p.granule == 0) && effects.uses.iter().any(|p| p.granule == 2));
        assert!(effects.uses.contains(&RegisterPart { granule: FLAGS, mask: 4 }));
    }

    #[test]
    fn stack_pointer_is_not_tracked() {
        // push rbx
        let effects = effects(&[0x53]);
        assert_eq!(
            (effects.uses, effects.defs, effects.copy),
            (alloc::vec![gpr(3)], alloc::vec![], CopyKind::Saves)
        );
    }
}
