//! Where the accesses to memory are remembered.

use crate::Word;
use alloc::{collections::BTreeMap, vec::Vec};

/// A word of shadow for each eight bytes of memory.
pub trait ShadowMemory {
    /// The word of these eight bytes, all empty if it is asked for the first time; none for memory that is not
    /// watched.
    fn word(&mut self, addr: u64) -> Option<&mut Word>;

    /// Empties the words of these bytes.
    fn forget(&mut self, start: u64, end: u64);

    /// The word of these eight bytes was empty and is not any more.
    #[inline]
    fn first_use(&mut self, _addr: u64) {}
}

/// Shadow for what a trace tells of, wherever it is.
#[derive(Debug, Default)]
pub struct SparseShadow(BTreeMap<u64, Word>);

impl ShadowMemory for SparseShadow {
    fn word(&mut self, addr: u64) -> Option<&mut Word> {
        Some(self.0.entry(addr).or_default())
    }

    fn forget(&mut self, start: u64, end: u64) {
        let words: Vec<u64> = self.0.range(start..end).map(|(&word, _)| word).collect();
        for word in words {
            self.0.remove(&word);
        }
    }
}
