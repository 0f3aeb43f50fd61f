//! Divides memory into as few objects as possible.
//!
//! Section 3 of the paper: each run of consecutive shared bytes is one object. That is enough to name the
//! object of a race. To know which write a read sees takes more detail, so an object consists of *cells*:
//! consecutive bytes between which no access begins or ends, so that an access touches all bytes of a cell or
//! none.
//!
//! Reallocated memory is other memory: cells belong to a *generation*.

use crate::hash::Map;
use std::collections::BTreeMap;
use unsnarl_model::{Event, Op, ThreadIx};
use unsnarl_semantics::succeeded;

/// The cells of a window.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    /// The start of each cell with its generation, in order. A cell ends where the next begins.
    begins: Vec<(u32, u64)>,
    /// By extent: its first cell and one past its last.
    ranges: Vec<(u32, u32)>,
    /// By access of the window, in order: its extent.
    accesses: Vec<u32>,
    /// By cell: whether several threads access it, one of them writing.
    shared: Vec<bool>,
    /// By cell: its object, if it is shared.
    objects: Vec<u32>,
    /// The number of objects.
    pub(crate) object_count: u32,
}

/// The cells that an access touches.
pub(crate) type Range = std::ops::Range<u32>;

impl Cells {
    /// Computes the cells of a window.
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut extents = Extents::default();
        let mut accesses = Vec::new();
        let mut blocks = Blocks::default();
        for event in events {
            if is_access(event) {
                accesses.push(extents.number(blocks.generation(event.addr), event));
            } else if is_block(event) {
                blocks.renew(event.addr, event.size);
            }
        }
        let begins = extents.boundaries();
        let ranges: Vec<(u32, u32)> = extents
            .all
            .iter()
            .map(|&(generation, addr, size)| {
                let find = |at: u64| begins.binary_search(&(generation, at)).unwrap_or_else(|at| at) as u32;
                (find(addr), find(addr.saturating_add(u64::from(size))))
            })
            .collect();
        let shared = sharing(events, &accesses, &ranges, begins.len());
        let mut cells = Self { begins, ranges, accesses, shared, objects: Vec::new(), object_count: 0 };
        cells.group();
        cells
    }

    /// Returns the cells of the window's `nth` access; they need not be shared.
    pub(crate) fn range(&self, nth: usize) -> Range {
        let (first, end) = self.ranges[self.accesses[nth] as usize];
        first..end
    }

    /// Returns whether several threads access the cell, one of them writing.
    pub(crate) fn is_shared(&self, cell: u32) -> bool {
        self.shared[cell as usize]
    }

    /// Returns the number of cells.
    pub(crate) fn count(&self) -> usize {
        self.begins.len()
    }

    /// Returns the object that contains a shared cell.
    pub(crate) fn object(&self, cell: u32) -> u32 {
        self.objects[cell as usize]
    }

    /// Returns the address of a cell.
    pub(crate) fn address(&self, cell: u32) -> u64 {
        self.begins[cell as usize].1
    }

    fn group(&mut self) {
        self.objects = vec![u32::MAX; self.begins.len()];
        for cell in 0..self.begins.len() {
            if !self.shared[cell] {
                continue;
            }
            // Cells are adjacent in the list if and only if they are in memory, because gaps are cells too.
            let joins = cell > 0 && self.shared[cell - 1] && self.begins[cell - 1].0 == self.begins[cell].0;
            if !joins {
                self.object_count += 1;
            }
            self.objects[cell] = self.object_count - 1;
        }
    }
}

/// Returns whether the event reads or writes memory.
pub(crate) const fn is_access(event: &Event) -> bool {
    event.op.is_plain_access() || event.op.is_atomic()
}

/// Returns whether the event concerns a block of memory as a whole.
pub(crate) const fn is_block(event: &Event) -> bool {
    matches!(event.op, Op::Alloc | Op::Free) && succeeded(event)
}

/// Returns whether the access changes the memory.
pub(crate) const fn writes(event: &Event) -> bool {
    match event.op {
        Op::Write | Op::AtomicStore | Op::AtomicRmw => true,
        Op::AtomicCas => succeeded(event),
        _ => false,
    }
}

/// Returns whether the access depends on the memory's contents.
pub(crate) const fn reads(event: &Event) -> bool {
    matches!(event.op, Op::Read | Op::AtomicLoad | Op::AtomicRmw | Op::AtomicCas)
}

fn sharing(events: &[Event], accesses: &[u32], ranges: &[(u32, u32)], cells: usize) -> Vec<bool> {
    #[derive(Clone, Copy, Default)]
    struct MemoryUse {
        by: Option<ThreadIx>,
        several: bool,
        written: bool,
    }
    let mut critical_sections = vec![MemoryUse::default(); cells];
    for (event, &extent) in events.iter().filter(|event| is_access(event)).zip(accesses) {
        let (first, end) = ranges[extent as usize];
        for seen in &mut critical_sections[first as usize..end as usize] {
            seen.several |= seen.by.is_some_and(|other| other != event.thread);
            seen.by = Some(event.thread);
            seen.written |= writes(event);
        }
    }
    critical_sections.iter().map(|seen| seen.several && seen.written).collect()
}

/// The distinct ranges of memory accessed.
#[derive(Default)]
struct Extents {
    all: Vec<(u32, u64, u32)>,
    numbers: Map<(u64, u64), u32>,
}

impl Extents {
    fn number(&mut self, generation: u32, event: &Event) -> u32 {
        let size = event.size.max(1);
        let key = (event.addr, u64::from(generation) << 32 | u64::from(size));
        *self.numbers.entry(key).or_insert_with(|| {
            self.all.push((generation, event.addr, size));
            self.all.len() as u32 - 1
        })
    }

    fn boundaries(&self) -> Vec<(u32, u64)> {
        let mut all = Vec::with_capacity(2 * self.all.len());
        for &(generation, addr, size) in &self.all {
            all.push((generation, addr));
            all.push((generation, addr.saturating_add(u64::from(size))));
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Blocks of memory allocated or freed in this window.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// By first address: the end and the generation.
    blocks: BTreeMap<u64, (u64, u32)>,
    generations: u32,
}

impl Blocks {
    /// Returns the generation of the memory at this address; 0 if it was neither allocated nor freed.
    pub(crate) fn generation(&self, addr: u64) -> u32 {
        if self.blocks.is_empty() {
            return 0;
        }
        let block = self.blocks.range(..=addr).next_back();
        block.map_or(0, |(_, &(end, generation))| if addr < end { generation } else { 0 })
    }

    /// Starts a new generation of this memory and returns it.
    pub(crate) fn renew(&mut self, addr: u64, size: u32) -> u32 {
        let end = addr.saturating_add(u64::from(size.max(1)));
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
