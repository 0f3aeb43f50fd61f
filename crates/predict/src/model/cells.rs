//! Divides memory into as few objects as possible.
//!
//! Section 3 of the paper: each run of consecutive shared bytes is one object. That is enough to name the
//! object of a race. To know which write a read sees takes more detail, so an object consists of *cells*:
//! consecutive bytes between which no access begins or ends, so that an access touches all bytes of a cell or
//! none.
//!
//! Reallocated memory is other memory: cells belong to a *generation*.

use crate::hash::Map;
use unsnarl_model::{Event, ThreadIx};
use unsnarl_semantics::{Blocks, ByteRange, MemoryOp, Operation, Step};

/// The cells of a window.
#[derive(Debug, Default)]
pub(crate) struct CellMap {
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
pub(crate) type CellRange = std::ops::Range<u32>;

impl CellMap {
    /// Computes the cells of a window.
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut extents = Extents::default();
        let mut accesses = Vec::new();
        let mut blocks = Blocks::default();
        let mut users = Vec::new();
        for event in events {
            let step = Step::decode(event, 0);
            if let Operation::Memory(MemoryOp::Access(access)) = step.operation {
                accesses.push(extents.number(blocks.generation(access.range.first), access.range));
                users.push((step.thread, access.writes));
            } else if let Some(block) = changed_block(&step) {
                blocks.renew(block);
            }
        }
        let begins = extents.boundaries();
        let ranges: Vec<(u32, u32)> = extents
            .all
            .iter()
            .map(|&(generation, range)| {
                let find = |at: u64| begins.binary_search(&(generation, at)).unwrap_or_else(|at| at) as u32;
                (find(range.first), find(range.end()))
            })
            .collect();
        let shared = sharing(&users, &accesses, &ranges, begins.len());
        let mut cells = Self { begins, ranges, accesses, shared, objects: Vec::new(), object_count: 0 };
        cells.group();
        cells
    }

    /// Returns the cells of the window's `nth` access; they need not be shared.
    pub(crate) fn range(&self, nth: usize) -> CellRange {
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

/// Returns the block that the step allocates or frees.
pub(super) fn changed_block(step: &Step) -> Option<ByteRange> {
    match step.operation {
        Operation::Memory(MemoryOp::Alloc(block) | MemoryOp::Free(block)) if step.succeeded() => Some(block),
        _ => None,
    }
}

/// Returns for each cell whether several threads access it, one of them writing. `users` has the thread of each
/// access, and whether it writes.
fn sharing(users: &[(ThreadIx, bool)], accesses: &[u32], ranges: &[(u32, u32)], cells: usize) -> Vec<bool> {
    #[derive(Clone, Copy, Default)]
    struct CellUse {
        by: Option<ThreadIx>,
        several: bool,
        written: bool,
    }
    let mut uses = vec![CellUse::default(); cells];
    for (&(thread, writes), &extent) in users.iter().zip(accesses) {
        let (first, end) = ranges[extent as usize];
        for seen in &mut uses[first as usize..end as usize] {
            seen.several |= seen.by.is_some_and(|other| other != thread);
            seen.by = Some(thread);
            seen.written |= writes;
        }
    }
    uses.iter().map(|seen| seen.several && seen.written).collect()
}

/// The distinct ranges of memory accessed.
#[derive(Default)]
struct Extents {
    all: Vec<(u32, ByteRange)>,
    numbers: Map<(u32, ByteRange), u32>,
}

impl Extents {
    fn number(&mut self, generation: u32, range: ByteRange) -> u32 {
        *self.numbers.entry((generation, range)).or_insert_with(|| {
            self.all.push((generation, range));
            self.all.len() as u32 - 1
        })
    }

    fn boundaries(&self) -> Vec<(u32, u64)> {
        let mut all = Vec::with_capacity(2 * self.all.len());
        for &(generation, range) in &self.all {
            all.push((generation, range.first));
            all.push((generation, range.end()));
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}
