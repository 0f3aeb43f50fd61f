//! The words of an instruction trace, taken away while the program still writes them, and compressed: the program
//! writes on one core, this is done on the other.
//!
//! The program writes on and on into memory that is used again as soon as it was taken away (the runtime's
//! `tracer/words.rs`), so that the memory needed is that of the compressed trace and a little more.

mod word_coding;

use crate::memory::LiveTrace;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use unsnarl_wire::{CHUNK_WORDS, OVERLAP_WORDS};

/// One of zstd's quickest levels: the program must not be held up, and most is done before.
const LEVEL: i32 = -1;

/// Told how many words there are so far.
pub type WordProgress<'a> = &'a (dyn Fn(u64) + Sync);

/// A compressed trace.
#[derive(Debug, Default)]
pub(crate) struct CompressedSteps {
    chunks: Vec<Box<[u8]>>,
    words: u64,
    bytes: u64,
}

impl CompressedSteps {
    /// Takes what is written until the program has ended; no more than so many bytes.
    pub(crate) fn take(
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
            let over = ended.load(Ordering::Acquire);
            // The latest record may not be complete yet.
            let settled = live.count().saturating_sub(if over { 0 } else { OVERLAP_WORDS as u64 });
            let first = (steps.chunks.len() * CHUNK_WORDS) as u64;
            let whole = first + (CHUNK_WORDS + OVERLAP_WORDS) as u64;
            if settled < whole && !over {
                std::thread::sleep(TICK);
                continue;
            }
            if settled <= first {
                break;
            }
            live.copy(first..whole.min(settled), &mut words);
            live.free(first + CHUNK_WORDS as u64);
            word_coding::encode(&words, &mut bytes);
            let Ok(compressed) = compressor.compress(&bytes) else { break };
            steps.bytes += compressed.len() as u64;
            steps.chunks.push(compressed.into());
            steps.words = settled;
            progress(settled);
            if steps.bytes > limit {
                live.stop();
            }
        }
        steps
    }

    pub(crate) fn len(&self) -> u64 {
        self.words
    }

    /// How many bytes they take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The words of a chunk and the first ones of the next.
    pub(crate) fn read(&self, chunk: usize, into: &mut Vec<u64>) {
        into.clear();
        let Some(compressed) = self.chunks.get(chunk) else { return };
        // A word that nothing foretells takes eight bytes and a half.
        let most = 9 * (CHUNK_WORDS + OVERLAP_WORDS) + 16;
        let bytes = zstd::bulk::decompress(compressed, most).unwrap_or_default();
        // What makes no sense is none: the words are missed by whoever reads them.
        let _ = word_coding::decode(&bytes, into);
    }
}
