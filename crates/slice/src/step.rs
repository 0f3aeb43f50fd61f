//! Steps: the executed instructions with the information needed for dependences.
//!
//! The paper's s⟨t, T⟩: a statement (here a machine instruction, [`InstructionIx`]) executed at a time (the
//! step's number) by a thread. All threads run on one processor, so the numbers order all steps.

use unsnarl_insn::RegisterPart;
use unsnarl_model::ThreadIx;

/// A static instruction, by its number in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstructionIx(pub u32);

/// A range of memory. Addresses beyond those of programs are pseudo-cells: the result of a call in progress,
/// the argument of a new thread, the contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSpan {
    /// The first address.
    pub addr: u64,
    /// The number of bytes.
    pub len: u64,
}

/// Addresses from here on are pseudo-cells.
pub const CELLS: u64 = 1 << 63;

impl ByteSpan {
    /// Builds a range.
    #[must_use]
    pub const fn new(addr: u64, len: u64) -> Self {
        Self { addr, len }
    }

    /// Iterates over the groups of eight bytes that it touches, with a mask of the bytes in each.
    pub fn granules(self) -> impl Iterator<Item = (u64, u8)> {
        let end = self.addr.saturating_add(self.len);
        let last = if self.len == 0 { 0 } else { (end - 1) / 8 + 1 };
        (self.addr / 8..last).map(move |granule| {
            let from = self.addr.max(granule * 8) - granule * 8;
            let to = end.min(granule * 8 + 8) - granule * 8;
            (granule, ((1u16 << to) - (1u16 << from)) as u8)
        })
    }
}

/// The control flow at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the next instruction, or to a target determined by the code.
    Next,
    /// To one of several targets.
    Branch,
    /// Into a function, with the stack pointer before the call.
    Call(u64),
    /// Out of a function.
    Return,
    /// A function is entered from untraced code: a callback or a thread's routine. Holds the step that called
    /// that code, if any.
    Begin(Option<u64>),
    /// Control arrived without a branch: an exception was caught, or a long jump was made.
    Unwound {
        /// The stack pointer, if there are callees that did not return.
        stack: Option<u64>,
        /// The step that threw or jumped.
        by: Option<u64>,
    },
}

/// One executed instruction.
#[derive(Clone, Copy, Debug)]
pub struct InstructionStep<'a> {
    pub number: u64,
    /// The executing thread.
    pub thread: ThreadIx,
    /// The instruction.
    pub instruction: InstructionIx,
    /// The number of earlier schedule events.
    pub events: u64,
    pub flow: Flow,
    /// A pure copy: its consumers depend on its inputs, not on this step.
    pub copy: bool,
    /// Registers read.
    pub uses: &'a [RegisterPart],
    /// Registers written.
    pub defs: &'a [RegisterPart],
    /// Memory read.
    pub reads: &'a [ByteSpan],
    /// Memory written.
    pub writes: &'a [ByteSpan],
    /// Memory that may have been written.
    pub may_write: &'a [ByteSpan],
    /// True if `may_write` is a guess, because nothing is known about the called function.
    pub guessed: bool,
    /// True if the memory is accessed by an atomic operation, which races with no other one.
    pub atomic: bool,
    /// Newly allocated memory: its previous contents are gone.
    pub fresh: Option<ByteSpan>,
}

impl InstructionStep<'_> {
    /// Builds a step without effects at this instruction.
    #[must_use]
    pub const fn new(number: u64, thread: ThreadIx, instruction: InstructionIx) -> Self {
        Self {
            number,
            thread,
            instruction,
            events: 0,
            flow: Flow::Next,
            copy: false,
            uses: &[],
            defs: &[],
            reads: &[],
            writes: &[],
            may_write: &[],
            guessed: false,
            atomic: false,
            fresh: None,
        }
    }
}

/// All steps of a run.
pub trait History {
    /// Returns the number of steps.
    fn len(&self) -> u64;

    /// Returns whether there are no steps.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of threads that executed any step.
    fn threads(&self) -> u64;

    /// Visits the steps in the order of execution.
    fn forwards(&self, visit: &mut dyn FnMut(&InstructionStep<'_>));

    /// Visits the steps up to and including `from`, latest first, while `visit` returns true.
    fn backwards(&self, from: u64, visit: &mut dyn FnMut(&InstructionStep<'_>) -> bool);
}

/// Static control dependence: the branches that control an instruction within its function.
pub trait Control {
    /// Returns the number of the instruction's basic block: instructions of one block depend on the same
    /// branches.
    fn block(&mut self, instruction: InstructionIx) -> u32;
    /// Returns the function of the instruction.
    fn function(&mut self, instruction: InstructionIx) -> u32;
    /// Returns the branches that control the block.
    fn controlling_branches(&mut self, block: u32) -> &[InstructionIx];
    /// Returns the registers that would have been written if the branch had not gone to `next`.
    fn skipped(&mut self, branch: InstructionIx, next: InstructionIx) -> Vec<RegisterPart> {
        let _ = (branch, next);
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_split_into_granules() {
        let cut = |addr, len| ByteSpan::new(addr, len).granules().collect::<Vec<_>>();
        assert_eq!(cut(8, 8), [(1, 0xff)]);
        assert_eq!(cut(6, 4), [(0, 0b1100_0000), (1, 0b11)]);
        assert_eq!(cut(16, 1), [(2, 1)]);
        assert_eq!(cut(16, 0), []);
    }
}
