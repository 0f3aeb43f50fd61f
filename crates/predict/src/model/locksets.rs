//! Numbered locksets.

use crate::hash::Map;
use unsnarl_semantics::HeldLock;

/// Every lockset that a thread holds at some time. Number 0 is the empty one.
#[derive(Debug)]
pub(crate) struct Locksets {
    sets: Vec<Vec<HeldLock<u32>>>,
    numbers: Map<Vec<HeldLock<u32>>, u32>,
}

impl Default for Locksets {
    fn default() -> Self {
        Self { sets: vec![Vec::new()], numbers: [(Vec::new(), 0)].into_iter().collect() }
    }
}

impl Locksets {
    /// Returns the locks of a set.
    pub(crate) fn of(&self, number: u32) -> &[HeldLock<u32>] {
        &self.sets[number as usize]
    }

    /// Returns the set with one more lock.
    pub(crate) fn with(&mut self, number: u32, held: HeldLock<u32>) -> u32 {
        let mut set = self.sets[number as usize].clone();
        if let Err(at) = set.binary_search(&held) {
            set.insert(at, held);
        }
        self.number(set)
    }

    /// Returns the set without a lock.
    pub(crate) fn without(&mut self, number: u32, lock: u32) -> u32 {
        let mut set = self.sets[number as usize].clone();
        set.retain(|held| held.lock != lock);
        self.number(set)
    }

    /// Returns whether two threads can hold these sets at the same time.
    pub(crate) fn compatible(&self, a: u32, b: u32) -> bool {
        let (a, b) = (self.of(a), self.of(b));
        !a.iter().any(|x| b.iter().any(|y| x.lock == y.lock && x.mode.excludes(y.mode)))
    }

    fn number(&mut self, set: Vec<HeldLock<u32>>) -> u32 {
        let Self { sets, numbers } = self;
        *numbers.entry(set).or_insert_with_key(|set| {
            sets.push(set.clone());
            sets.len() as u32 - 1
        })
    }
}
