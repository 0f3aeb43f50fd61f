//! A set of threads.

use unsnarl_model::ThreadIx;

const WORDS: usize = (u16::MAX as usize + 1) / 64;

/// A set of threads, as bits. Counting, adding and removing take negligible time; finding the nth member
/// inspects only words up to the highest thread ever added.
///
/// The inspected words lie together, at the beginning: the remaining pages are never touched by a run of few
/// threads.
#[repr(C)]
pub struct ThreadSet {
    used: usize,
    len: u32,
    words: [u64; WORDS],
}

impl core::fmt::Debug for ThreadSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Default for ThreadSet {
    fn default() -> Self {
        Self::new()
    }
}

impl ThreadSet {
    /// Returns the empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { used: 0, len: 0, words: [0; WORDS] }
    }

    /// Returns the number of members.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether the set is empty.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether the thread is a member.
    #[must_use]
    #[inline]
    pub const fn contains(&self, thread: ThreadIx) -> bool {
        self.words[thread.index() / 64] & bit(thread) != 0
    }

    /// Adds or removes the thread.
    #[inline]
    pub fn set(&mut self, thread: ThreadIx, member: bool) {
        let at = thread.index() / 64;
        let had = self.words[at] & bit(thread) != 0;
        if had != member {
            self.words[at] ^= bit(thread);
            if member {
                self.len += 1;
                self.used = self.used.max(at + 1);
            } else {
                self.len -= 1;
            }
        }
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        self.words[..self.used].fill(0);
        self.len = 0;
    }

    /// Returns the member that `n` members precede, in creation order.
    #[must_use]
    #[inline]
    pub fn nth(&self, n: usize) -> Option<ThreadIx> {
        if self.used == 1 {
            // The usual case: without a population count, which not all processors have.
            let word = (0..n).fold(self.words[0], |word, _| word & word.wrapping_sub(1));
            return (word != 0).then(|| ThreadIx(word.trailing_zeros() as u16));
        }
        let mut left = n as u32;
        for (at, &word) in self.words[..self.used].iter().enumerate() {
            let here = word.count_ones();
            if left < here {
                let mut word = word;
                for _ in 0..left {
                    word &= word - 1;
                }
                return Some(ThreadIx((at * 64) as u16 + word.trailing_zeros() as u16));
            }
            left -= here;
        }
        None
    }

    /// Returns the first member with this index or a higher one. A loop over all members that may change other sets
    /// goes on from there, and takes time in proportion to their number.
    #[must_use]
    #[inline]
    pub fn first_from(&self, index: usize) -> Option<ThreadIx> {
        let mut at = index / 64;
        let mut word = self.words[..self.used].get(at)? & (u64::MAX << (index % 64));
        while word == 0 {
            at += 1;
            word = *self.words[..self.used].get(at)?;
        }
        Some(ThreadIx((at * 64) as u16 + word.trailing_zeros() as u16))
    }

    /// Returns the members in creation order.
    pub fn iter(&self) -> impl Iterator<Item = ThreadIx> + '_ {
        self.words[..self.used]
            .iter()
            .enumerate()
            .flat_map(|(at, &word)| Bits(word).map(move |b| at * 64 + b))
            .map(|ix| ThreadIx(ix as u16))
    }

    /// Returns the member after `thread` in creation order, wrapping around; `thread` itself only if it is
    /// the only member.
    #[must_use]
    #[inline]
    pub fn next_after(&self, thread: ThreadIx) -> Option<ThreadIx> {
        let at = thread.index() / 64;
        let behind = !(u64::MAX >> (63 - thread.index() % 64));
        let first_in = |at: usize, word: u64| ThreadIx((at * 64) as u16 + word.trailing_zeros() as u16);
        if let Some(word) = self.words.get(at).map(|word| word & behind).filter(|&word| word != 0) {
            return Some(first_in(at, word));
        }
        let later = (at + 1..self.used).chain(0..self.used.min(at + 1));
        later.map(|at| (at, self.words[at])).find(|(_, word)| *word != 0).map(|(at, word)| first_in(at, word))
    }
}

const fn bit(thread: ThreadIx) -> u64 {
    1 << (thread.index() % 64)
}

struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        (self.0 != 0).then(|| {
            let bit = self.0.trailing_zeros() as usize;
            self.0 &= self.0 - 1;
            bit
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn members_are_counted_and_iterated_in_order() {
        let mut set = ThreadSet::new();
        for ix in [3, 64, 200, 3] {
            set.set(ThreadIx(ix), true);
        }
        assert_eq!(set.len(), 3);
        assert_eq!(
            (0..4).map(|n| set.nth(n)).collect::<Vec<_>>(),
            [Some(ThreadIx(3)), Some(ThreadIx(64)), Some(ThreadIx(200)), None]
        );
        assert_eq!(
            [3, 64, 150, 200].map(|t| set.next_after(ThreadIx(t))),
            [64, 200, 200, 3].map(|t| Some(ThreadIx(t)))
        );
        assert_eq!(ThreadSet::new().next_after(ThreadIx(5)), None);
        assert_eq!(
            [0, 3, 4, 65, 200, 201, 70_000].map(|from| set.first_from(from)),
            [Some(3), Some(3), Some(64), Some(200), Some(200), None, None].map(|ix| ix.map(ThreadIx))
        );
        let mut few = ThreadSet::new();
        [0, 5, 63].into_iter().for_each(|ix| few.set(ThreadIx(ix), true));
        assert_eq!(
            [0, 1, 2, 3, 64].map(|n| few.nth(n)),
            [Some(ThreadIx(0)), Some(ThreadIx(5)), Some(ThreadIx(63)), None, None]
        );
        set.set(ThreadIx(64), false);
        assert!(!set.contains(ThreadIx(64)) && set.len() == 2);
        set.clear();
        assert!(set.is_empty() && set.iter().next().is_none() && !set.contains(ThreadIx(200)));
    }
}
