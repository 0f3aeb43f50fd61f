//! A map from ranges of addresses to numbers.

use std::collections::BTreeMap;

/// Disjoint ranges of addresses, each with a number. A new range replaces what it overlaps.
#[derive(Debug, Default)]
pub(crate) struct BlockMap(BTreeMap<u64, Block>);

#[derive(Clone, Copy, Debug)]
struct Block {
    /// The first address after it.
    end: u64,
    number: u64,
}

impl BlockMap {
    /// Returns the numbers of the ranges that overlap this one.
    pub(crate) fn overlapping(&self, first: u64, len: u64) -> impl Iterator<Item = u64> {
        let end = first.saturating_add(len.max(1));
        self.0
            .range(..end)
            .rev()
            .take_while(move |(_, block)| block.end > first)
            .map(|(_, block)| block.number)
    }

    /// Maps a range to a number.
    pub(crate) fn insert(&mut self, first: u64, len: u64, number: u64) {
        let end = first.saturating_add(len.max(1));
        let overlapping = self.0.range(..end).rev().take_while(|(_, block)| block.end > first);
        let overlapping: Vec<(u64, Block)> = overlapping.map(|(&start, &block)| (start, block)).collect();
        for (start, block) in overlapping {
            self.0.remove(&start);
            if start < first {
                self.0.insert(start, Block { end: first, ..block });
            }
            if block.end > end {
                self.0.insert(end, block);
            }
        }
        self.0.insert(first, Block { end, number });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_range_replaces_what_it_overlaps() {
        let mut map = BlockMap::default();
        map.insert(0, 100, 1);
        map.insert(200, 100, 2);
        map.insert(40, 20, 3);
        let at = |map: &BlockMap, first, len| map.overlapping(first, len).collect::<Vec<_>>();
        assert_eq!(at(&map, 39, 1), [1]);
        assert_eq!(at(&map, 40, 20), [3]);
        assert_eq!(at(&map, 59, 2), [1, 3]);
        assert_eq!(at(&map, 100, 100), [0; 0]);
        map.insert(50, 200, 4);
        assert_eq!(at(&map, 0, 1000), [2, 4, 3, 1]);
        assert_eq!(at(&map, 250, 1), [2]);
    }
}
