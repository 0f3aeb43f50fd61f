//! The detector: processes events one by one and reports the conflicts that each completes.

use crate::{
    AccessEpoch, Edges, HappensBefore, ShadowCell, ShadowMemory, cell::Word, clock::VectorClock,
    locksets::Locksets,
};
use alloc::{collections::BTreeMap, vec::Vec};
use unsnarl_model::{ConflictKind, Event, Op, ThreadIx};
use unsnarl_semantics::{AccessKind, ByteRange, MemoryOp, Operation, Step};

/// Finds the conflicts of one run.
///
/// The caller provides the shadow memory: a map for traces, address arithmetic inside a program.
#[derive(Debug, Default)]
pub struct Detector<M> {
    order: HappensBefore,
    locksets: Locksets,
    memory: M,
    /// Accesses that found no room in their word, by its address; a word with room has none.
    overflow: BTreeMap<u64, Vec<ShadowCell>>,
    /// Acquisitions of each object, by the address of the lock, condition, semaphore …
    objects: BTreeMap<u64, Vec<ShadowCell>>,
}

/// An access to memory that is about to happen.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub thread: ThreadIx,
    /// The operation.
    pub op: Op,
    /// The address of the first byte.
    pub addr: u64,
    /// The number of bytes.
    pub size: u64,
    /// True if they are on the thread's own stack.
    pub own_stack: bool,
    /// The site in the caller's encoding; 48 bits.
    pub tag: u64,
}

/// An earlier operation that conflicts with a later one.
#[derive(Clone, Copy, Debug)]
pub struct FoundConflict {
    /// The kind of conflict.
    pub kind: ConflictKind,
    /// The earlier operation.
    pub first: ShadowCell,
    /// The first byte that both access, or the lock.
    pub addr: u64,
}

impl<M: ShadowMemory> Detector<M> {
    /// Builds a detector before the first event.
    #[must_use]
    pub fn new(memory: M) -> Self {
        Self {
            order: HappensBefore::new(Edges::Possible),
            locksets: Locksets::default(),
            memory,
            overflow: BTreeMap::new(),
            objects: BTreeMap::new(),
        }
    }

    /// Returns the shadow memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Processes one more event, given its number and its site.
    pub fn step(&mut self, event: &Event, number: u64, tag: u64, mut found: impl FnMut(FoundConflict)) {
        let step = Step::decode(event, number);
        if step.may_be_ordered() {
            self.order_after_all(step.thread);
        }
        match &step.operation {
            Operation::Memory(MemoryOp::Access(access)) => {
                let failed = access.kind == AccessKind::CompareExchange && !access.writes;
                let op = if failed { Op::AtomicLoad } else { event.op };
                let own_stack = access.own_stack;
                let watched = Access { op, own_stack, ..watched_access(event, access.range, tag) };
                self.access(&watched, &mut found);
                // An atomic operation accesses its variable before it orders later operations.
                if access.is_atomic() {
                    self.order.step(&step);
                }
            }
            // Freed memory counts as forgotten rather than written. The order that makes the release safe is
            // often established by a reference count in uninstrumented library code, and a false alarm is
            // worse.
            Operation::Memory(MemoryOp::Alloc(block)) => self.forget(block.first, block.len),
            Operation::Memory(MemoryOp::Free(block)) => self.free(&watched_access(event, *block, tag), found),
            _ => {
                if let Some(object) = step.operation.object().filter(|_| can_contend(event.op)) {
                    self.check_contention((event.thread, event.op, object), tag, found);
                }
                self.locksets.step(&step);
                self.order.step(&step);
            }
        }
    }

    /// Orders everything done up to now before what the thread does next: it has executed uninstrumented code that
    /// may synchronise.
    #[cold]
    pub fn order_after_all(&mut self, thread: ThreadIx) {
        self.order.order_after_all(thread);
    }

    /// Processes a memory access without other effects.
    #[inline]
    pub fn access(&mut self, access: &Access, mut found: impl FnMut(FoundConflict)) {
        let when = self.access_epoch(access.thread);
        let cell = |mask| ShadowCell::new(access.op, mask, access.own_stack, access.tag, when);
        let (word, offset) = (access.addr & !7, access.addr & 7);
        let size = access.size.max(1);
        if size <= 8 - offset {
            self.touch(word, cell((0xff >> (8 - size)) << offset), &mut found);
            return;
        }
        let end = access.addr.saturating_add(size);
        self.touch(word, cell(0xff << offset), &mut found);
        for word in (word..end).step_by(8).skip(1) {
            let left = (end - word).min(8);
            self.touch(word, cell(0xff >> (8 - left)), &mut found);
        }
    }

    #[inline]
    fn touch(&mut self, word: u64, new: ShadowCell, found: &mut impl FnMut(FoundConflict)) {
        let Some(Word(cells)) = self.memory.word(word) else { return };
        // An identical access can find nothing new.
        if cells[0] == new || cells[1] == new {
            return;
        }
        if cells[0].is_empty() {
            cells[0] = new;
            return self.memory.first_use(word);
        }
        let rules = AccessRules { new, past: self.order.clock_of(new.thread()), locksets: &self.locksets };
        if !rules.insert_newest(cells) {
            self.check_word(word, new, found);
        }
    }

    /// Reports accesses of other threads that are not ordered before the release of this block. The program
    /// may be correct (see [`Self::step`]), so each is reported as a hidden race.
    pub fn free(&mut self, block: &Access, mut found: impl FnMut(FoundConflict)) {
        const MAX: u64 = 512;
        let watched = Access { op: Op::Write, size: block.size.min(MAX), ..*block };
        self.access(&watched, |conflict| {
            if conflict.kind != ConflictKind::Contention {
                found(FoundConflict { kind: ConflictKind::Hidden, ..conflict });
            }
        });
        self.forget(block.addr, block.size);
    }

    /// Treats the bytes as new memory: earlier accesses were to another object.
    pub fn forget(&mut self, addr: u64, len: u64) {
        let end = addr.saturating_add(len);
        self.memory.forget(addr & !7, end);
        if !self.overflow.is_empty() {
            let words: Vec<u64> = self.overflow.range(addr & !7..end).map(|(&word, _)| word).collect();
            words.iter().for_each(|word| drop(self.overflow.remove(word)));
        }
    }

    #[inline]
    fn access_epoch(&mut self, thread: ThreadIx) -> AccessEpoch {
        AccessEpoch::new(thread, self.locksets.of(thread), self.order.now(thread).time)
    }

    /// Compares an access with earlier ones and remembers it.
    #[inline(never)]
    fn check_word(&mut self, word: u64, new: ShadowCell, found: &mut impl FnMut(FoundConflict)) {
        let Self { order, locksets, memory, overflow, .. } = self;
        let Some(Word(cells)) = memory.word(word) else { return };
        let rules = AccessRules { new, past: order.clock_of(new.thread()), locksets };
        let mut stays = |cell: &ShadowCell| {
            if rules.comes_after(cell) {
                return !rules.replaces(cell);
            }
            if let Some(kind) = rules.classify(cell) {
                let common = (cell.mask() & new.mask()).trailing_zeros();
                found(FoundConflict { kind, first: *cell, addr: word + u64::from(common) });
            }
            true
        };
        let before = *cells;
        *cells = [new, ShadowCell::default(), ShadowCell::default(), ShadowCell::default()];
        let mut count = 1;
        let mut spilled = None;
        for cell in before.iter().take_while(|cell| !cell.is_empty()).filter(|cell| stays(cell)) {
            match cells.get_mut(count) {
                Some(room) => *room = *cell,
                None => spilled = Some(*cell),
            }
            count += 1;
        }
        let more = if before[3].is_empty() { None } else { overflow.get_mut(&word) };
        if let Some(more) = more {
            more.retain(stays);
            for room in cells.iter_mut().skip(count) {
                *room = more.pop().unwrap_or_default();
            }
            more.extend(spilled);
        } else if let Some(spilled) = spilled {
            overflow.entry(word).or_default().push(spilled);
        }
    }

    /// Compares an operation on a lock or similar object with earlier ones.
    fn check_contention(
        &mut self,
        (thread, op, object): (ThreadIx, Op, u64),
        tag: u64,
        mut found: impl FnMut(FoundConflict),
    ) {
        let when = self.access_epoch(thread);
        let new = ShadowCell::new(op, 1, false, tag, when);
        let Self { order, objects, .. } = self;
        let cells = objects.entry(object).or_default();
        for cell in cells.iter() {
            if cell.thread() != thread
                && are_contending(cell.op(), op)
                && !order.before_without_locks(cell.when.epoch(), thread)
            {
                found(FoundConflict { kind: ConflictKind::Contention, first: *cell, addr: object });
            }
        }
        cells.retain(|cell| cell.thread() != thread || cell.tag() != tag);
        cells.push(new);
    }
}

/// The relation of earlier accesses to the current one.
struct AccessRules<'a> {
    new: ShadowCell,
    /// The vector clock of its thread.
    past: Option<&'a VectorClock>,
    locksets: &'a Locksets,
}

impl AccessRules<'_> {
    /// Puts the new access in front of the earlier ones that stay, if none of them needs to be reported and
    /// all fit. This is the common case. The newest is at the front, where repetitions are looked for; all
    /// cells after the last are empty.
    #[inline]
    fn insert_newest(&self, cells: &mut [ShadowCell; 4]) -> bool {
        let [first, second, third, fourth] = *cells;
        if !fourth.is_empty() {
            return false;
        }
        let (mut count, mut stay) = (0, [false; 3]);
        for (cell, stays) in [first, second, third].iter().zip(&mut stay) {
            if cell.is_empty() {
                break;
            }
            if !self.comes_after(cell) {
                return false;
            }
            count += 1;
            *stays = !self.replaces(cell);
        }
        // Update in place: reading an array as a whole right after writing it in pieces would stall.
        let mut next = 1;
        for (cell, stays) in [first, second, third].into_iter().zip(stay) {
            if stays {
                cells[next] = cell;
                next += 1;
            }
        }
        cells[0] = self.new;
        while next < count {
            cells[next] = ShadowCell::default();
            next += 1;
        }
        true
    }

    /// Returns whether the earlier access comes first in every order.
    #[inline]
    fn comes_after(&self, earlier: &ShadowCell) -> bool {
        earlier.thread() == self.new.thread()
            || self.past.is_some_and(|past| past.includes_without_locks(earlier.when.epoch()))
    }

    /// Classifies the conflict with an earlier access that came first by chance or by a lock; `None` if their
    /// order does not matter.
    fn classify(&self, earlier: &ShadowCell) -> Option<ConflictKind> {
        if !earlier.conflicts(&self.new) {
            None
        } else if earlier.is_atomic() && self.new.is_atomic() {
            Some(ConflictKind::Contention)
        } else if !self.past.is_some_and(|past| past.includes(earlier.when.epoch())) {
            Some(ConflictKind::Race)
        } else if self.locksets.disjoint(earlier.when.lockset(), self.new.when.lockset()) {
            Some(ConflictKind::Hidden)
        } else {
            None
        }
    }

    /// Returns whether the new access conflicts with everything that an earlier, ordered access would
    /// conflict with, so that the earlier one can be forgotten: it touched no other bytes, was no stronger,
    /// and was under no fewer locks.
    #[inline]
    fn replaces(&self, earlier: &ShadowCell) -> bool {
        earlier.within(&self.new) && self.locksets.within(self.new.when.lockset(), earlier.when.lockset())
    }
}

fn watched_access(event: &Event, range: ByteRange, tag: u64) -> Access {
    let ByteRange { first: addr, len: size } = range;
    Access { thread: event.thread, op: event.op, addr, size, own_stack: false, tag }
}

/// Returns whether the order of such operations on an object can matter.
const fn can_contend(op: Op) -> bool {
    matches!(
        op,
        Op::Lock
            | Op::TryLock
            | Op::ReadLock
            | Op::TryReadLock
            | Op::WriteLock
            | Op::TryWriteLock
            | Op::SemWait
            | Op::SemTryWait
            | Op::SemPost
            | Op::CondWait
            | Op::Signal
            | Op::Broadcast
            | Op::OnceBegin
            | Op::OncePass
            | Op::LockDestroy
            | Op::RwDestroy
            | Op::FdRead
            | Op::FdWrite
            | Op::FdClose
            | Op::FileLock
            | Op::ChildWait
            | Op::FileRead
            | Op::FileWrite
            | Op::FileCreate
            | Op::FileRemove
            | Op::FileRename
    )
}

/// Returns whether the order of the two operations matters.
const fn are_contending(a: Op, b: Op) -> bool {
    const fn reads(op: Op) -> bool {
        matches!(op, Op::ReadLock | Op::TryReadLock | Op::FileRead)
    }
    const fn wakes(op: Op) -> bool {
        matches!(op, Op::Signal | Op::Broadcast)
    }
    const fn posts(op: Op) -> bool {
        matches!(op, Op::SemPost)
    }
    !(reads(a) && reads(b)
        || wakes(a) && wakes(b)
        || posts(a) && posts(b)
        || matches!((a, b), (Op::CondWait, Op::CondWait)))
}
