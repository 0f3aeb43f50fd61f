//! Who touched a thing last: the few accesses that stand for all of them.
//!
//! Of everything that touched a thing, the next reader depends directly on the last write, and the next writer
//! on the reads since then, of which the latest of each thread is enough. All other dependences follow from
//! these. Hence a cell is small, and an access takes constant time on average: each read is looked at by one
//! write.

/// A node of the dependence graph; what a cell remembers of an access.
pub(super) type NodeIx = u32;

/// No node, no cell.
pub(super) const NONE: u32 = u32::MAX;

/// The last accesses of one thing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) write: NodeIx,
    /// A read since then.
    read: NodeIx,
    /// Further reads, by their list's number.
    more: u32,
    /// The next cell of the same word of memory.
    pub(super) next: u32,
    /// Which bytes of the word; not used for objects.
    pub(super) mask: u8,
}

/// All cells, found by their numbers.
#[derive(Debug, Default)]
pub(super) struct Cells {
    cells: Vec<Cell>,
    free: Vec<u32>,
    lists: Vec<Vec<NodeIx>>,
    free_lists: Vec<u32>,
}

impl Cells {
    /// A cell that `write` wrote last, if anybody did.
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

    /// A second cell with the same accesses, for a part of the bytes.
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

    /// Gives the cell up.
    pub(super) fn remove(&mut self, at: u32) {
        self.forget_reads(at);
        self.free.push(at);
    }

    /// What a reader depends on.
    pub(super) fn before_read(&self, at: u32, deps: &mut Vec<NodeIx>) {
        let write = self.get(at).write;
        if write != NONE {
            deps.push(write);
        }
    }

    /// What a writer depends on.
    pub(super) fn before_write(&self, at: u32, deps: &mut Vec<NodeIx>) {
        let cell = self.get(at);
        if cell.read == NONE {
            return self.before_read(at, deps);
        }
        // Each reader comes after the last write: no need to tell of that.
        deps.push(cell.read);
        if cell.more != NONE {
            deps.extend_from_slice(&self.lists[cell.more as usize]);
        }
    }

    /// A read by this node; `same_thread` tells whether another node is of the same thread.
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

    /// A write by this node.
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
