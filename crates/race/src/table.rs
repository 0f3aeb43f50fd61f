//! A table keyed by address. The same few addresses are looked up again and again: those take one comparison.

use alloc::{collections::BTreeMap, vec::Vec};

/// Marks an unused slot.
const NOWHERE: usize = usize::MAX;

/// A value for each key ever looked up. Up to `RECENT` recent keys are found at once.
#[derive(Debug)]
pub(crate) struct KeyTable<V, const RECENT: usize = 16> {
    values: Vec<V>,
    /// The index of each key's value.
    places: BTreeMap<u64, usize>,
    /// The same for recent keys, in the slot given by their low bits.
    recent: [(u64, usize); RECENT],
}

impl<V, const RECENT: usize> Default for KeyTable<V, RECENT> {
    fn default() -> Self {
        Self { values: Vec::new(), places: BTreeMap::new(), recent: [(0, NOWHERE); RECENT] }
    }
}

impl<V: Default, const RECENT: usize> KeyTable<V, RECENT> {
    /// Returns the value of this key; `None` if it has none.
    #[inline]
    pub(crate) fn get(&mut self, key: u64) -> Option<&mut V> {
        let place = self.known(key).or_else(|| self.look_up(key))?;
        self.values.get_mut(place)
    }

    /// Returns the value of this key, initially the default.
    #[inline]
    pub(crate) fn at(&mut self, key: u64) -> &mut V {
        let place = match self.known(key) {
            Some(place) => place,
            None => self.look_up(key).unwrap_or_else(|| self.add(key)),
        };
        &mut self.values[place]
    }

    #[inline]
    fn known(&self, key: u64) -> Option<usize> {
        let (of, place) = self.recent[Self::slot(key)];
        (of == key && place != NOWHERE).then_some(place)
    }

    #[inline(never)]
    fn look_up(&mut self, key: u64) -> Option<usize> {
        let place = *self.places.get(&key)?;
        self.recent[Self::slot(key)] = (key, place);
        Some(place)
    }

    /// Variables and locks are at least four bytes apart.
    #[inline]
    const fn slot(key: u64) -> usize {
        (key >> 2 ^ key >> 8) as usize % RECENT
    }

    #[cold]
    fn add(&mut self, key: u64) -> usize {
        let place = self.values.len();
        self.values.push(V::default());
        self.places.insert(key, place);
        self.recent[Self::slot(key)] = (key, place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_finds_values_among_many() {
        let mut table = KeyTable::<u64, 64>::default();
        let keys = || (0..5000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (n % 50));
        let expected: BTreeMap<u64, u64> = keys().zip(1..).collect();
        for (key, value) in keys().zip(1..) {
            *table.at(key) = value;
        }
        for key in keys().chain(keys()) {
            assert_eq!(table.get(key).copied(), expected.get(&key).copied());
        }
        for absent in [0x1234_5678_9abc_def1, u64::MAX, u64::MAX - 1, !7] {
            assert_eq!(table.get(absent), None);
        }
    }
}
