//! Computes the direct dependences of each event from the last accesses.

use super::{
    cells::{Cells, NONE, NodeIx},
    hash::HashMap,
    memory::MemoryCells,
};
use unsnarl_semantics::{AccessMode, ByteRange, SharedObject, Touch};

/// The last accesses to everything.
///
/// An event is processed in two steps: [`find`](Self::find) returns its dependences, which determine its node
/// of the graph; [`record`](Self::record) records its accesses for that node.
#[derive(Debug, Default)]
pub(super) struct DirectDependences {
    cells: Cells,
    objects: HashMap<SharedObject, u32>,
    memory: MemoryCells,
    /// Cells of the current event, and how it accesses them.
    found: Vec<u32>,
    found_how: Vec<(u32, AccessMode)>,
    /// Ranges that the event writes as a whole.
    long: Vec<(u64, u64)>,
}

impl DirectDependences {
    /// Adds the nodes on which a touch makes the current event depend. Reads of bytes must come before
    /// writes: a later lookup may split a cell, and the parts of a written one would be missed.
    pub(super) fn find(&mut self, touch: Touch, deps: &mut Vec<NodeIx>) {
        match touch {
            Touch::SharedObject(object, how) => {
                let cells = &mut self.cells;
                let cell = *self.objects.entry(object).or_insert_with(|| cells.add(NONE, 0, NONE));
                self.found.push(cell);
                self.collect(how, deps);
            }
            Touch::Bytes(ByteRange { first, len }, AccessMode::Writes) if MemoryCells::is_long(len) => {
                self.memory.before_long_write(first, len, &mut self.cells, &mut self.found, deps);
                self.collect(AccessMode::Writes, deps);
                self.long.push((first, len));
            }
            Touch::Bytes(ByteRange { first, len }, how) => {
                self.memory.touch(first, len, &mut self.cells, &mut self.found);
                self.collect(how, deps);
            }
            Touch::Forget(_) | Touch::After(_) | Touch::Before(_) | Touch::Pin(_) | Touch::Fence => {}
        }
    }

    fn collect(&mut self, how: AccessMode, deps: &mut Vec<NodeIx>) {
        for cell in self.found.drain(..) {
            match how {
                AccessMode::Reads => self.cells.before_read(cell, deps),
                AccessMode::Writes => self.cells.before_write(cell, deps),
            }
            self.found_how.push((cell, how));
        }
    }

    /// Records the current event for this node; `same_thread` says whether another node belongs to the same
    /// thread.
    pub(super) fn record(&mut self, node: NodeIx, same_thread: impl Fn(NodeIx) -> bool) {
        // A resource that is both read and written counts as written, in either order.
        for &(cell, _) in self.found_how.iter().filter(|(_, how)| *how == AccessMode::Writes) {
            self.cells.write(cell, node);
        }
        for &(cell, _) in self.found_how.iter().filter(|(_, how)| *how == AccessMode::Reads) {
            if self.cells.get(cell).write != node {
                self.cells.read(cell, node, &same_thread);
            }
        }
        self.found_how.clear();
        for (first, len) in self.long.drain(..) {
            self.memory.stretch(first, len, &mut self.cells, node);
        }
    }

    /// Forgets an object that is not touched any more.
    pub(super) fn forget(&mut self, object: SharedObject) {
        if let Some(cell) = self.objects.remove(&object) {
            self.cells.remove(cell);
        }
    }
}
