//! The detector: one event after the other, and the conflicts that each is the second part of.

use crate::{
    Advanced, Cell, Edges, Epoch, HappensBefore, Memory, Moment, cell::Word, locksets::Locksets, succeeded,
};
use alloc::{collections::BTreeMap, vec::Vec};
use unsnarl_model::{ConflictKind, Event, Flags, ObjectKind, Op, ThreadIx};

/// Finds the conflicts of one run.
///
/// The memory's shadow is the caller's: a map for traces, address arithmetic inside a program.
#[derive(Debug, Default)]
pub struct Detector<M> {
    order: HappensBefore,
    /// The same without the edges of locks.
    loose: HappensBefore,
    locksets: Locksets,
    memory: M,
    /// Accesses that found no room in their word, by its address.
    overflow: BTreeMap<u64, Vec<Cell>>,
    /// Who took what, by the address of the lock, condition, semaphore …
    objects: BTreeMap<u64, Vec<Cell>>,
    /// By thread: what its next access is stamped with.
    moments: Vec<Moment>,
}

/// An access to memory that is about to happen.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Whose.
    pub thread: ThreadIx,
    /// What it does.
    pub op: Op,
    /// Where the first byte is.
    pub addr: u64,
    /// How many there are.
    pub size: u32,
    /// Whether they are on the thread's own stack.
    pub own_stack: bool,
    /// From where, in the caller's own way; 48 bits.
    pub tag: u64,
}

/// An earlier operation that is in conflict with a later one.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// What they are to each other.
    pub kind: ConflictKind,
    /// The earlier operation.
    pub first: Cell,
    /// The first byte that both touch, or the lock.
    pub addr: u64,
}

impl<M: Memory> Detector<M> {
    /// Before the first event.
    #[must_use]
    pub fn new(memory: M) -> Self {
        Self {
            order: HappensBefore::with(Edges::Possible),
            loose: HappensBefore::with(Edges::WithoutLocks),
            locksets: Locksets::default(),
            memory,
            overflow: BTreeMap::new(),
            objects: BTreeMap::new(),
            moments: Vec::new(),
        }
    }

    /// One more event, with its number and from where it came.
    pub fn step(&mut self, event: &Event, number: u64, tag: u64, mut found: impl FnMut(Found)) {
        match event.op {
            // What is freed counts as forgotten rather than written: the order that makes it safe is often kept
            // by a reference count in library code that is not instrumented, and a false alarm is worse.
            Op::Alloc => return self.forget(event.addr, event.size),
            Op::Free => return self.free(&access_of(event, tag), found),
            Op::Read | Op::Write => return self.access(&access_of(event, tag), found),
            _ => {}
        }
        // An atomic operation reads or writes its variable before it orders anything after it.
        if event.op.object_kind() == Some(ObjectKind::Memory) {
            self.access(&access_of(event, tag), &mut found);
        } else if competes(event.op) {
            self.compete(event, tag, found);
        }
        let advanced = self.order.step(event, number);
        self.loose.step(event, number);
        self.locksets.step(event);
        if advanced == Advanced::All {
            self.moments.iter_mut().for_each(Moment::advance);
        }
        self.stamp(event.thread);
    }

    /// An access alone.
    #[inline]
    pub fn access(&mut self, access: &Access, mut found: impl FnMut(Found)) {
        let when = self.moment(access.thread);
        let mut at = access.addr;
        let end = at.saturating_add(u64::from(access.size.max(1)));
        while at < end {
            let word = at & !7;
            let until = end.min(word + 8);
            let mask = (0xffu32 << (at - word)) as u8 & (0xffu32 >> (word + 8 - until)) as u8;
            at = until;
            let new = Cell::new(access.op, mask, access.own_stack, access.tag, when);
            match self.memory.word(word) {
                // The very same again: what it may find has been found.
                Some(Word(cells)) if cells[0] == new || cells[1] == new => {}
                Some(_) => self.look(word, new, &mut found),
                None => {}
            }
        }
    }

    /// A block is about to be freed: accesses of others that nothing orders before that are in conflict with it.
    /// It may be none of the program's fault (see [`Self::step`]), so it is told as a hidden race.
    pub fn free(&mut self, block: &Access, mut found: impl FnMut(Found)) {
        const MOST: u32 = 512;
        let watched = Access { op: Op::Write, size: block.size.min(MOST), ..*block };
        self.access(&watched, |conflict| {
            if conflict.kind != ConflictKind::Contention {
                found(Found { kind: ConflictKind::Hidden, ..conflict });
            }
        });
        self.forget(block.addr, block.size);
    }

    /// The bytes are new memory: what was done to them before was done to something else.
    pub fn forget(&mut self, addr: u64, size: u32) {
        let end = addr.saturating_add(u64::from(size));
        self.memory.forget(addr & !7, end);
        if !self.overflow.is_empty() {
            let words: Vec<u64> = self.overflow.range(addr & !7..end).map(|(&word, _)| word).collect();
            words.iter().for_each(|word| drop(self.overflow.remove(word)));
        }
    }

    fn moment(&mut self, thread: ThreadIx) -> Moment {
        match self.moments.get(thread.index()) {
            Some(&moment) if moment != Moment::default() => moment,
            _ => self.stamp(thread),
        }
    }

    /// Takes the thread's present moment down.
    fn stamp(&mut self, thread: ThreadIx) -> Moment {
        if self.moments.len() <= thread.index() {
            self.moments.resize(thread.index() + 1, Moment::default());
        }
        let moment = Moment::new(thread, self.locksets.of(thread), self.order.now(thread).time);
        // The other relation must know the thread too.
        let _ = self.loose.now(thread);
        self.moments[thread.index()] = moment;
        moment
    }

    /// Compares an access with those before it, and puts it among them.
    fn look(&mut self, word: u64, new: Cell, found: &mut impl FnMut(Found)) {
        let Self { order, loose, locksets, memory, overflow, .. } = self;
        let Some(Word(cells)) = memory.word(word) else { return };
        let rules = Rules { order, loose, locksets };
        let mut judge = |cell: &Cell| {
            if cell.conflicts(&new)
                && let Some(kind) = rules.judge(cell, &new)
            {
                let common = (cell.mask() & new.mask()).trailing_zeros();
                found(Found { kind, first: *cell, addr: word + u64::from(common) });
            }
            rules.replaces(&new, cell)
        };
        for cell in cells.iter_mut().filter(|cell| !cell.is_empty()) {
            if judge(cell) {
                *cell = Cell::default();
            }
        }
        let more = if overflow.is_empty() { None } else { overflow.get_mut(&word) };
        if let Some(more) = more {
            more.retain(|cell| !judge(cell));
        }
        // The newest is at the front, where a repetition is looked for.
        let last = cells[3];
        if let Some(free) = cells.iter().position(Cell::is_empty) {
            cells[..=free].rotate_right(1);
        } else {
            cells.rotate_right(1);
            overflow.entry(word).or_default().push(last);
        }
        cells[0] = new;
    }

    /// Compares an operation on a lock or its like with those before it.
    fn compete(&mut self, event: &Event, tag: u64, mut found: impl FnMut(Found)) {
        let when = self.moment(event.thread);
        let new = Cell::new(event.op, 1, false, tag, when);
        let Self { loose, objects, .. } = self;
        let cells = objects.entry(event.addr).or_default();
        for cell in cells.iter() {
            if cell.thread() != event.thread
                && compete(cell.op(), event.op)
                && !loose.before(epoch(cell.when), event.thread)
            {
                found(Found { kind: ConflictKind::Contention, first: *cell, addr: event.addr });
            }
        }
        cells.retain(|cell| cell.thread() != event.thread || cell.tag() != tag);
        cells.push(new);
    }
}

struct Rules<'a> {
    order: &'a HappensBefore,
    loose: &'a HappensBefore,
    locksets: &'a Locksets,
}

impl Rules<'_> {
    /// What two accesses that conflict are to each other; none if they are ordered or protected.
    fn judge(&self, earlier: &Cell, later: &Cell) -> Option<ConflictKind> {
        let thread = later.thread();
        if self.loose.before(epoch(earlier.when), thread) {
            None
        } else if earlier.is_atomic() && later.is_atomic() {
            Some(ConflictKind::Contention)
        } else if !self.order.before(epoch(earlier.when), thread) {
            Some(ConflictKind::Race)
        } else if self.locksets.disjoint(earlier.when.lockset(), later.when.lockset()) {
            Some(ConflictKind::Hidden)
        } else {
            None
        }
    }

    /// Whether whatever conflicts with the earlier access later on also conflicts with this one, so that the
    /// earlier one can be forgotten: it comes before this one in any case, touched no other bytes, was no
    /// stronger, and was under no fewer locks.
    fn replaces(&self, later: &Cell, earlier: &Cell) -> bool {
        let thread = later.thread();
        earlier.within(later)
            && (earlier.thread() == thread || self.loose.before(epoch(earlier.when), thread))
            && self.locksets.within(later.when.lockset(), earlier.when.lockset())
    }
}

#[inline]
const fn epoch(moment: Moment) -> Epoch {
    Epoch { thread: moment.thread(), time: moment.time() }
}

fn access_of(event: &Event, tag: u64) -> Access {
    let failed = event.op == Op::AtomicCas && !succeeded(event);
    Access {
        thread: event.thread,
        op: if failed { Op::AtomicLoad } else { event.op },
        addr: event.addr,
        size: event.size,
        own_stack: event.flags.has(Flags::OWN_STACK),
        tag,
    }
}

/// Operations on objects whose order can matter.
const fn competes(op: Op) -> bool {
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
    )
}

/// Whether it matters which of the two comes first.
const fn compete(a: Op, b: Op) -> bool {
    const fn reads(op: Op) -> bool {
        matches!(op, Op::ReadLock | Op::TryReadLock)
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
