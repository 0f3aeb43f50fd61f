//! The last accesses of a resource: the few accesses that represent all of them.
//!
//! The next reader depends directly on the last write. The next writer depends directly on the reads since
//! then, of which the latest of each thread is enough. All other dependences follow from these. Hence a cell is small, and an access takes constant amortised time: each read is examined by one
//! write.

/// A node of the dependence graph, which represents its accesses in cells.
pub(super) type NodeIx = u32;

/// No node, no cell.
pub(super) const NONE: u32 = u32::MAX;

/// The last accesses to one resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) write: NodeIx,
    /// A read since the last write.
    read: NodeIx,
    /// Further reads, by the number of their list.
    more: u32,
    /// The next cell of the same word of memory.
    pub(super) next: u32,
    /// The bytes of the word; unused for objects.
    pub(super) mask: u8,
}

/// All cells, by number.
#[derive(Debug, Default)]
pub(super) struct Cells {
    cells: Vec<Cell>,
    free: Vec<u32>,
    lists: Vec<Vec<NodeIx>>,
    free_lists: Vec<u32>,
}

impl Cells {
    /// Adds a cell with `write` as its last write, if any.
    pub(super) fn add(&mut self, write: NodeIx, mask: u8, next: u32) -> u32 {
        let cell = Cell { write, read: NONE, more: NONE, next, mask };
        match self.free.pop() {
            Some(at) => {
                self.cells[at as usize] = cell;
                at
            }
            None => {
                self.cells.push(cell);
                self.cells.len() as u32 - 1
            }
        }
    }

    pub(super) fn get(&self, at: u32) -> &Cell {
        &self.cells[at as usize]
    }

    pub(super) fn get_mut(&mut self, at: u32) -> &mut Cell {
        &mut self.cells[at as usize]
    }

    /// Adds a second cell with the same accesses, for a part of the bytes.
    pub(super) fn split(&mut self, at: u32, mask: u8) -> u32 {
        let original = *self.get(at);
        let new = self.add(original.write, mask, original.next);
        let more = if original.more == NONE {
            NONE
        } else {
            let copy = self.lists[original.more as usize].clone();
            self.new_list(copy)
        };
        let cell = self.get_mut(new);
        (cell.read, cell.more) = (original.read, more);
        let cell = self.get_mut(at);
        cell.mask &= !mask;
        cell.next = new;
        new
    }

    /// Frees the cell.
    pub(super) fn remove(&mut self, at: u32) {
        self.forget_reads(at);
        self.free.push(at);
    }

    /// Collects the dependences of a read.
    pub(super) fn before_read(&self, at: u32, deps: &mut Vec<NodeIx>) {
        let write = self.get(at).write;
        if write != NONE {
            deps.push(write);
        }
    }

    /// Collects the dependences of a write.
    pub(super) fn before_write(&self, at: u32, deps: &mut Vec<NodeIx>) {
        let cell = self.get(at);
        if cell.read == NONE {
            return self.before_read(at, deps);
        }
        // Each read follows the last write, so the write need not be added.
        deps.push(cell.read);
        if cell.more != NONE {
            deps.extend_from_slice(&self.lists[cell.more as usize]);
        }
    }

    /// Records a read by this node; `same_thread` says whether another node belongs to the same thread.
    pub(super) fn read(&mut self, at: u32, node: NodeIx, same_thread: impl Fn(NodeIx) -> bool) {
        let Cell { read, more, .. } = *self.get(at);
        if read == node {
            return;
        }
        if read == NONE || same_thread(read) {
            self.get_mut(at).read = node;
            return;
        }
        if more == NONE {
            let list = self.new_list(vec![node]);
            self.get_mut(at).more = list;
            return;
        }
        let list = &mut self.lists[more as usize];
        match list.iter_mut().find(|other| **other == node || same_thread(**other)) {
            Some(other) => *other = node,
            None => list.push(node),
        }
    }

    /// Records a write by this node.
    pub(super) fn write(&mut self, at: u32, node: NodeIx) {
        self.forget_reads(at);
        self.get_mut(at).write = node;
    }

    fn forget_reads(&mut self, at: u32) {
        let cell = self.get_mut(at);
        cell.read = NONE;
        let list = std::mem::replace(&mut cell.more, NONE);
        if list != NONE {
            self.lists[list as usize].clear();
            self.free_lists.push(list);
        }
    }

    fn new_list(&mut self, list: Vec<NodeIx>) -> u32 {
        match self.free_lists.pop() {
            Some(at) => {
                let old = &mut self.lists[at as usize];
                old.extend_from_slice(&list);
                at
            }
            None => {
                self.lists.push(list);
                self.lists.len() as u32 - 1
            }
        }
    }
}
