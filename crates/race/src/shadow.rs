//! Who accessed which bytes last.

use crate::{Epoch, writes};
use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::Range;
use unsnarl_model::{Event, Flags, ObjectKind};

/// An access to memory.
#[derive(Clone, Debug)]
pub struct Access {
    bytes: Range<u64>,
    when: Epoch,
    write: bool,
    atomic: bool,
    own_stack: bool,
}

impl Access {
    /// The access that an event makes, if it makes one.
    #[must_use]
    pub fn of(event: &Event, when: Epoch) -> Option<Self> {
        (event.op.object_kind() == Some(ObjectKind::Memory)).then(|| Self {
            bytes: event.addr..event.addr.saturating_add(u64::from(event.size.max(1))),
            when,
            write: writes(event),
            atomic: event.op.is_atomic(),
            own_stack: event.flags.has(Flags::OWN_STACK),
        })
    }
}

/// Memory in words of eight bytes, each with the accesses that a later one may race with.
#[derive(Debug, Default)]
pub struct Shadow {
    words: BTreeMap<u64, Vec<Cell>>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    when: Epoch,
    event: u64,
    /// Which of the eight bytes.
    mask: u8,
    write: bool,
    atomic: bool,
    own_stack: bool,
}

impl Shadow {
    /// The bytes are new memory: what was done to them before was done to something else.
    pub fn forget(&mut self, addr: u64, size: u32) {
        let end = addr.saturating_add(u64::from(size));
        let words: Vec<u64> = self.words.range(addr & !7..end).map(|(&word, _)| word).collect();
        words.iter().for_each(|word| drop(self.words.remove(word)));
    }

    /// One more access: tells of each earlier one that it races with, and takes its place.
    pub fn access(
        &mut self,
        access: &Access,
        event: u64,
        ordered: impl Fn(Epoch) -> bool,
        mut race: impl FnMut(u64),
    ) {
        let mut told = None;
        let mut at = access.bytes.start;
        while at < access.bytes.end {
            let word = at & !7;
            let end = access.bytes.end.min(word + 8);
            let mask = (at..end).fold(0u8, |mask, byte| mask | 1 << (byte - word));
            at = end;
            let Access { when, write, atomic, own_stack, .. } = *access;
            let new = Cell { when, event, mask, write, atomic, own_stack };
            let cells = self.words.entry(word).or_default();
            for cell in cells.iter().filter(|cell| cell.conflicts(&new) && !ordered(cell.when)) {
                // A wide access races with another once, not once a word.
                if told != Some(cell.event) {
                    told = Some(cell.event);
                    race(cell.event);
                }
            }
            cells.retain(|cell| !new.replaces(cell, &ordered));
            cells.push(new);
        }
    }
}

impl Cell {
    fn conflicts(&self, later: &Self) -> bool {
        self.mask & later.mask != 0
            && self.when.thread != later.when.thread
            && (self.write || later.write)
            && !(self.atomic && later.atomic)
            // Two threads cannot both own a stack: the memory was given to the later one anew.
            && !(self.own_stack && later.own_stack)
    }

    /// Whether whatever races with the earlier access later on also races with this one, so that the earlier
    /// one can be forgotten: it happened before this one, touched no other bytes, and was no stronger.
    fn replaces(&self, earlier: &Self, ordered: impl Fn(Epoch) -> bool) -> bool {
        let past = earlier.when.thread == self.when.thread || ordered(earlier.when);
        past && earlier.mask & !self.mask == 0
            && (self.write || !earlier.write)
            && (!self.atomic || earlier.atomic)
    }
}
