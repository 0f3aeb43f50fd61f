//! Memory by byte: the cell that holds each byte's last accesses.
//!
//! Memory is divided into words of eight bytes. A word has no cell until it is touched, then one, and more
//! only if its bytes are touched in different groups. A write to many bytes, an allocation and a release
//! treat all of them alike: their cells are freed, and one *stretch* records the last writer. So memory that
//! is allocated, used and freed again and again takes no more room than the memory in use.

use super::{
    cells::{Cells, NONE, NodeIx},
    hash::HashMap,
};
use std::{collections::BTreeMap, ops::Range};

/// The number of words of a page.
const WORDS: u64 = 64;

/// The minimum number of bytes of a write that makes a stretch.
const LONG: u64 = 128;

#[derive(Debug, Default)]
pub(super) struct MemoryCells {
    pages: HashMap<u64, u32>,
    /// The first cell of each word, page by page.
    heads: Vec<u32>,
    free: Vec<u32>,
    /// The page that was looked up last, because accesses have locality.
    latest: Option<(u64, u32)>,
    /// Words that were written as a whole and have no cells: first word → (one past the last, writer).
    stretches: BTreeMap<u64, (u64, NodeIx)>,
}

impl MemoryCells {
    /// Returns the cells of these bytes, creating missing ones.
    pub(super) fn touch(&mut self, first: u64, len: u64, cells: &mut Cells, found: &mut Vec<u32>) {
        for (word, mask) in words(first, len) {
            self.touch_word(word, mask, cells, found);
        }
    }

    /// Returns whether a write to this many bytes should make a stretch.
    pub(super) const fn is_long(len: u64) -> bool {
        len >= LONG
    }

    /// Collects the dependences of a write to all of the bytes, and the cells of the partial words at both
    /// ends. The whole words in between are [`stretched`](Self::stretch) afterwards.
    pub(super) fn before_long_write(
        &mut self,
        first: u64,
        len: u64,
        cells: &mut Cells,
        found: &mut Vec<u32>,
        deps: &mut Vec<NodeIx>,
    ) {
        let middle = whole_words(first, len);
        for (word, mask) in words(first, len).take(1).chain(words(first, len).skip(1).last()) {
            if !middle.contains(&word) {
                self.touch_word(word, mask, cells, found);
            }
        }
        for part in self.pages_in(middle.clone()) {
            for &head in &self.heads[part.heads()] {
                let mut at = head;
                while at != NONE {
                    cells.before_write(at, deps);
                    at = cells.get(at).next;
                }
            }
        }
        deps.extend(self.stretches_in(middle).map(|(_, (_, writer))| writer));
    }

    /// Records that this node wrote the whole words among the bytes.
    pub(super) fn stretch(&mut self, first: u64, len: u64, cells: &mut Cells, writer: NodeIx) {
        let middle = whole_words(first, len);
        if middle.is_empty() {
            return;
        }
        self.drop_cells(middle.clone(), cells);
        let over: Vec<_> = self.stretches_in(middle.clone()).collect();
        for (start, (end, old)) in over {
            self.stretches.remove(&start);
            if start < middle.start {
                self.stretches.insert(start, (middle.start, old));
            }
            if end > middle.end {
                self.stretches.insert(middle.end, (end, old));
            }
        }
        self.stretches.insert(middle.start, (middle.end, writer));
    }

    fn touch_word(&mut self, word: u64, mask: u8, cells: &mut Cells, found: &mut Vec<u32>) {
        let place = first_head(self.page(word / WORDS)) + (word % WORDS) as usize;
        let mut at = self.heads[place];
        let mut left = mask;
        while at != NONE && left != 0 {
            let cell = cells.get(at);
            let (next, common) = (cell.next, cell.mask & left);
            if common != 0 {
                let whole = cell.mask == common;
                found.push(if whole { at } else { cells.split(at, common) });
                left &= !common;
            }
            at = next;
        }
        if left != 0 {
            let new = cells.add(self.stretch_at(word), left, self.heads[place]);
            self.heads[place] = new;
            found.push(new);
        }
    }

    /// Returns the last writer of a word that lacks a cell for some byte; `NONE` if that byte was never
    /// touched.
    fn stretch_at(&self, word: u64) -> NodeIx {
        match self.stretches.range(..=word).next_back() {
            Some((_, &(end, writer))) if word < end => writer,
            _ => NONE,
        }
    }

    fn stretches_in(&self, words: Range<u64>) -> impl Iterator<Item = (u64, (u64, NodeIx))> {
        let before =
            self.stretches.range(..words.start).next_back().filter(|(_, (end, _))| *end > words.start);
        before.into_iter().chain(self.stretches.range(words)).map(|(&start, &rest)| (start, rest))
    }

    fn page(&mut self, number: u64) -> u32 {
        if let Some((latest, page)) = self.latest
            && latest == number
        {
            return page;
        }
        let page = *self.pages.entry(number).or_insert_with(|| match self.free.pop() {
            Some(page) => page,
            None => {
                let page = self.heads.len() / WORDS as usize;
                self.heads.resize(first_head(page as u32 + 1), NONE);
                page as u32
            }
        });
        self.latest = Some((number, page));
        page
    }

    /// Returns the existing pages of these words.
    fn pages_in(&self, words: Range<u64>) -> Vec<PagePart> {
        let numbers = words.start / WORDS..words.end.div_ceil(WORDS);
        let part = |(number, page): (u64, u32)| {
            let start = number * WORDS;
            let from = words.start.max(start) - start;
            let to = words.end.min(start + WORDS) - start;
            PagePart { number, page, words: from as usize..to as usize }
        };
        // Large blocks are mostly untouched, so iterate over the existing pages instead of all possible ones.
        if numbers.end - numbers.start > self.pages.len() as u64 {
            let mut there: Vec<_> =
                self.pages.iter().map(|(&n, &p)| (n, p)).filter(|(n, _)| numbers.contains(n)).collect();
            there.sort_unstable();
            there.into_iter().map(part).collect()
        } else {
            numbers.filter_map(|n| Some((n, *self.pages.get(&n)?))).map(part).collect()
        }
    }

    /// Frees the cells of these words, and pages without other cells.
    fn drop_cells(&mut self, words: Range<u64>, cells: &mut Cells) {
        for part in self.pages_in(words) {
            for head in &mut self.heads[part.heads()] {
                let mut at = std::mem::replace(head, NONE);
                while at != NONE {
                    let next = cells.get(at).next;
                    cells.remove(at);
                    at = next;
                }
            }
            if part.words.len() as u64 == WORDS {
                self.pages.remove(&part.number);
                self.free.push(part.page);
                self.latest = None;
            }
        }
    }
}

/// A range of words of a page.
struct PagePart {
    number: u64,
    page: u32,
    words: Range<usize>,
}

impl PagePart {
    fn heads(&self) -> Range<usize> {
        let first = first_head(self.page);
        first + self.words.start..first + self.words.end
    }
}

/// Returns the index of a page's first head.
const fn first_head(page: u32) -> usize {
    page as usize * WORDS as usize
}

/// Iterates over the words of a byte range, each with a mask of its bytes.
fn words(first: u64, len: u64) -> impl Iterator<Item = (u64, u8)> {
    let end = first.saturating_add(len);
    (first / 8..end.div_ceil(8)).map(move |word| {
        let from = first.max(word * 8) - word * 8;
        let to = end - word * 8;
        let below = |n: u64| if n >= 8 { u8::MAX } else { (1 << n) - 1 };
        (word, below(to) & !below(from))
    })
}

/// Returns the words that lie entirely in a byte range.
fn whole_words(first: u64, len: u64) -> Range<u64> {
    let (start, end) = (first.div_ceil(8), first.saturating_add(len) / 8);
    start..end.max(start)
}
