//! Who wrote what stands where.

use super::mix;
use crate::static_order::hash::HashMap;

/// A byte of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// It is known.
    Byte(u8),
    /// The so-manieth byte of what was written by somebody with this past.
    Part(u64, u32),
}

impl Cell {
    fn fingerprint(self) -> u64 {
        match self {
            Self::Byte(byte) => mix(1, byte.into()),
            Self::Part(writer, at) => mix(writer, u64::from(at) + 2),
        }
    }
}

/// Memory, as far as it was written since there is more than one thread.
#[derive(Debug, Default)]
pub(super) struct SimulatedMemory {
    cells: HashMap<u64, Cell>,
    /// What the rest follows from.
    base: u64,
    /// Of all cells, in whatever order they were written.
    sum: u64,
    /// How many bytes were written at once.
    sizes: HashMap<u64, u32>,
}

impl SimulatedMemory {
    /// All of it follows from this from now on.
    pub(super) fn reset(&mut self, base: u64) {
        self.cells.clear();
        (self.base, self.sum) = (base, 0);
    }

    /// A fingerprint of all of it.
    pub(super) fn fingerprint(&self) -> u64 {
        mix(self.base, self.sum)
    }

    fn set(&mut self, addr: u64, cell: Option<Cell>) {
        let fingerprint = |cell: Cell| mix(cell.fingerprint(), addr);
        let before = match cell {
            Some(cell) => self.cells.insert(addr, cell),
            None => self.cells.remove(&addr),
        };
        self.sum =
            self.sum.wrapping_sub(before.map_or(0, fingerprint)).wrapping_add(cell.map_or(0, fingerprint));
    }

    /// Somebody with this past writes something.
    pub(super) fn write(&mut self, addr: u64, size: u32, writer: u64) {
        self.sizes.insert(writer, size);
        for at in 0..size {
            self.set(addr.wrapping_add(at.into()), Some(Cell::Part(writer, at)));
        }
    }

    /// Who wrote what stands there, if all of it was written at once and nothing else with it.
    pub(super) fn writer(&self, addr: u64, size: u32) -> Option<u64> {
        let cell = |at: u32| self.cells.get(&addr.wrapping_add(at.into())).copied();
        let Some(Cell::Part(writer, 0)) = cell(0) else { return None };
        let whole = self.sizes.get(&writer) == Some(&size);
        (whole && (1..size).all(|at| cell(at) == Some(Cell::Part(writer, at)))).then_some(writer)
    }

    /// Somebody writes this.
    pub(super) fn write_value(&mut self, addr: u64, size: u32, value: u64) {
        for (at, byte) in value.to_le_bytes().into_iter().take(size as usize).enumerate() {
            self.set(addr.wrapping_add(at as u64), Some(Cell::Byte(byte)));
        }
    }

    /// Nobody cares any more what stands there.
    pub(super) fn forget(&mut self, addr: u64, size: u32) {
        for at in 0..size {
            self.set(addr.wrapping_add(at.into()), None);
        }
    }

    /// Whether all of it was written by what is told.
    pub(super) fn is_written(&self, addr: u64, size: u32) -> bool {
        (0..u64::from(size)).all(|at| self.cells.contains_key(&addr.wrapping_add(at)))
    }

    /// A fingerprint of what stands there.
    pub(super) fn content(&self, addr: u64, size: u32) -> u64 {
        (0..u64::from(size)).fold(u64::from(size), |fingerprint, at| {
            let addr = addr.wrapping_add(at);
            let cell = self.cells.get(&addr).map_or_else(|| mix(self.base, addr), |cell| cell.fingerprint());
            mix(fingerprint, cell)
        })
    }

    /// What stands there, where each byte is known.
    pub(super) fn value(&self, addr: u64, size: u32) -> Option<u64> {
        let mut bytes = [0; 8];
        for (at, byte) in bytes.get_mut(..size as usize)?.iter_mut().enumerate() {
            match self.cells.get(&addr.wrapping_add(at as u64)) {
                Some(Cell::Byte(known)) => *byte = *known,
                _ => return None,
            }
        }
        Some(u64::from_le_bytes(bytes))
    }
}
