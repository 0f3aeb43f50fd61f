//! Reorderings that leave the order of critical sections as it was: decided in near-linear time.
//!
//! Mathur, Pavlogiannis and Viswanathan, "Optimal prediction of synchronization-preserving races" (POPL 2021),
//! and for deadlocks Tunç, Mathur, Pavlogiannis and Viswanathan (PLDI 2023): take the steps that the wanted ones
//! cannot do without; of two critical sections of a lock in that set, the earlier one must be whole; repeat. If
//! the wanted steps are not among them in the end, then the set, in the order of the trace, leads to them.
//!
//! The set only grows with the wanted steps, so lists of them are gone through with one finger on each.

use crate::{
    critical_sections::{CriticalSections, LockUses, last_within},
    model::Model,
    order::{Ideal, MustHappenBefore},
};

/// The closure of some steps.
#[derive(Debug)]
pub(crate) struct Closure<'m> {
    model: &'m Model,
    order: &'m MustHappenBefore,
    critical_sections: &'m CriticalSections,
    /// So far.
    pub(crate) ideal: Ideal,
    /// By thread: how many of its takings are within.
    takings: Vec<usize>,
    /// Locks that more takings of have come within.
    dirty_locks: Vec<u32>,
    /// By lock: it is in that list.
    is_dirty: Vec<bool>,
    /// A section would have to be whole that never ends.
    pub(crate) stuck: bool,
}

impl<'m> Closure<'m> {
    pub(crate) fn new(
        model: &'m Model,
        order: &'m MustHappenBefore,
        critical_sections: &'m CriticalSections,
    ) -> Self {
        let mut closure = Self {
            model,
            order,
            critical_sections,
            ideal: model.given.clone(),
            takings: vec![0; model.threads.len()],
            dirty_locks: Vec::new(),
            is_dirty: vec![false; model.locks.len()],
            stuck: false,
        };
        closure.settle();
        closure
    }

    /// Makes a step the next of its thread.
    pub(crate) fn bring_to(&mut self, number: u32) {
        self.order.bring_to(self.model, &mut self.ideal, number);
        self.settle();
    }

    /// Has a step done.
    pub(crate) fn include(&mut self, number: u32) {
        self.order.include(self.model, &mut self.ideal, number);
        self.settle();
    }

    /// Whether the step had to be done.
    pub(crate) fn has(&self, number: u32) -> bool {
        let step = self.model.step(number);
        self.ideal[step.thread.index()] > step.at
    }

    fn settle(&mut self) {
        loop {
            for thread in 0..self.ideal.len() {
                let all = &self.critical_sections.of_thread[thread];
                while let Some(&(at, lock)) = all.get(self.takings[thread])
                    && at < self.ideal[thread]
                {
                    self.takings[thread] += 1;
                    if !std::mem::replace(&mut self.is_dirty[lock as usize], true) {
                        self.dirty_locks.push(lock);
                    }
                }
            }
            let Some(lock) = self.dirty_locks.pop() else { return };
            self.is_dirty[lock as usize] = false;
            self.complete(lock);
            if self.stuck {
                return;
            }
        }
    }

    /// All critical sections of a lock but the last must be whole.
    fn complete(&mut self, lock: u32) {
        let model = self.model;
        let within =
            |ideal: &Ideal, by: &LockUses, list: &[u32]| last_within(model, list, ideal[by.thread.index()]);
        let all = self.critical_sections.of_lock(lock);
        // The latest two, of different threads: of all takings, and of those that exclude readers too.
        let mut any = Latest::default();
        let mut latest_exclusive = Latest::default();
        for (user, by) in all.iter().enumerate() {
            let exclusive = within(&self.ideal, by, &by.exclusive);
            any.add(user, exclusive.max(within(&self.ideal, by, &by.shared)));
            latest_exclusive.add(user, exclusive);
        }
        for (user, by) in all.iter().enumerate() {
            let exclusive =
                within(&self.ideal, by, &by.exclusive).filter(|&own| any.latest_excluding(user) > Some(own));
            let shared = within(&self.ideal, by, &by.shared)
                .filter(|&own| latest_exclusive.latest_excluding(user) > Some(own));
            for taking in exclusive.into_iter().chain(shared) {
                match self.critical_sections.gives_back(taking) {
                    Some(giving) => {
                        self.order.include(model, &mut self.ideal, giving);
                    }
                    None => self.stuck = true,
                }
            }
        }
    }
}

/// The latest step, and the latest of somebody else's.
#[derive(Default)]
struct Latest {
    first: Option<(u32, usize)>,
    second: Option<u32>,
}

impl Latest {
    fn add(&mut self, user: usize, step: Option<u32>) {
        let Some(step) = step else { return };
        match self.first {
            Some((first, _)) if first >= step => self.second = self.second.max(Some(step)),
            first => {
                self.second = first.map(|(step, _)| step).max(self.second);
                self.first = Some((step, user));
            }
        }
    }

    fn latest_excluding(&self, user: usize) -> Option<u32> {
        match self.first {
            Some((_, other)) if other == user => self.second,
            first => first.map(|(step, _)| step),
        }
    }
}

/// The first choice of one step from each list, all of different threads, that can be brought together, and what
/// leads to it. The lists are in order.
pub(crate) fn first_meeting(
    model: &Model,
    order: &MustHappenBefore,
    critical_sections: &CriticalSections,
    lists: &[&[u32]],
) -> Option<(Vec<u32>, Ideal)> {
    let mut at = vec![0; lists.len()];
    let mut closure = Closure::new(model, order, critical_sections);
    loop {
        let mut chosen = Vec::with_capacity(lists.len());
        for (list, &at) in lists.iter().zip(&at) {
            chosen.push(*list.get(at)?);
        }
        chosen.iter().for_each(|&step| closure.bring_to(step));
        if closure.stuck {
            return None;
        }
        let passed = chosen.iter().position(|&step| closure.has(step));
        match passed {
            // No later choice of the others does without it.
            Some(list) => at[list] += 1,
            None => return Some((chosen, closure.ideal)),
        }
    }
}
