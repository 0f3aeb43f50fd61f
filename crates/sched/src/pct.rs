//! Probabilistic concurrency testing: Burckhardt, Kothari, Musuvathi and Nagarakatte, "A Randomized
//! Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010, section 3.
//!
//! Every thread has a random priority, and the enabled thread with the highest one runs. At `depth - 1`
//! schedule points, chosen at random among the first `steps`, the running thread drops below all initial
//! priorities. A bug that needs `depth` ordering constraints is found with a probability of at least
//! 1/(n·k^(depth-1)) in each run.
//!
//! Deviations: threads get their priority when they are first seen, because their number is not known
//! beforehand. A thread that yields, sleeps, spins or runs for very long drops below all others, because the
//! guarantee assumes that every thread terminates, and a strict priority would starve the threads it waits
//! for.

use crate::{RunView, rng::Rng};
use alloc::vec::Vec;
use unsnarl_model::ThreadIx;

#[derive(Debug)]
pub(crate) struct PctScheduler {
    rng: Rng,
    /// The priorities by thread; higher goes first. Dropped ones are below [`INITIAL`].
    priorities: Vec<u64>,
    /// The schedule points at which the running thread drops, in descending order.
    drops: Vec<u64>,
    /// The lowest priority given out so far.
    lowest: u64,
    point: u64,
    in_a_row: u32,
}

/// The number of consecutive schedule points after which a thread must yield to the others.
const MAX_CONSECUTIVE: u32 = 10_000;

/// The lowest initial priority; later ones are below, each lower than the one before.
const INITIAL: u64 = 1 << 63;

impl PctScheduler {
    pub(crate) fn new(depth: u32, steps: u64, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut drops: Vec<u64> = (1..depth).map(|_| rng.next_u64() % steps.max(1)).collect();
        drops.sort_unstable_by(|a, b| b.cmp(a));
        Self { rng, priorities: Vec::new(), drops, lowest: INITIAL, point: 0, in_a_row: 0 }
    }

    pub(crate) fn pick(&mut self, world: &impl RunView) -> ThreadIx {
        let current = world.current();
        if self.in_a_row >= MAX_CONSECUTIVE {
            self.in_a_row = 0;
            self.lower(current);
        }
        while self.drops.last() == Some(&self.point) {
            self.drops.pop();
            self.lower(current);
        }
        self.point += 1;
        let mut chosen = self.highest(world);
        // A thread that yields lets all the others pass, once each; the bound is for when no thread has work
        // to do.
        let mut attempts = world.ready().len() + world.may_expire().len();
        while attempts > 1 && world.yields(chosen) {
            self.lower(chosen);
            chosen = self.highest(world);
            attempts -= 1;
        }
        self.in_a_row = if chosen == current { self.in_a_row + 1 } else { 0 };
        chosen
    }

    fn highest(&mut self, world: &impl RunView) -> ThreadIx {
        let all = world.ready().iter().chain(world.may_expire().iter());
        all.max_by_key(|&thread| self.priority(thread)).unwrap_or(ThreadIx::MAIN)
    }

    fn priority(&mut self, thread: ThreadIx) -> u64 {
        while self.priorities.len() <= thread.index() {
            let priority = INITIAL | self.rng.next_u64();
            self.priorities.push(priority);
        }
        self.priorities[thread.index()]
    }

    fn lower(&mut self, thread: ThreadIx) {
        self.priority(thread);
        self.lowest -= 1;
        self.priorities[thread.index()] = self.lowest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Toy;

    fn run(pct: &mut PctScheduler, toy: &mut Toy, points: usize) -> Vec<u16> {
        (0..points)
            .map(|_| {
                let thread = pct.pick(toy);
                toy.run(thread);
                thread.0
            })
            .collect()
    }

    #[test]
    fn depth_one_runs_highest_priority_only() {
        let mut toy = Toy::new(4);
        let picks = run(&mut PctScheduler::new(1, 100, 7), &mut toy, 100);
        assert!(picks.iter().all(|&t| t == picks[0]), "{picks:?}");
    }

    #[test]
    fn priority_drops_depth_minus_one_times() {
        for seed in 0..50 {
            let mut toy = Toy::new(4);
            let picks = run(&mut PctScheduler::new(3, 100, seed), &mut toy, 200);
            let switches = picks.windows(2).filter(|w| w[0] != w[1]).count();
            assert!(switches <= 2, "{picks:?}");
        }
    }

    #[test]
    fn spinning_thread_lets_others_run() {
        let mut toy = Toy::new(2);
        let mut pct = PctScheduler::new(1, 100, 1);
        let first = pct.pick(&toy);
        toy.run(first);
        toy.set_yields(first, true);
        assert_ne!(pct.pick(&toy), first);
    }

    #[test]
    fn all_thread_orders_are_equally_likely() {
        let toy = Toy::new(3);
        let mut firsts = [0; 3];
        (0..3000).for_each(|seed| firsts[PctScheduler::new(2, 10, seed).pick(&toy).index()] += 1);
        assert!(firsts.iter().all(|n| (850..1150).contains(n)), "{firsts:?}");
    }
}
