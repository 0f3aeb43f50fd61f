//! Shadow memory: where accesses are remembered.

use crate::Word;
use alloc::{collections::BTreeMap, vec::Vec};

/// One shadow word for each eight bytes of memory.
pub trait ShadowMemory {
    /// Returns the shadow word of these eight bytes, initially empty; `None` for memory that is not watched.
    fn word(&mut self, addr: u64) -> Option<&mut Word>;

    /// Clears the shadow words of these bytes.
    fn forget(&mut self, start: u64, end: u64);

    /// Called when the shadow word of these eight bytes is used for the first time.
    #[inline]
    fn first_use(&mut self, _addr: u64) {}
}

/// Sparse shadow for the addresses that appear in a trace.
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
