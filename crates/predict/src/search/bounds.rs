//! Which steps a reordering must have, and which it may have use for.
//!
//! It must have what the wanted steps cannot do without. Who is at a wanted step stays there, with the locks that
//! it holds; so everybody else's sections of these locks must be whole. Beyond that, a thread is only of use to others by
//! giving back locks: it need go no further than to where it holds none.

use super::Searcher;
use crate::{critical_sections::last_within, order::Ideal};

/// From here to there.
#[derive(Debug)]
pub(super) struct Bounds {
    /// By thread: steps that are done in any case.
    pub(super) must: Ideal,
    /// By thread: steps that may be done.
    pub(super) may: Ideal,
}

impl Bounds {
    /// None if there is no such reordering.
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

    /// Whether a step can be had without doing one of the targets.
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

    /// Completes the sections of others of locks that are held at the targets. Says whether there were any; none if
    /// one cannot be completed.
    fn make_room(&self, must: &mut Ideal) -> Option<bool> {
        let Searcher { model, order, critical_sections, .. } = self.search;
        let mut more = false;
        for &target in self.targets {
            let target = model.step(target);
            for &(lock, shared) in model.locksets.of(target.held) {
                for by in critical_sections.of_lock(lock).iter().filter(|by| by.thread != target.thread) {
                    let done = must[by.thread.index()];
                    let conflicting: [&[u32]; 2] = [&by.exclusive, if shared { &[] } else { &by.shared }];
                    for taking in conflicting.iter().filter_map(|list| last_within(model, list, done)) {
                        let giving = critical_sections.gives_back(taking)?;
                        more |= order.include(model, must, giving);
                    }
                }
            }
        }
        Some(more)
    }

    /// How far each thread may be of use.
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
