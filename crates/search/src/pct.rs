//! Probabilistic concurrency testing between runs: the length of a run, which the policy needs to place its
//! priority changes, is learnt from the runs before.

use crate::{Seen, Strategy};
use unsnarl_model::{Plan, Policy};

/// PCT runs of one depth, each with the next seed.
#[derive(Debug)]
pub struct Pct {
    plan: Plan,
    depth: u32,
    /// The longest run so far.
    longest: u64,
}

/// A guess at a run's length before there was one.
const GUESS: u64 = 32;

impl Pct {
    /// Runs of this depth from the plan's seed on.
    #[must_use]
    pub const fn new(plan: Plan, depth: u32) -> Self {
        Self { plan, depth, longest: 0 }
    }
}

impl Strategy for Pct {
    fn name(&self) -> String {
        format!("pct:{}", self.depth)
    }

    fn next(&mut self) -> Option<Plan> {
        let steps = if self.longest == 0 { GUESS } else { self.longest };
        let tail = Policy::Pct { depth: self.depth, steps };
        let plan = Plan { tail, ..self.plan.clone() };
        self.plan.seed = self.plan.seed.wrapping_add(1);
        Some(plan)
    }

    fn learn(&mut self, seen: &Seen) {
        self.longest = self.longest.max(seen.points);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_runs_is_learnt() {
        let mut pct = Pct::new(Plan::default(), 3);
        pct.next();
        pct.learn(&Seen { points: 500 });
        pct.learn(&Seen { points: 300 });
        assert_eq!(pct.next().map(|plan| plan.tail), Some(Policy::Pct { depth: 3, steps: 500 }));
    }
}
