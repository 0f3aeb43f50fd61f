//! Blocks of memory: which accesses to an address were to the same object.

use crate::ByteRange;
use alloc::{collections::BTreeMap, vec::Vec};

/// The blocks that were allocated or freed, each with the number of its generation.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// By first address: the end and the generation.
    blocks: BTreeMap<u64, (u64, u32)>,
    generations: u32,
}

impl Blocks {
    /// Returns the generation of the memory at this address; 0 if it is in no block.
    #[must_use]
    pub fn generation(&self, addr: u64) -> u32 {
        if self.blocks.is_empty() {
            return 0;
        }
        let block = self.blocks.range(..=addr).next_back();
        block.map_or(0, |(_, &(end, generation))| if addr < end { generation } else { 0 })
    }

    /// Starts a new generation of this memory and returns it.
    pub fn renew(&mut self, block: ByteRange) -> u32 {
        let (addr, end) = (block.first, block.end());
        let overlapped: Vec<u64> = self
            .blocks
            .range(..end)
            .rev()
            .map(|(&at, &(to, _))| (at, to))
            .take_while(|&(_, to)| to > addr)
            .map(|(at, _)| at)
            .collect();
        for at in overlapped {
            self.blocks.remove(&at);
        }
        self.generations += 1;
        self.blocks.insert(addr, (end, self.generations));
        self.generations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_memory_is_another_generation() {
        let mut blocks = Blocks::default();
        assert_eq!(blocks.generation(0x10), 0);
        let first = blocks.renew(ByteRange::new(0x10, 0x20));
        let other = blocks.renew(ByteRange::new(0x40, 0x10));
        assert_eq!((blocks.generation(0x2f), blocks.generation(0x30)), (first, 0));
        let reused = blocks.renew(ByteRange::new(0x18, 0x30));
        assert_eq!((blocks.generation(0x10), blocks.generation(0x20)), (0, reused));
        assert_eq!(blocks.generation(0x4f), 0, "the block it overlaps is gone");
        assert!(first < other && other < reused);
    }
}
