//! The locksets of threads. Locksets are numbered, so that an access stores its own in 16 bits.

use alloc::{collections::BTreeMap, vec, vec::Vec};
use unsnarl_model::ThreadIx;
use unsnarl_semantics::{Holding, LockMode, Step, holdings};

/// A lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    lock: u64,
    /// True if the lock is held in exclusive mode.
    exclusive: bool,
}

/// All locksets that threads hold or have held.
#[derive(Debug)]
pub(crate) struct Locksets {
    /// Indexed by number; 0 is the empty set.
    sets: Vec<Vec<Held>>,
    numbers: BTreeMap<Vec<Held>, u16>,
    threads: Vec<Holder>,
}

#[derive(Clone, Debug, Default)]
struct Holder {
    held: Vec<Held>,
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
        self.threads.get(thread.index()).map_or(0, |holder| holder.number)
    }

    /// Returns whether the two sets share no lock that excludes the other's holder.
    pub(crate) fn disjoint(&self, a: u16, b: u16) -> bool {
        let (a, b) = (&self.sets[a as usize], &self.sets[b as usize]);
        !a.iter().any(|x| b.iter().any(|y| x.lock == y.lock && (x.exclusive || y.exclusive)))
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
        holdings(step, |holding| match holding {
            Holding::Acquired { lock, mode } => self.take(step.thread, lock, mode == LockMode::Exclusive),
            Holding::Released { lock, .. } => self.release(step.thread, lock),
        });
    }

    fn holder(&mut self, thread: ThreadIx) -> &mut Holder {
        if self.threads.len() <= thread.index() {
            self.threads.resize(thread.index() + 1, Holder::default());
        }
        &mut self.threads[thread.index()]
    }

    fn take(&mut self, thread: ThreadIx, lock: u64, exclusive: bool) {
        let held = &mut self.holder(thread).held;
        let new = Held { lock, exclusive };
        if let Err(at) = held.binary_search(&new) {
            held.insert(at, new);
            self.renumber(thread);
        }
    }

    fn release(&mut self, thread: ThreadIx, lock: u64) {
        let held = &mut self.holder(thread).held;
        if let Some(at) = held.iter().position(|held| held.lock == lock) {
            held.remove(at);
            self.renumber(thread);
        }
    }

    fn renumber(&mut self, thread: ThreadIx) {
        let Self { sets, numbers, threads } = self;
        let holder = &mut threads[thread.index()];
        holder.number = if holder.held.is_empty() {
            0
        } else if let Some(&number) = numbers.get(&holder.held) {
            number
        } else if let Ok(number) = u16::try_from(sets.len()) {
            sets.push(holder.held.clone());
            numbers.insert(holder.held.clone(), number);
            number
        } else {
            // Out of numbers: act as if no lock were held, which adds conflicts and loses none.
            0
        };
    }
}
