//! The words that a block of instructions writes to an instruction trace.
//!
//! There is one word for each distinct pair of address registers, as long as nothing writes them: `[rbx+8]`
//! and `[rbx+16]` share one. Pushes, pops and additions move the stack pointer by amounts known from the
//! code.

use alloc::vec::Vec;
use iced_x86::{
    Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory, UsedRegister,
};

/// A sampled value: `base + index * scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// A full general register, or none.
    pub base: Register,
    /// A full general register, or none.
    pub index: Register,
    /// 1, 2, 4 or 8.
    pub scale: u8,
}

impl Address {
    const fn of(register: Register) -> Self {
        Self { base: register, index: Register::None, scale: 1 }
    }

    fn uses(self, register: Register) -> bool {
        register != Register::None && (self.base == register || self.index == register)
    }

    /// Computes the value from the registers.
    pub fn value(self, mut register: impl FnMut(Register) -> u64) -> u64 {
        let base = if self.base == Register::None { 0 } else { register(self.base) };
        let index = if self.index == Register::None { 0 } else { register(self.index) };
        base.wrapping_add(index.wrapping_mul(self.scale.into()))
    }
}

/// A word of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The instruction of the block before which it is taken.
    pub at: u8,
    /// The sampled value.
    pub address: Address,
}

/// A memory operand, explicit or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// The sample that the address is relative to; `None` if the code itself determines the address.
    pub sample: Option<u8>,
    /// The offset from that sample, or the address.
    pub offset: u64,
    /// True if it is relative to the thread's own storage.
    pub thread_local: bool,
    /// The number of bytes.
    pub size: u32,
    pub read: bool,
    /// True if it is written, or may be.
    pub write: bool,
    /// True if it is certainly written.
    pub certain: bool,
    /// The sample with the number of repetitions.
    pub repeated: Option<u8>,
}

/// The words of one block, and their uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockLayout {
    /// In the order in which they are taken.
    pub samples: Vec<Sample>,
    /// The memory operands of each instruction.
    pub memories: Vec<Vec<MemoryAccess>>,
    /// For each calling instruction: the sample of the stack pointer before the call, and the offset from it.
    pub stack: Vec<Option<(u8, u64)>>,
}

impl BlockLayout {
    /// Computes the layout of a block.
    #[must_use]
    pub fn of(block: &[Instruction], factory: &mut InstructionInfoFactory) -> Self {
        let mut layout = Self::default();
        let mut live = LiveSamples::default();
        for (at, instruction) in block.iter().enumerate() {
            let info = factory.info(instruction);
            let mut memories = Vec::new();
            let mut stack = None;
            let returns = instruction.mnemonic() == Mnemonic::Ret;
            let calls = instruction.mnemonic() == Mnemonic::Call;
            let repeated = (is_repeated(instruction))
                .then(|| layout.sample(&mut live, at, Address::of(Register::RCX)).0);
            for used in info.used_memory() {
                if !is_access(used) || returns {
                    continue;
                }
                let is_return_address = calls && used.base() == Register::RSP && writes(used.access());
                let memory = layout.memory(&mut live, at, used, repeated);
                if is_return_address {
                    stack = memory.sample.map(|sample| (sample, memory.offset.wrapping_add(8)));
                } else {
                    memories.push(memory);
                }
            }
            layout.memories.push(memories);
            layout.stack.push(stack);
            live.apply(instruction, info.used_registers());
        }
        layout
    }

    /// Returns the number of words after the block's head.
    #[must_use]
    pub fn words(&self) -> usize {
        self.samples.len()
    }

    fn memory(
        &mut self,
        live: &mut LiveSamples,
        at: usize,
        used: &UsedMemory,
        repeated: Option<u8>,
    ) -> MemoryAccess {
        let address = Address {
            base: used.base().full_register(),
            index: used.index().full_register(),
            scale: used.scale() as u8,
        };
        let (sample, delta) = if address.base == Register::None && address.index == Register::None {
            (None, 0)
        } else {
            let (sample, delta) = self.sample(live, at, address);
            (Some(sample), delta)
        };
        MemoryAccess {
            sample,
            offset: used.displacement().wrapping_add(delta),
            thread_local: used.segment() == Register::FS,
            size: used.memory_size().size() as u32,
            read: matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            ),
            write: writes(used.access()),
            certain: matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite),
            repeated,
        }
    }

    /// Returns the sample of an address, taking a new one only if there is none; also the movement of its
    /// registers since.
    fn sample(&mut self, live: &mut LiveSamples, at: usize, address: Address) -> (u8, u64) {
        if let Some(live) = live.samples.iter().find(|live| live.address == address) {
            return (live.sample, live.moved);
        }
        let sample = self.samples.len() as u8;
        self.samples.push(Sample { at: at as u8, address });
        live.samples.push(LiveSample { address, sample, moved: 0 });
        (sample, 0)
    }
}

/// Samples whose registers still have the sampled value, or differ from it by a known amount.
#[derive(Default)]
struct LiveSamples {
    samples: Vec<LiveSample>,
}

struct LiveSample {
    address: Address,
    sample: u8,
    moved: u64,
}

impl LiveSamples {
    fn apply(&mut self, instruction: &Instruction, registers: &[UsedRegister]) {
        for used in registers.iter().filter(|used| writes(used.access())) {
            let register = used.register().full_register();
            match (register, stack_step(instruction)) {
                (Register::RSP, Some(step)) => {
                    self.samples.retain(|live| live.address.index != Register::RSP);
                    for live in self.samples.iter_mut().filter(|live| live.address.base == Register::RSP) {
                        live.moved = live.moved.wrapping_add(step);
                    }
                }
                _ => self.samples.retain(|live| !live.address.uses(register)),
            }
        }
    }
}

/// Returns how far an instruction moves the stack pointer, if the code determines it.
fn stack_step(instruction: &Instruction) -> Option<u64> {
    let to_rsp = instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::RSP;
    match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Call => Some(i64::from(instruction.stack_pointer_increment()) as u64),
        Mnemonic::Pop if !to_rsp => Some(i64::from(instruction.stack_pointer_increment()) as u64),
        Mnemonic::Add | Mnemonic::Sub if to_rsp && is_immediate(instruction.op1_kind()) => {
            let amount = instruction.immediate(1);
            Some(if instruction.mnemonic() == Mnemonic::Add { amount } else { amount.wrapping_neg() })
        }
        Mnemonic::Lea
            if to_rsp
                && instruction.memory_base() == Register::RSP
                && instruction.memory_index() == Register::None =>
        {
            Some(instruction.memory_displacement64())
        }
        _ => None,
    }
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(kind, OpKind::Immediate8to64 | OpKind::Immediate32to64)
}

/// Returns whether a string instruction is repeated by the count in `rcx`.
pub(crate) fn is_repeated(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

fn is_access(used: &UsedMemory) -> bool {
    // Gathers and scatters have an address for each lane and are not followed.
    used.vsib_size() == 0 && !matches!(used.access(), OpAccess::NoMemAccess | OpAccess::None)
}

pub(crate) const fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};
    extern crate std;

    fn layout(code: &[u8]) -> BlockLayout {
        let block: Vec<Instruction> =
            Decoder::with_ip(64, code, 0x40_1000, DecoderOptions::NONE).iter().collect();
        BlockLayout::of(&block, &mut InstructionInfoFactory::new())
    }

    #[test]
    fn operands_with_same_base_share_a_sample() {
        // mov eax,[rbx+8]; mov [rbx+16],eax
        let layout = layout(&[0x8b, 0x43, 0x08, 0x89, 0x43, 0x10]);
        assert_eq!(layout.words(), 1);
        assert_eq!((layout.memories[0][0].offset, layout.memories[0][0].read), (8, true));
        assert_eq!((layout.memories[1][0].offset, layout.memories[1][0].write), (16, true));
    }

    #[test]
    fn written_register_is_sampled_again() {
        // mov rbx,[rbx]; mov rax,[rbx]
        let layout = layout(&[0x48, 0x8b, 0x1b, 0x48, 0x8b, 0x03]);
        assert_eq!(layout.samples.iter().map(|s| s.at).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn pushes_move_stack_pointer_by_known_amounts() {
        // push rbx; sub rsp,16; mov [rsp+4],eax; add rsp,16; pop rbx
        let layout =
            layout(&[0x53, 0x48, 0x83, 0xec, 0x10, 0x89, 0x44, 0x24, 0x04, 0x48, 0x83, 0xc4, 0x10, 0x5b]);
        assert_eq!(layout.words(), 1);
        let offsets: Vec<i64> = layout.memories.iter().flatten().map(|memory| memory.offset as i64).collect();
        assert_eq!(offsets, [-8, -8 - 16 + 4, -8]);
    }

    #[test]
    fn static_addresses_need_no_sample_and_calls_record_stack_pointer() {
        // mov eax,[rip+0x10]; call $+5
        let layout = layout(&[0x8b, 0x05, 0x10, 0, 0, 0, 0xe8, 0, 0, 0, 0]);
        assert_eq!(layout.memories[0][0].sample, None);
        assert_eq!(layout.memories[0][0].offset, 0x40_1016);
        assert_eq!(layout.words(), 1);
        assert_eq!(layout.stack[1], Some((0, 0)));
    }
}
