//! Steps: what was executed, one instruction after the other, as far as dependences go.
//!
//! The paper's s⟨t, T⟩: a statement (here a machine instruction, [`InstructionIx`]) executed at a time (the step's
//! number) by a thread. All threads run on one processor, so the numbers order all steps.

use unsnarl_insn::RegisterPart;
use unsnarl_model::ThreadIx;

/// A static instruction, by its number in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstructionIx(pub u32);

/// Some bytes of memory. Addresses beyond those of programs are cells of our own: the result of a call that
/// is under way, what a thread was started with, what a file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSpan {
    /// Where.
    pub addr: u64,
    /// How many.
    pub len: u64,
}

/// Above this there is no memory but our own cells.
pub const CELLS: u64 = 1 << 63;

impl ByteSpan {
    /// Some bytes.
    #[must_use]
    pub const fn new(addr: u64, len: u64) -> Self {
        Self { addr, len }
    }

    /// The groups of eight bytes that it touches, and which bytes of each.
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

/// How control passes at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the next instruction, or to where the code says.
    Next,
    /// To one of several places.
    Branch,
    /// Into a function; the stack pointer before it.
    Call(u64),
    /// Out of a function.
    Return,
    /// A function is entered from code that is not traced: a callback or a thread's routine. The step that
    /// called that code, if any did.
    Begin(Option<u64>),
    /// Control is where no branch led: an exception was caught, or somebody jumped out.
    Unwound {
        /// The stack pointer, if there are callees that did not return.
        stack: Option<u64>,
        /// The step that threw or jumped.
        by: Option<u64>,
    },
}

/// One executed instruction.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Its number.
    pub number: u64,
    /// Who.
    pub thread: ThreadIx,
    /// What.
    pub place: InstructionIx,
    /// How many events of the schedule came before.
    pub events: u64,
    /// How control passes.
    pub flow: Flow,
    /// Whether it only moves values: then who wants what it writes wants what it reads, and not itself.
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
    /// Whether that is a guess: nothing is known of what was called.
    pub guessed: bool,
    /// Memory that was just allocated: what was there before is gone.
    pub fresh: Option<ByteSpan>,
}

impl Step<'_> {
    /// Nothing, at this place.
    #[must_use]
    pub const fn new(number: u64, thread: ThreadIx, place: InstructionIx) -> Self {
        Self {
            number,
            thread,
            place,
            events: 0,
            flow: Flow::Next,
            copy: false,
            uses: &[],
            defs: &[],
            reads: &[],
            writes: &[],
            may_write: &[],
            guessed: false,
            fresh: None,
        }
    }
}

/// All steps of a run.
pub trait History {
    /// How many.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many threads executed any.
    fn threads(&self) -> u64;

    /// Shows the steps in the order of execution.
    fn forwards(&self, show: &mut dyn FnMut(&Step<'_>));

    /// Shows the steps up to and including `from`, latest first, for as long as `show` wants more.
    fn backwards(&self, from: u64, show: &mut dyn FnMut(&Step<'_>) -> bool);
}

/// Which branches decide whether an instruction is executed, within its function: static control dependence.
pub trait Control {
    /// A number for the instruction's basic block: instructions of one block depend on the same branches.
    fn block(&mut self, place: InstructionIx) -> u32;
    /// The function that it is in.
    fn function(&mut self, place: InstructionIx) -> u32;
    /// The branches that decide whether the block is executed.
    fn controlling_branches(&mut self, block: u32) -> &[InstructionIx];
    /// The registers that would have been written if the branch had not gone to `next`.
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
