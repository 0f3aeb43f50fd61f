//! A remembered operation in two words, and eight bytes of memory with the operations that matter there.

use unsnarl_model::{Op, ThreadIx};

/// An access to some of the eight bytes of a word, or an operation on a lock.
///
/// Two words, so that a repeated access is told by two comparisons, and all zero for none, so that fresh
/// memory of the kernel's is a shadow without accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Cell {
    /// From where (48 bits), which bytes (8), which operation (7), on the thread's own stack (1).
    what: u64,
    /// When, and with which locks held.
    pub(crate) when: Moment,
}

/// A thread's moment and the locks that it held: thread (16 bits), lockset (16), time (32).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Moment(u64);

impl Moment {
    pub(crate) const fn new(thread: ThreadIx, lockset: u16, time: u32) -> Self {
        Self((thread.0 as u64) << 48 | (lockset as u64) << 32 | time as u64)
    }

    /// The thread's next moment; none stays none.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.0 += u64::from(self.0 != 0);
    }

    /// Whose.
    #[must_use]
    pub const fn thread(self) -> ThreadIx {
        ThreadIx((self.0 >> 48) as u16)
    }

    pub(crate) const fn lockset(self) -> u16 {
        (self.0 >> 32) as u16
    }

    pub(crate) const fn time(self) -> u32 {
        self.0 as u32
    }
}

const TAG: u64 = (1 << 48) - 1;
const OWN_STACK: u64 = 1 << 63;

impl Cell {
    /// An operation on the bytes of `mask`. `tag` says from where, in the caller's own way.
    #[inline]
    pub(crate) const fn new(op: Op, mask: u8, own_stack: bool, tag: u64, when: Moment) -> Self {
        let own_stack = if own_stack { OWN_STACK } else { 0 };
        Self { what: (tag & TAG) | (mask as u64) << 48 | (op as u64) << 56 | own_stack, when }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.what == 0
    }

    /// From where.
    #[must_use]
    pub const fn tag(&self) -> u64 {
        self.what & TAG
    }

    /// Whose.
    #[must_use]
    pub const fn thread(&self) -> ThreadIx {
        self.when.thread()
    }

    /// Which of the eight bytes.
    #[must_use]
    pub const fn mask(&self) -> u8 {
        (self.what >> 48) as u8
    }

    /// What it did. A compare-and-exchange that failed is an atomic load here.
    #[must_use]
    pub fn op(&self) -> Op {
        Op::from_number((self.what >> 56) as u8 & 127).unwrap_or(Op::Read)
    }

    const fn number(&self) -> u8 {
        (self.what >> 56) as u8 & 127
    }

    pub(crate) const fn writes(&self) -> bool {
        const LOAD: u8 = Op::AtomicLoad as u8;
        const READ: u8 = Op::Read as u8;
        !matches!(self.number(), LOAD | READ)
    }

    pub(crate) const fn is_atomic(&self) -> bool {
        const WRITE: u8 = Op::Write as u8;
        const READ: u8 = Op::Read as u8;
        !matches!(self.number(), WRITE | READ)
    }

    /// Whether the order of two accesses can matter.
    #[inline]
    pub(crate) const fn conflicts(&self, later: &Self) -> bool {
        self.mask() & later.mask() != 0
            && self.thread().0 != later.thread().0
            && (self.writes() || later.writes())
            // Two threads cannot both own a stack: the memory was given to the later one anew.
            && self.what & later.what & OWN_STACK == 0
    }

    /// Whether the access touches no byte that `other` does not, and is no stronger.
    #[inline]
    pub(crate) const fn within(&self, other: &Self) -> bool {
        self.mask() & !other.mask() == 0
            && (other.writes() || !self.writes())
            && (!other.is_atomic() || self.is_atomic())
    }
}

/// Eight bytes of memory: up to four accesses that a later one may be in conflict with. What does not fit
/// is kept elsewhere (see [`crate::Detector`]).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Word(pub(crate) [Cell; 4]);

const _: () = assert!(size_of::<Word>() == 64, "one cache line");
const _: () = assert!(Op::ALL.len() <= 128, "operations have seven bits");
