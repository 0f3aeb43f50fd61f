//! Numbers the values of cells that some read observes. Such a value is a *class*.

use crate::{
    hash::Map,
    model::{Model, NONE},
};

/// A value of a cell that some read observes.
pub(super) type Class = u32;

/// For each access of each step, the class that it reads and the class that it writes.
#[derive(Debug)]
pub(crate) struct Classes {
    /// By step: the index of its first entry.
    starts: Vec<u32>,
    entries: Vec<ClassEntry>,
    /// By cell: the class of its initial contents.
    pub(super) initial: Vec<Class>,
    pub(super) count: usize,
    /// By signalling step: the steps that must have begun to wait, with those that then wake.
    pub(super) waits: Map<u32, Vec<(u32, u32)>>,
}

/// A cell of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassEntry {
    pub(super) cell: u32,
    /// The contents that must be there, or [`NONE`].
    pub(super) sees: Class,
    pub(super) writes: bool,
    /// The contents afterwards; [`NONE`] if no read must see them.
    pub(super) makes: Class,
}

impl Classes {
    pub(crate) fn of(model: &Model) -> Self {
        let mut numbers: Map<(u32, u32), Class> = Map::default();
        for step in &model.steps {
            for touch in model.touches(step).iter().filter(|touch| touch.sees != NONE) {
                let next = numbers.len() as Class;
                numbers.entry((touch.cell, touch.sees)).or_insert(next);
            }
        }
        let class = |cell: u32, content: u32| numbers.get(&(cell, content)).copied().unwrap_or(NONE);
        let mut starts = Vec::with_capacity(model.steps.len() + 1);
        let mut entries = Vec::new();
        for (step, number) in model.steps.iter().zip(0..) {
            starts.push(entries.len() as u32);
            entries.extend(model.touches(step).iter().map(|touch| ClassEntry {
                cell: touch.cell,
                sees: if touch.sees == NONE { NONE } else { class(touch.cell, touch.sees) },
                writes: touch.writes,
                makes: if touch.writes { class(touch.cell, number + 1) } else { NONE },
            }));
        }
        starts.push(entries.len() as u32);
        let mut waits: Map<u32, Vec<(u32, u32)>> = Map::default();
        for signalled_wait in &model.signalled_waits {
            waits.entry(signalled_wait.signal).or_default().push((signalled_wait.wait, signalled_wait.wake));
        }
        let initial =
            (0..model.cells.count() as u32).map(|cell| class(cell, crate::model::INITIAL)).collect();
        Self { starts, entries, initial, count: numbers.len(), waits }
    }

    pub(super) fn entries(&self, step: u32) -> &[ClassEntry] {
        &self.entries[self.starts[step as usize] as usize..self.starts[step as usize + 1] as usize]
    }
}
