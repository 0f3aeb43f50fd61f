//! The direct dependences of each event, from who touched what last.

use super::{
    cells::{Cells, NONE, NodeIx},
    hash::HashMap,
    memory::MemoryCells,
    relation::{AccessMode, SharedObject, Touch},
};

/// Who touched what last.
///
/// An event is entered in two steps: [`find`](Self::find) tells what it depends on, which decides the node of
/// the graph that it belongs to; [`enter`](Self::enter) remembers it as that node's doing.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    cells: Cells,
    objects: HashMap<SharedObject, u32>,
    memory: MemoryCells,
    /// Cells of the event at hand, and how they are touched.
    found: Vec<u32>,
    found_how: Vec<(u32, AccessMode)>,
    /// Stretches that it writes at once.
    long: Vec<(u64, u64)>,
}

impl Ledger {
    /// Adds the nodes that a touch makes the event at hand depend on. Bytes that are read come before bytes that
    /// are written: a cell may be divided by what is found later, and the parts of one that is written would be
    /// missed.
    pub(super) fn find(&mut self, touch: Touch, deps: &mut Vec<NodeIx>) {
        match touch {
            Touch::SharedObject(object, how) => {
                let cells = &mut self.cells;
                let cell = *self.objects.entry(object).or_insert_with(|| cells.add(NONE, 0, NONE));
                self.found.push(cell);
                self.note(how, deps);
            }
            Touch::Bytes(first, len, AccessMode::Writes) if MemoryCells::is_long(len) => {
                self.memory.survey(first, len, &mut self.cells, &mut self.found, deps);
                self.note(AccessMode::Writes, deps);
                self.long.push((first, len));
            }
            Touch::Bytes(first, len, how) => {
                self.memory.touch(first, len, &mut self.cells, &mut self.found);
                self.note(how, deps);
            }
            Touch::Forget(_) | Touch::After(_) | Touch::Before(_) | Touch::Pin(_) | Touch::Fence => {}
        }
    }

    fn note(&mut self, how: AccessMode, deps: &mut Vec<NodeIx>) {
        for cell in self.found.drain(..) {
            match how {
                AccessMode::Reads => self.cells.before_read(cell, deps),
                AccessMode::Writes => self.cells.before_write(cell, deps),
            }
            self.found_how.push((cell, how));
        }
    }

    /// The event at hand belongs to this node; `same_thread` tells whether another one is of the same thread.
    pub(super) fn enter(&mut self, node: NodeIx, same_thread: impl Fn(NodeIx) -> bool) {
        // A thing that is both read and written is written: the order of the two does not matter then.
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

    /// Nobody will touch the object any more.
    pub(super) fn forget(&mut self, object: SharedObject) {
        if let Some(cell) = self.objects.remove(&object) {
            self.cells.remove(cell);
        }
    }
}
