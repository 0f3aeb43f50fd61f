//! The steps that a reordering must contain, and those that can be useful.
//!
//! It must contain all dependences of the target steps. A thread at a target step stays there, with the locks
//! that it holds; so all critical sections of other threads on these locks must be complete. Beyond that, a
//! thread is useful to others only by releasing locks: it need not go further than to where it holds none.

use super::Searcher;
use crate::{critical_sections::last_within, order::Ideal};
use unsnarl_semantics::{HeldLock, LockMode};

/// The lower and upper bound of a reordering.
#[derive(Debug)]
pub(super) struct Bounds {
    /// By thread: the number of steps that must be done.
    pub(super) must: Ideal,
    /// By thread: the number of steps that may be done.
    pub(super) may: Ideal,
}

impl Bounds {
    /// Computes the bounds; `None` if there is no such reordering.
    pub(super) fn of(search: &Searcher<'_>, done: &[u32], targets: &[u32]) -> Option<Self> {
        let Searcher { model, order, .. } = search;
        let mut must = model.given.clone();
        for &step in done {
            order.include(model, &mut must, step);
        }
        targets.iter().for_each(|&target| order.bring_to(model, &mut must, target));
        let limits = BoundsContext { search, targets };
        loop {
            if !limits.avoids_targets(&must) {
                return None;
            }
            if !limits.make_room(&mut must)? {
                break;
            }
        }
        let may = limits.useful(&must);
        Some(Self { must, may })
    }
}

struct BoundsContext<'a> {
    search: &'a Searcher<'a>,
    targets: &'a [u32],
}

impl BoundsContext<'_> {
    fn avoids_targets(&self, ideal: &Ideal) -> bool {
        self.targets.iter().all(|&target| {
            let step = self.search.model.step(target);
            ideal[step.thread.index()] <= step.at
        })
    }

    /// Returns whether a step can be reached without executing one of the targets.
    fn possible(&self, number: u32) -> bool {
        let Searcher { model, order, .. } = self.search;
        let (step, clock) = (model.step(number), order.clock(number));
        self.targets.iter().all(|&target| {
            let target = model.step(target);
            if target.thread == step.thread {
                step.at < target.at
            } else {
                clock[target.thread.index()] <= target.at
            }
        })
    }

    /// Completes other threads' critical sections on locks that are held at the targets. Returns whether
    /// there were any; `None` if one cannot be completed.
    fn make_room(&self, must: &mut Ideal) -> Option<bool> {
        let Searcher { model, order, critical_sections, .. } = self.search;
        let mut more = false;
        for &target in self.targets {
            let target = model.step(target);
            for &HeldLock { lock, mode } in model.locksets.of(target.held) {
                for by in critical_sections.of_lock(lock).iter().filter(|by| by.thread != target.thread) {
                    let done = must[by.thread.index()];
                    let conflicting: [&[u32]; 2] =
                        [&by.exclusive, if mode == LockMode::Shared { &[] } else { &by.shared }];
                    for taking in conflicting.iter().filter_map(|list| last_within(model, list, done)) {
                        let giving = critical_sections.gives_back(taking)?;
                        more |= order.include(model, must, giving);
                    }
                }
            }
        }
        Some(more)
    }

    /// Returns how far each thread may be useful.
    fn useful(&self, must: &Ideal) -> Ideal {
        let Searcher { model, order, .. } = self.search;
        let mut may = must.clone();
        loop {
            let before = may.clone();
            for thread in 0..may.len() {
                while model.held_after(thread, may[thread]) != 0
                    && let Some(&next) = model.threads[thread].get(may[thread] as usize)
                    && self.possible(next)
                {
                    order.include(model, &mut may, next);
                }
            }
            if may == before {
                return may;
            }
        }
    }
}
