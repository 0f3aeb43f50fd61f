//! The instruction trace as the runtime writes it: 64-bit words in execution order.
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
//! Threads are switched only in untraced code, so the `enter` record names the running thread.

use core::sync::atomic::{AtomicU64, Ordering};

/// The kind of a record.
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
    /// A signal handler interrupts.
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
    /// Creates a record about this address; `count` is the number of instructions of a block.
    #[must_use]
    #[inline]
    pub const fn new(kind: StepKind, pc: u64, count: u8) -> Self {
        Self((pc & ((1 << 48) - 1)) | (count as u64) << 48 | (kind as u64) << 56)
    }

    /// Returns the address.
    #[must_use]
    #[inline]
    pub const fn pc(self) -> u64 {
        self.0 & ((1 << 48) - 1)
    }

    /// Returns the number of instructions.
    #[must_use]
    #[inline]
    pub const fn count(self) -> u8 {
        (self.0 >> 48) as u8
    }

    /// Returns the kind; `None` if the memory was damaged.
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

/// The number of words that are compressed together.
pub const CHUNK_WORDS: usize = 1 << 17;

/// The number of words of the next chunk that are kept with a chunk. No record is longer, so a record that
/// begins in a chunk is completely in it, with the head of the next one.
pub const OVERLAP_WORDS: usize = 1 << 10;

/// The number of words by which the program may be ahead of the controller: this much memory is reused again
/// and again. It is a multiple of [`CHUNK_WORDS`], and small enough to stay in a processor's cache.
pub const RING_WORDS: usize = CHUNK_WORDS << 4;

/// The message for a run whose trace does not fit.
pub const TRACE_FULL: &str =
    "the instruction trace is full; give it more room by --max-trace MIB, or slice a shorter run";

/// The words of translated code, which it reaches through the GS segment. They are shared, so that the trace
/// is known however the target dies.
#[repr(C)]
#[derive(Debug)]
pub struct TracerWords {
    /// The address, in the target, of the next word of the trace.
    pub next: AtomicU64,
    /// rax and rcx, while they are used for writing the trace.
    pub saved: [u64; 2],
    /// The target of an indirect jump.
    pub target: u64,
    /// 1 while control is in the traced code.
    pub inside: u64,
    /// The address, in the target, of the first word of the trace.
    pub first: u64,
    /// The address of the stack word that holds a return address in translated code; 0 if there is none.
    pub slot: u64,
    /// The original return address of a tail call, whose return address in translated code was not pushed by
    /// a translated call.
    pub tail: u64,
    /// The running thread as in an `enter` record: the thread with the number of events, and the thread
    /// pointer.
    pub running: [u64; 2],
    /// The number of words that the controller has consumed: their memory may be reused.
    pub consumed: AtomicU64,
    /// 1 when the controller accepts no more words.
    pub stopped: AtomicU64,
}

impl TracerWords {
    /// Creates the words of an empty trace.
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

    /// Returns the number of words written.
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

/// The method by which a run's instructions are traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Tracing {
    /// Not traced.
    #[default]
    Off,
    /// By the processor's trap flag, one by one: the slow reference.
    Stepping,
    /// By translated code that writes the trace itself.
    Translated,
}

impl Tracing {
    /// Returns the method of this number; off if there is none.
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
