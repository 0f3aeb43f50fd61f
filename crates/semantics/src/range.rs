//! Ranges of bytes in memory.

/// Consecutive bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// The address of the first byte.
    pub first: u64,
    /// The number of bytes, at least one.
    pub len: u64,
}

impl ByteRange {
    /// Builds the range of `len` bytes from `first`; an empty one counts as one byte.
    #[must_use]
    #[inline]
    pub const fn new(first: u64, len: u64) -> Self {
        Self { first, len: if len == 0 { 1 } else { len } }
    }

    /// Returns the first address after the range.
    #[must_use]
    #[inline]
    pub const fn end(self) -> u64 {
        self.first.saturating_add(self.len)
    }

    /// Returns whether the ranges have a byte in common.
    #[must_use]
    #[inline]
    pub const fn overlaps(self, other: Self) -> bool {
        self.first < other.end() && other.first < self.end()
    }

    /// Returns whether the range contains the byte at this address.
    #[must_use]
    #[inline]
    pub const fn contains(self, addr: u64) -> bool {
        self.first <= addr && addr < self.end()
    }
}
