//! The words of an instruction trace by chunk: they are kept compressed, and are never needed all at once.

use unsnarl_model::ThreadIx;
use unsnarl_wire::{CHUNK_WORDS, OVERLAP_WORDS};

/// The source of the words of an instruction trace.
pub trait WordSource: std::fmt::Debug {
    /// Returns the number of words.
    fn len(&self) -> u64;

    /// Returns whether there are no words.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the words of a chunk of [`CHUNK_WORDS`] into `into`, followed by up to [`OVERLAP_WORDS`] words
    /// of the next chunk. Returns false if the work was cancelled: then nothing further is read, and the
    /// result is meaningless.
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

/// The current chunk.
#[derive(Debug, Default)]
pub(super) struct WordWindow {
    first: u64,
    words: Vec<u64>,
}

impl WordWindow {
    /// Moves to another chunk; returns false if the work was cancelled.
    pub(super) fn move_to(&mut self, words: &dyn WordSource, chunk: usize) -> bool {
        self.first = (chunk * CHUNK_WORDS) as u64;
        words.read(chunk, &mut self.words)
    }

    /// Returns the words from this one on.
    #[inline]
    pub(super) fn from(&self, word: u64) -> &[u64] {
        self.words.get((word - self.first) as usize..).unwrap_or_default()
    }
}

/// A position in the words.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordCursor {
    pub(super) word: u64,
    pub(super) step: u64,
    pub(super) exits: u32,
    pub(super) entries: u32,
    pub(super) thread: ThreadIx,
    pub(super) thread_pointer: u64,
    pub(super) events: u64,
}

impl WordCursor {
    /// Before the first word.
    pub(super) const START: Self =
        Self { word: 0, step: 0, exits: 0, entries: 0, thread: ThreadIx::MAIN, thread_pointer: 0, events: 0 };

    /// Updates the running thread from an entry record.
    pub(super) fn enter(&mut self, record: &[u64]) {
        self.thread = ThreadIx(record[4] as u16);
        self.events = record[4] >> 16;
        self.thread_pointer = record[5];
    }
}

/// A record of the trace, with the common properties of its steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceRecord {
    pub(super) at: WordCursor,
    pub(super) kind: RecordKind,
    pub(super) steps: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RecordKind {
    /// A block, and whether control left the traced code after it.
    Block(u32, bool),
    Exit(u32),
    Entry(u32),
}
