//! The words of an instruction trace, a chunk at a time: they are kept compressed, and nobody needs all of them at
//! once.

use unsnarl_model::ThreadIx;
use unsnarl_wire::{CHUNK_WORDS, OVERLAP_WORDS};

/// Where the words of an instruction trace come from.
pub trait WordSource: std::fmt::Debug {
    /// How many there are.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts the words of a chunk of [`CHUNK_WORDS`] there, and after them as many of the next as
    /// [`OVERLAP_WORDS`] says, as far as there are so many. False if what is being worked out is no longer wanted: then
    /// nothing further is read, and what comes of it is worth nothing.
    fn read(&self, chunk: usize, into: &mut Vec<u64>) -> bool;
}

impl WordSource for Vec<u64> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read(&self, chunk: usize, into: &mut Vec<u64>) -> bool {
        into.clear();
        let first = chunk * CHUNK_WORDS;
        let end = (first + CHUNK_WORDS + OVERLAP_WORDS).min(self.as_slice().len());
        into.extend_from_slice(&self[first..end]);
        true
    }
}

/// A chunk that is being looked at.
#[derive(Debug, Default)]
pub(super) struct WordWindow {
    first: u64,
    words: Vec<u64>,
}

impl WordWindow {
    /// Goes to another chunk; false if nobody wants to know.
    pub(super) fn move_to(&mut self, words: &dyn WordSource, chunk: usize) -> bool {
        self.first = (chunk * CHUNK_WORDS) as u64;
        words.read(chunk, &mut self.words)
    }

    /// The words from here on.
    #[inline]
    pub(super) fn from(&self, word: u64) -> &[u64] {
        self.words.get((word - self.first) as usize..).unwrap_or_default()
    }
}

/// Where one is in the words.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordCursor {
    pub(super) word: u64,
    pub(super) step: u64,
    pub(super) left: u32,
    pub(super) entered: u32,
    pub(super) thread: ThreadIx,
    pub(super) thread_pointer: u64,
    pub(super) events: u64,
}

impl WordCursor {
    /// Before the first word.
    pub(super) const START: Self =
        Self { word: 0, step: 0, left: 0, entered: 0, thread: ThreadIx::MAIN, thread_pointer: 0, events: 0 };

    /// Who runs from an entering record on.
    pub(super) fn enter(&mut self, record: &[u64]) {
        self.thread = ThreadIx(record[4] as u16);
        self.events = record[4] >> 16;
        self.thread_pointer = record[5];
    }
}

/// A record of the trace, with all that its steps have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceRecord {
    pub(super) at: WordCursor,
    pub(super) kind: RecordKind,
    pub(super) steps: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RecordKind {
    /// A block; whether control left the traced code after it.
    Block(u32, bool),
    ExitRecord(u32),
    EntryRecord(u32),
}
