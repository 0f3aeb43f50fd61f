//! Compresses the words of an instruction trace while the program still writes them: the program runs on one core and
//! the compression on another.
//!
//! The program writes into a ring that is reused as soon as its words are read (the runtime's `tracer/words.rs`), so
//! the trace needs little more memory than its compressed form.

mod word_coding;

use crate::memory::LiveTrace;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use unsnarl_wire::{CHUNK_WORDS, OVERLAP_WORDS};

/// One of zstd's fastest levels: the program must not be slowed down, and value prediction has removed most redundancy
/// before.
const LEVEL: i32 = -1;

/// Called with the number of words so far.
pub type WordProgress<'a> = &'a (dyn Fn(u64) + Sync);

/// A compressed trace.
#[derive(Debug, Default)]
pub(crate) struct CompressedSteps {
    chunks: Vec<Box<[u8]>>,
    words: u64,
    bytes: u64,
}

impl CompressedSteps {
    /// Reads words until the program has ended, up to `limit` compressed bytes.
    pub(crate) fn collect(
        live: &LiveTrace<'_>,
        ended: &AtomicBool,
        limit: u64,
        progress: WordProgress<'_>,
    ) -> Self {
        const TICK: Duration = Duration::from_micros(200);
        let mut steps = Self::default();
        let Ok(mut compressor) = zstd::bulk::Compressor::new(LEVEL) else {
            live.stop();
            return steps;
        };
        let (mut words, mut bytes) = (Vec::new(), Vec::new());
        loop {
            let has_ended = ended.load(Ordering::Acquire);
            // The latest record may not be complete yet.
            let complete_words =
                live.count().saturating_sub(if has_ended { 0 } else { OVERLAP_WORDS as u64 });
            let first = (steps.chunks.len() * CHUNK_WORDS) as u64;
            let whole = first + (CHUNK_WORDS + OVERLAP_WORDS) as u64;
            if complete_words < whole && !has_ended {
                std::thread::sleep(TICK);
                continue;
            }
            if complete_words <= first {
                break;
            }
            live.copy(first..whole.min(complete_words), &mut words);
            live.free(first + CHUNK_WORDS as u64);
            word_coding::encode(&words, &mut bytes);
            let Ok(compressed) = compressor.compress(&bytes) else { break };
            steps.bytes += compressed.len() as u64;
            steps.chunks.push(compressed.into());
            steps.words = complete_words;
            progress(complete_words);
            if steps.bytes > limit {
                live.stop();
            }
        }
        steps
    }

    pub(crate) fn len(&self) -> u64 {
        self.words
    }

    /// Returns the compressed size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the words of a chunk and the first ones of the next.
    pub(crate) fn read(&self, chunk: usize, into: &mut Vec<u64>) {
        into.clear();
        let Some(compressed) = self.chunks.get(chunk) else { return };
        // A literal takes eight bytes and a half.
        let most = 9 * (CHUNK_WORDS + OVERLAP_WORDS) + 16;
        let bytes = zstd::bulk::decompress(compressed, most).unwrap_or_default();
        // Corrupt data decode to fewer words; the reader notices that they are missing.
        let _ = word_coding::decode(&bytes, into);
    }
}
