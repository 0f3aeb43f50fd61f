//! The locksets of threads. Locksets are numbered, so that an access stores its own in 16 bits.

use alloc::{collections::BTreeMap, vec, vec::Vec};
use unsnarl_model::ThreadIx;
use unsnarl_semantics::{HeldLock, LockEffect, Step, lock_effects};

/// All locksets that threads hold or have held.
#[derive(Debug)]
pub(crate) struct Locksets {
    /// Indexed by number; 0 is the empty set.
    sets: Vec<Vec<HeldLock>>,
    numbers: BTreeMap<Vec<HeldLock>, u16>,
    threads: Vec<ThreadLockset>,
}

/// The current lockset of a thread.
#[derive(Clone, Debug, Default)]
struct ThreadLockset {
    held: Vec<HeldLock>,
    number: u16,
}

impl Default for Locksets {
    fn default() -> Self {
        Self { sets: vec![Vec::new()], numbers: BTreeMap::new(), threads: Vec::new() }
    }
}

impl Locksets {
    /// Returns the number of the thread's lockset.
    pub(crate) fn of(&self, thread: ThreadIx) -> u16 {
        self.threads.get(thread.index()).map_or(0, |lockset| lockset.number)
    }

    /// Returns whether the two sets share no lock that excludes the other's holder.
    pub(crate) fn disjoint(&self, a: u16, b: u16) -> bool {
        let (a, b) = (&self.sets[a as usize], &self.sets[b as usize]);
        !a.iter().any(|x| b.iter().any(|y| x.lock == y.lock && x.mode.excludes(y.mode)))
    }

    /// Returns whether every lock of `inner` is in `outer`, so that protection of `inner` implies protection
    /// of `outer`.
    pub(crate) fn within(&self, inner: u16, outer: u16) -> bool {
        inner == outer || inner == 0 || {
            let outer = &self.sets[outer as usize];
            self.sets[inner as usize].iter().all(|held| outer.contains(held))
        }
    }

    /// Processes one more step.
    pub(crate) fn step(&mut self, step: &Step) {
        lock_effects(step, |effect| match effect {
            LockEffect::Acquired(held) => self.acquire(step.thread, held),
            LockEffect::Released(HeldLock { lock, .. }) => self.release(step.thread, lock),
        });
    }

    fn of_thread(&mut self, thread: ThreadIx) -> &mut ThreadLockset {
        if self.threads.len() <= thread.index() {
            self.threads.resize(thread.index() + 1, ThreadLockset::default());
        }
        &mut self.threads[thread.index()]
    }

    fn acquire(&mut self, thread: ThreadIx, new: HeldLock) {
        let held = &mut self.of_thread(thread).held;
        if let Err(at) = held.binary_search(&new) {
            held.insert(at, new);
            self.renumber(thread);
        }
    }

    fn release(&mut self, thread: ThreadIx, lock: u64) {
        let held = &mut self.of_thread(thread).held;
        if let Some(at) = held.iter().position(|held| held.lock == lock) {
            held.remove(at);
            self.renumber(thread);
        }
    }

    fn renumber(&mut self, thread: ThreadIx) {
        let Self { sets, numbers, threads } = self;
        let lockset = &mut threads[thread.index()];
        lockset.number = if lockset.held.is_empty() {
            0
        } else if let Some(&number) = numbers.get(&lockset.held) {
            number
        } else if let Ok(number) = u16::try_from(sets.len()) {
            sets.push(lockset.held.clone());
            numbers.insert(lockset.held.clone(), number);
            number
        } else {
            // Out of numbers: act as if no lock were held, which adds conflicts and loses none.
            0
        };
    }
}
