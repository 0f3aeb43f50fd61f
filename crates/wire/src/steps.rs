//! The instruction trace as the runtime writes it: words of 64 bits, in the order of execution.
//!
//! ```text
//! block  the address of its first instruction, how many there are, then the samples that
//!        `unsnarl_insn::Layout` says such a block has
//! leave  control went to code that is not traced: where to; then LEAVE_WORDS
//! enter  control came back, or came by a callback or a new thread: where to; then ENTER_WORDS
//! fault  the instruction at this address, the latest one or in the latest block, faulted
//! signal the latest block was interrupted at this address for a signal handler; then SIGNAL_WORDS
//! ```
//!
//! Threads are switched only in code that is not traced, so who runs is told on entering.

use core::sync::atomic::{AtomicU64, Ordering};

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StepKind {
    /// Instructions were executed.
    Block,
    /// Control left the traced code.
    Leave,
    /// Control entered the traced code.
    Enter,
    /// An instruction faulted.
    Fault,
    /// A signal's handler comes in between.
    Signal,
}

/// After `leave`: rsp, rdi, rsi, rdx, rcx, r8, r9, rax.
pub const LEAVE_WORDS: usize = 8;
/// After `enter`: rsp, rax, rdx, the thread (16 bits) with the number of events so far, the thread pointer.
pub const ENTER_WORDS: usize = 5;
/// After `signal`: rsp.
pub const SIGNAL_WORDS: usize = 1;

/// The first word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct StepWord(pub u64);

impl StepWord {
    /// A record about this address; `count` instructions if it is a block.
    #[must_use]
    #[inline]
    pub const fn new(kind: StepKind, pc: u64, count: u8) -> Self {
        Self((pc & ((1 << 48) - 1)) | (count as u64) << 48 | (kind as u64) << 56)
    }

    /// The address.
    #[must_use]
    #[inline]
    pub const fn pc(self) -> u64 {
        self.0 & ((1 << 48) - 1)
    }

    /// How many instructions.
    #[must_use]
    #[inline]
    pub const fn count(self) -> u8 {
        (self.0 >> 48) as u8
    }

    /// What it is; none if the memory was damaged.
    #[must_use]
    #[inline]
    pub const fn kind(self) -> Option<StepKind> {
        Some(match self.0 >> 56 {
            0 => StepKind::Block,
            1 => StepKind::Leave,
            2 => StepKind::Enter,
            3 => StepKind::Fault,
            4 => StepKind::Signal,
            _ => return None,
        })
    }
}

/// Words of a trace that are compressed together.
pub const CHUNK_WORDS: usize = 1 << 17;

/// Words of the next chunk that are kept with a chunk: no record is longer, so that one that begins in a chunk is in
/// it as a whole, with the head of the one after it.
pub const OVERLAP_WORDS: usize = 1 << 10;

/// Words of a trace that the program may be ahead of who takes them away: so much memory is used again and again. It is
/// a multiple of [`CHUNK_WORDS`], and small enough to stay in a processor's cache.
pub const RING_WORDS: usize = CHUNK_WORDS << 4;

/// What a run is refused with whose trace does not fit.
pub const TRACE_FULL: &str =
    "the instruction trace is full; give it more room by --max-trace MIB, or slice a shorter run";

/// What translated code works with: it reaches these words through the GS segment. They are shared, so that what was
/// traced is known however the target dies.
#[repr(C)]
#[derive(Debug)]
pub struct TracerWords {
    /// The address, in the target, of the next word of the trace.
    pub next: AtomicU64,
    /// rax and rcx, while they are used for writing the trace.
    pub saved: [u64; 2],
    /// Where a jump by address goes.
    pub target: u64,
    /// 1 while control is in the traced code.
    pub inside: u64,
    /// The address, in the target, of the first word of the trace.
    pub first: u64,
    /// Where on the stack an address of translated code stands for a return address; 0 if nowhere.
    pub slot: u64,
    /// The original return address that an address of translated code stands for, where no call of ours pushed it.
    pub tail: u64,
    /// Who runs, as `enter` tells it: the thread with the number of events, and the thread pointer.
    pub running: [u64; 2],
    /// How many words the controller has taken away: their memory may be used again.
    pub consumed: AtomicU64,
    /// 1 when the controller does not want any more.
    pub stopped: AtomicU64,
}

impl TracerWords {
    /// Nothing traced.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            next: AtomicU64::new(0),
            saved: [0; 2],
            target: 0,
            inside: 0,
            first: 0,
            slot: 0,
            tail: 0,
            running: [0; 2],
            consumed: AtomicU64::new(0),
            stopped: AtomicU64::new(0),
        }
    }

    /// How many words were written.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.next.load(Ordering::Acquire).saturating_sub(self.first) / 8
    }
}

impl Default for TracerWords {
    fn default() -> Self {
        Self::new()
    }
}

/// How the instructions of a run are traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Tracing {
    /// Not at all.
    #[default]
    Off,
    /// By the processor's trap flag, one by one: the slow reference.
    Stepping,
    /// By translated code that writes the trace itself.
    Translated,
}

impl Tracing {
    /// By its number; off if there is none of this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Stepping,
            2 => Self::Translated,
            _ => Self::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_words_round_trip() {
        for kind in [StepKind::Block, StepKind::Leave, StepKind::Enter, StepKind::Fault, StepKind::Signal] {
            let word = StepWord::new(kind, 0x7fff_1234_5678, 255);
            assert_eq!((word.kind(), word.pc(), word.count()), (Some(kind), 0x7fff_1234_5678, 255));
        }
        assert_eq!(StepWord(u64::MAX).kind(), None);
    }
}
