//! The steps that a reordering must contain, and those that can be useful.
//!
//! It must contain all dependences of the target steps. A thread at a target step stays there, with the locks
//! that it holds; so all critical sections of other threads on these locks must be complete. Beyond that, a
//! thread is useful to others only by releasing locks: it need not go further than to where it holds none.

use super::Searcher;
use crate::{critical_sections::last_within, order::Frontier};
use unsnarl_semantics::{HeldLock, LockMode};

/// The lower and upper bound of a reordering.
#[derive(Debug)]
pub(super) struct Bounds {
    /// By thread: the number of steps that must be done.
    pub(super) must: Frontier,
    /// By thread: the number of steps that may be done.
    pub(super) may: Frontier,
}

impl Bounds {
    /// Computes the bounds; `None` if there is no such reordering.
    pub(super) fn of(search: &Searcher<'_>, done: &[u32], targets: &[u32]) -> Option<Self> {
        let Searcher { model, order, .. } = search;
        let mut must = model.given.clone();
        for &step in done {
            order.include(model, &mut must, step);
        }
        targets.iter().for_each(|&target| order.extend_to(model, &mut must, target));
        let context = BoundsContext { search, targets };
        loop {
            if !context.avoids_targets(&must) {
                return None;
            }
            if !context.close_critical_sections(&mut must)? {
                break;
            }
        }
        let may = context.useful_frontier(&must);
        Some(Self { must, may })
    }
}

struct BoundsContext<'a> {
    search: &'a Searcher<'a>,
    targets: &'a [u32],
}

impl BoundsContext<'_> {
    fn avoids_targets(&self, frontier: &Frontier) -> bool {
        self.targets.iter().all(|&target| {
            let step = self.search.model.step(target);
            frontier[step.thread.index()] <= step.at
        })
    }

    /// Returns whether a step can be reached without executing one of the targets.
    fn is_reachable(&self, number: u32) -> bool {
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
    fn close_critical_sections(&self, must: &mut Frontier) -> Option<bool> {
        let Searcher { model, order, critical_sections, .. } = self.search;
        let mut more = false;
        for &target in self.targets {
            let target = model.step(target);
            for &HeldLock { lock, mode } in model.locksets.of(target.held) {
                for by in critical_sections.of_lock(lock).iter().filter(|by| by.thread != target.thread) {
                    let done = must[by.thread.index()];
                    let conflicting: [&[u32]; 2] =
                        [&by.exclusive, if mode == LockMode::Shared { &[] } else { &by.shared }];
                    for acquisition in conflicting.iter().filter_map(|list| last_within(model, list, done)) {
                        let release = critical_sections.release_of(acquisition)?;
                        more |= order.include(model, must, release);
                    }
                }
            }
        }
        Some(more)
    }

    /// Returns how far each thread may be useful.
    fn useful_frontier(&self, must: &Frontier) -> Frontier {
        let Searcher { model, order, .. } = self.search;
        let mut may = must.clone();
        loop {
            let before = may.clone();
            for thread in 0..may.len() {
                while model.held_after(thread, may[thread]) != 0
                    && let Some(&next) = model.threads[thread].get(may[thread] as usize)
                    && self.is_reachable(next)
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
