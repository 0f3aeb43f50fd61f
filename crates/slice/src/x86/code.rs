//! The traced code from the program's files.

use std::{collections::HashMap, ops::Range};
use unsnarl_insn::iced::{Decoder, DecoderOptions, Instruction};

/// The traced code, at the addresses of the run.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// Executable bytes.
    pub segments: Vec<CodeSegment>,
    /// Functions of the symbol table, sorted by start address.
    pub functions: Vec<Function>,
    /// Stubs by which functions of other modules are called.
    pub stubs: Vec<Range<u64>>,
    /// Words that the loader fills with the address of a function of another module, by address.
    pub slots: HashMap<u64, String>,
    /// Words that the loader fills with the address of a function of the same module, by address.
    pub local_slots: HashMap<u64, u64>,
}

/// Executable bytes.
#[derive(Clone, Debug)]
pub struct CodeSegment {
    /// The load address.
    pub start: u64,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The start address.
    pub start: u64,
    /// The end address.
    pub end: u64,
    /// The symbol.
    pub name: String,
}

impl Code {
    /// Decodes the instruction at an address.
    #[must_use]
    pub fn decode(&self, pc: u64) -> Option<Instruction> {
        let segment = self.segments.iter().find(|s| pc.wrapping_sub(s.start) < s.bytes.len() as u64)?;
        let bytes = &segment.bytes[(pc - segment.start) as usize..];
        let instruction =
            Decoder::with_ip(64, &bytes[..bytes.len().min(15)], pc, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// Returns whether the address is in a stub.
    #[must_use]
    pub fn is_stub(&self, pc: u64) -> bool {
        self.stubs.iter().any(|range| range.contains(&pc))
    }

    /// Returns the function at an address. A split-off cold part belongs to its original function.
    #[must_use]
    pub fn function(&self, pc: u64) -> Option<&Function> {
        let at = self.functions.partition_point(|function| function.start <= pc);
        // Several symbols may begin at one address.
        let found = self.functions[..at].iter().rev().take(8).find(|f| f.end > pc)?;
        match found.name.split_once(".cold") {
            Some((hot, _)) => self.functions.iter().find(|f| f.name == hot).or(Some(found)),
            None => Some(found),
        }
    }

    /// Returns whether a function begins there, and not merely a part of one.
    #[must_use]
    pub fn begins_function(&self, pc: u64) -> bool {
        let at = self.functions.partition_point(|function| function.start < pc);
        self.functions[at..].iter().take_while(|f| f.start == pc).any(|f| !f.name.contains(".cold"))
    }

    /// Returns the target of a jump or call within its module, if it is certain: direct, or through a word
    /// that the loader fills.
    #[must_use]
    pub fn known_target(&self, instruction: &Instruction) -> Option<u64> {
        if instruction.is_ip_rel_memory_operand() {
            return self.local_slots.get(&instruction.ip_rel_memory_address()).copied();
        }
        Some(instruction.near_branch_target()).filter(|&target| target != 0)
    }

    /// Returns the name of the other module's function that a jump or call leads to: through a stub, or
    /// directly through the word that the loader fills.
    #[must_use]
    pub fn imported(&self, instruction: &Instruction) -> Option<&str> {
        if instruction.is_ip_rel_memory_operand() {
            return self.slots.get(&instruction.ip_rel_memory_address()).map(String::as_str);
        }
        let target = instruction.near_branch_target();
        if target == 0 || !self.is_stub(target) {
            return None;
        }
        let mut pc = target;
        for _ in 0..4 {
            let stub = self.decode(pc)?;
            if stub.is_ip_rel_memory_operand() {
                return self.slots.get(&stub.ip_rel_memory_address()).map(String::as_str);
            }
            pc = stub.next_ip();
        }
        None
    }
}
