//! Reorderings that keep the order of critical sections: decided in near-linear time.
//!
//! Mathur, Pavlogiannis and Viswanathan, "Optimal prediction of synchronization-preserving races" (POPL
//! 2021), and for deadlocks Tunç, Mathur, Pavlogiannis and Viswanathan (PLDI 2023): take the dependences of
//! the target steps; of two critical sections of a lock in that set, the earlier one must be complete;
//! repeat. If the target steps are not in the set in the end, then the set, in the order of the trace, leads
//! to them.
//!
//! The set is monotonic in the target steps, so lists of them are scanned with one cursor each.

use crate::{
    critical_sections::{CriticalSections, LockUses, last_within},
    model::Model,
    order::{Frontier, MustHappenBefore},
};

/// The closure of some steps.
#[derive(Debug)]
pub(crate) struct Closure<'m> {
    model: &'m Model,
    order: &'m MustHappenBefore,
    critical_sections: &'m CriticalSections,
    /// The closure so far.
    pub(crate) frontier: Frontier,
    /// By thread: the number of its acquisitions in the closure.
    acquisitions: Vec<usize>,
    /// Locks with new acquisitions in the closure.
    dirty_locks: Vec<u32>,
    /// By lock: whether it is in that list.
    is_dirty: Vec<bool>,
    /// A critical section that never ends would have to be complete.
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
            frontier: model.given.clone(),
            acquisitions: vec![0; model.threads.len()],
            dirty_locks: Vec::new(),
            is_dirty: vec![false; model.locks.len()],
            stuck: false,
        };
        closure.settle();
        closure
    }

    /// Adds everything needed for a step to come next in its thread.
    pub(crate) fn extend_to(&mut self, number: u32) {
        self.order.extend_to(self.model, &mut self.frontier, number);
        self.settle();
    }

    /// Adds a step.
    pub(crate) fn include(&mut self, number: u32) {
        self.order.include(self.model, &mut self.frontier, number);
        self.settle();
    }

    /// Returns whether the step is in the closure.
    pub(crate) fn has(&self, number: u32) -> bool {
        let step = self.model.step(number);
        self.frontier[step.thread.index()] > step.at
    }

    fn settle(&mut self) {
        loop {
            for thread in 0..self.frontier.len() {
                let all = &self.critical_sections.of_thread[thread];
                while let Some(&(at, lock)) = all.get(self.acquisitions[thread])
                    && at < self.frontier[thread]
                {
                    self.acquisitions[thread] += 1;
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

    /// Completes all critical sections of a lock but the last.
    fn complete(&mut self, lock: u32) {
        let model = self.model;
        let within = |frontier: &Frontier, by: &LockUses, list: &[u32]| {
            last_within(model, list, frontier[by.thread.index()])
        };
        let all = self.critical_sections.of_lock(lock);
        // The latest two of different threads: of all acquisitions, and of the exclusive ones.
        let mut any = LatestSteps::default();
        let mut latest_exclusive = LatestSteps::default();
        for (user, by) in all.iter().enumerate() {
            let exclusive = within(&self.frontier, by, &by.exclusive);
            any.add(user, exclusive.max(within(&self.frontier, by, &by.shared)));
            latest_exclusive.add(user, exclusive);
        }
        for (user, by) in all.iter().enumerate() {
            let exclusive = within(&self.frontier, by, &by.exclusive)
                .filter(|&own| any.latest_excluding(user) > Some(own));
            let shared = within(&self.frontier, by, &by.shared)
                .filter(|&own| latest_exclusive.latest_excluding(user) > Some(own));
            for acquisition in exclusive.into_iter().chain(shared) {
                match self.critical_sections.release_of(acquisition) {
                    Some(release) => {
                        self.order.include(model, &mut self.frontier, release);
                    }
                    None => self.stuck = true,
                }
            }
        }
    }
}

/// The latest step, and the latest of another thread.
#[derive(Default)]
struct LatestSteps {
    first: Option<(u32, usize)>,
    second: Option<u32>,
}

impl LatestSteps {
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

/// Returns the first choice of one step from each list, all of different threads, that can be brought
/// together, with the closure that leads to it. The lists are in order.
pub(crate) fn first_meeting(
    model: &Model,
    order: &MustHappenBefore,
    critical_sections: &CriticalSections,
    lists: &[&[u32]],
) -> Option<(Vec<u32>, Frontier)> {
    let mut at = vec![0; lists.len()];
    let mut closure = Closure::new(model, order, critical_sections);
    loop {
        let mut chosen = Vec::with_capacity(lists.len());
        for (list, &at) in lists.iter().zip(&at) {
            chosen.push(*list.get(at)?);
        }
        chosen.iter().for_each(|&step| closure.extend_to(step));
        if closure.stuck {
            return None;
        }
        let passed = chosen.iter().position(|&step| closure.has(step));
        match passed {
            // Every later choice of the others depends on it too.
            Some(list) => at[list] += 1,
            None => return Some((chosen, closure.frontier)),
        }
    }
}
