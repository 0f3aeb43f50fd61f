//! Shadow cells: one remembered operation in two machine words, and the shadow of eight bytes of memory.

use crate::Epoch;
use unsnarl_model::{Op, ThreadIx};

/// An access to some of the eight bytes of a word, or an operation on a lock.
///
/// It has two words, so that a repeated access is recognised by two comparisons. An empty cell is all zero,
/// so that fresh memory from the kernel is a shadow without accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct ShadowCell {
    /// The tag of the site (48 bits), the bytes accessed (8), the operation (5), and one bit each for:
    /// writes, is plain, is on the thread's own stack.
    access_bits: u64,
    /// When, and with which locks held.
    pub(crate) when: AccessEpoch,
}

/// A thread's time and the locks it held: thread (16 bits), lockset (16), time (32).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct AccessEpoch(u64);

impl AccessEpoch {
    pub(crate) const fn new(thread: ThreadIx, lockset: u16, time: u32) -> Self {
        Self((thread.0 as u64) << 48 | (lockset as u64) << 32 | time as u64)
    }

    /// Returns the thread.
    #[must_use]
    #[inline]
    pub const fn thread(self) -> ThreadIx {
        ThreadIx((self.0 >> 48) as u16)
    }

    pub(crate) const fn lockset(self) -> u16 {
        (self.0 >> 32) as u16
    }

    #[inline]
    pub(crate) const fn epoch(self) -> Epoch {
        Epoch { thread: self.thread(), time: self.0 as u32 }
    }
}

const TAG: u64 = (1 << 48) - 1;
const MASK: u32 = 48;
const OP: u32 = 56;
const WRITES: u64 = 1 << 61;
const PLAIN: u64 = 1 << 62;
const OWN_STACK: u64 = 1 << 63;
/// The properties that make conflicts with later accesses more likely: bytes, writing, not being atomic.
const WEIGHT: u64 = 0xff << MASK | WRITES | PLAIN;

/// The operations that cells can hold.
const REMEMBERED_OPS: [Op; 32] = [
    Op::Read,
    Op::Write,
    Op::AtomicLoad,
    Op::AtomicStore,
    Op::AtomicRmw,
    Op::AtomicCas,
    Op::Lock,
    Op::TryLock,
    Op::ReadLock,
    Op::TryReadLock,
    Op::WriteLock,
    Op::TryWriteLock,
    Op::SemWait,
    Op::SemTryWait,
    Op::SemPost,
    Op::CondWait,
    Op::Signal,
    Op::Broadcast,
    Op::OnceBegin,
    Op::OncePass,
    Op::LockDestroy,
    Op::RwDestroy,
    Op::FdRead,
    Op::FdWrite,
    Op::FdClose,
    Op::FileLock,
    Op::ChildWait,
    Op::FileRead,
    Op::FileWrite,
    Op::FileCreate,
    Op::FileRemove,
    Op::FileRename,
];

/// The bits of each operation in a cell, indexed by its number.
const BITS: [u64; Op::ALL.len()] = {
    let mut bits = [0; Op::ALL.len()];
    let mut at = 0;
    while at < REMEMBERED_OPS.len() {
        let op = REMEMBERED_OPS[at];
        let writes = if matches!(op, Op::Read | Op::AtomicLoad) { 0 } else { WRITES };
        let plain = if matches!(op, Op::Read | Op::Write) { PLAIN } else { 0 };
        bits[op as usize] = (at as u64) << OP | writes | plain;
        at += 1;
    }
    bits
};

impl ShadowCell {
    /// Builds a cell for an operation on the bytes of `mask`. `tag` identifies the site in the caller's
    /// encoding.
    #[inline]
    pub(crate) const fn new(op: Op, mask: u8, own_stack: bool, tag: u64, when: AccessEpoch) -> Self {
        let own_stack = if own_stack { OWN_STACK } else { 0 };
        Self { access_bits: (tag & TAG) | (mask as u64) << MASK | BITS[op as usize] | own_stack, when }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.access_bits == 0
    }

    /// Returns the tag of the site.
    #[must_use]
    pub const fn tag(&self) -> u64 {
        self.access_bits & TAG
    }

    /// Returns the thread.
    #[must_use]
    #[inline]
    pub const fn thread(&self) -> ThreadIx {
        self.when.thread()
    }

    /// Returns the mask of accessed bytes.
    #[must_use]
    #[inline]
    pub const fn mask(&self) -> u8 {
        (self.access_bits >> MASK) as u8
    }

    /// Returns the operation. A failed compare-and-exchange appears as an atomic load.
    #[must_use]
    pub const fn op(&self) -> Op {
        let at = (self.access_bits >> OP) as usize & 31;
        if at < REMEMBERED_OPS.len() { REMEMBERED_OPS[at] } else { Op::Read }
    }

    pub(crate) const fn is_atomic(&self) -> bool {
        self.access_bits & PLAIN == 0
    }

    /// Returns whether the order of two accesses can matter.
    #[inline]
    pub(crate) const fn conflicts(&self, later: &Self) -> bool {
        self.mask() & later.mask() != 0
            && self.thread().0 != later.thread().0
            && (self.access_bits | later.access_bits) & WRITES != 0
            // Two threads cannot own the same stack, so the memory was reused for the later thread.
            && self.access_bits & later.access_bits & OWN_STACK == 0
    }

    /// Returns whether the access touches no byte that `other` does not, and is no stronger.
    #[inline]
    pub(crate) const fn within(&self, other: &Self) -> bool {
        self.access_bits & !other.access_bits & WEIGHT == 0
    }
}

/// The shadow of eight bytes of memory: up to four accesses that a later access may conflict with. Accesses
/// that do not fit are kept elsewhere (see [`crate::Detector`]).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Word(pub(crate) [ShadowCell; 4]);

const _: () = assert!(size_of::<Word>() == 64, "one cache line");
const _: () = assert!(REMEMBERED_OPS.len() <= 32, "operations have five bits");
