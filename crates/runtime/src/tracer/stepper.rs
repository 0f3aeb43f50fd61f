//! Tracing by the trap flag: the processor traps after each instruction. Before the next one, its address and
//! operands' addresses are logged. Slow but simple: the reference.

use super::{Registers, text::TracedText, words::Words};
use alloc::{vec, vec::Vec};
use unsnarl_insn::{
    Address, BlockLayout,
    iced::{Decoder, DecoderOptions, InstructionInfoFactory, Mnemonic, Register},
};
use unsnarl_wire::{StepKind, StepWord};

const TRAP_FLAG: i64 = 1 << 8;

/// A decoded instruction.
#[derive(Clone)]
struct DecodedInstruction {
    samples: Vec<Address>,
    /// True if it traps after each repetition.
    repeats: bool,
    /// The mnemonic if it loads or stores the flags, and with them the trap flag.
    flags: Option<Mnemonic>,
}

pub(super) struct Stepper {
    /// For each byte of the text: 1 + the index of the instruction there, if it is known; else 0.
    segments: Vec<(u64, Vec<u32>)>,
    known: Vec<DecodedInstruction>,
    factory: InstructionInfoFactory,
    /// The address of the latest instruction, and whether it may be repeated.
    last: (u64, bool),
    /// True after a `pushf`, whose copy of the trap flag must be cleared.
    pushed_flags: bool,
}

/// Stops single-stepping.
pub(super) fn stop(registers: &mut Registers) {
    registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
}

impl Stepper {
    pub(super) fn new(text: &TracedText) -> Self {
        let table = |segment: &core::ops::Range<u64>| {
            (segment.start, vec![0; (segment.end - segment.start) as usize])
        };
        Self {
            segments: text.segments().iter().map(table).collect(),
            known: Vec::new(),
            factory: InstructionInfoFactory::new(),
            last: (0, false),
            pushed_flags: false,
        }
    }

    /// Begins after control entered from elsewhere.
    pub(super) fn begin(&mut self) {
        self.last = (0, false);
        self.pushed_flags = false;
    }

    /// Returns whether the latest instruction is a debug trap of the program (`icebp`).
    pub(super) fn is_at_debug_trap(&self) -> bool {
        const DEBUG_TRAP: u8 = 0xf1;
        let (pc, _) = self.last;
        // SAFETY: an instruction was read from there.
        pc != 0 && unsafe { *(pc as *const u8) } == DEBUG_TRAP
    }

    /// Logs the instruction that is about to be executed, and makes it trap.
    pub(super) fn step(&mut self, registers: &mut Registers, words: &mut Words) {
        registers[libc::REG_EFL as usize] |= TRAP_FLAG;
        let pc = registers[libc::REG_RIP as usize] as u64;
        let stack = registers[libc::REG_RSP as usize] as *mut i64;
        if core::mem::take(&mut self.pushed_flags) {
            // SAFETY: the word that the instruction just pushed.
            unsafe { *stack &= !TRAP_FLAG };
        }
        if self.last == (pc, true) {
            return;
        }
        let known = self.known(pc);
        let known = &self.known[known];
        let mut record = [0; 1 + 8];
        record[0] = StepWord::new(StepKind::Block, pc, 1).0;
        let samples = known.samples.iter().map(|address| address.value(|r| value(registers, r)));
        let len = 1 + record[1..].iter_mut().zip(samples).map(|(word, sample)| *word = sample).count();
        words.append(&record[..len]);
        match known.flags {
            Some(Mnemonic::Pushfq) => self.pushed_flags = true,
            // SAFETY: the word that the instruction is about to pop.
            Some(_) => unsafe { *stack |= TRAP_FLAG },
            None => {}
        }
        self.last = (pc, known.repeats);
    }

    fn known(&mut self, pc: u64) -> usize {
        let Self { segments, known, factory, .. } = self;
        let Some((start, table)) =
            segments.iter_mut().find(|(start, table)| pc.wrapping_sub(*start) < table.len() as u64)
        else {
            // Not called for such addresses.
            return 0;
        };
        let table_end = *start + table.len() as u64;
        let entry = &mut table[(pc - *start) as usize];
        if *entry == 0 {
            let left = table_end.min(pc + 15) - pc;
            known.push(decode(pc, left as usize, factory));
            *entry = known.len() as u32;
        }
        *entry as usize - 1
    }
}

fn decode(pc: u64, left: usize, factory: &mut InstructionInfoFactory) -> DecodedInstruction {
    // SAFETY: within the segment, which is readable.
    let bytes = unsafe { core::slice::from_raw_parts(pc as *const u8, left) };
    let instruction = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
    let layout = BlockLayout::of(&[instruction], factory);
    DecodedInstruction {
        samples: layout.samples.iter().map(|sample| sample.address).collect(),
        repeats: instruction.is_string_instruction()
            && (instruction.has_rep_prefix() || instruction.has_repne_prefix()),
        flags: Some(instruction.mnemonic()).filter(|m| matches!(m, Mnemonic::Pushfq | Mnemonic::Popfq)),
    }
}

/// Returns the value of a general register.
fn value(registers: &Registers, register: Register) -> u64 {
    let at = match register {
        Register::RAX => libc::REG_RAX,
        Register::RCX => libc::REG_RCX,
        Register::RDX => libc::REG_RDX,
        Register::RBX => libc::REG_RBX,
        Register::RSP => libc::REG_RSP,
        Register::RBP => libc::REG_RBP,
        Register::RSI => libc::REG_RSI,
        Register::RDI => libc::REG_RDI,
        Register::R8 => libc::REG_R8,
        Register::R9 => libc::REG_R9,
        Register::R10 => libc::REG_R10,
        Register::R11 => libc::REG_R11,
        Register::R12 => libc::REG_R12,
        Register::R13 => libc::REG_R13,
        Register::R14 => libc::REG_R14,
        _ => libc::REG_R15,
    };
    registers[at as usize] as u64
}
