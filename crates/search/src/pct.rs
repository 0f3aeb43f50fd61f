//! Probabilistic concurrency testing between runs: the length of a run, which the policy needs to place its
//! priority changes, is learnt from earlier runs.

use crate::{Knowledge, Strategy, seeds::RunSeeds};
use unsnarl_model::{Plan, Policy};

/// PCT runs of one depth, each with a seed of its own.
#[derive(Debug)]
pub struct PctStrategy {
    plan: Plan,
    seeds: RunSeeds,
    depth: u32,
}

/// The assumed length of the first run.
const GUESS: u64 = 32;

impl PctStrategy {
    /// Builds the strategy; the seeds of its runs derive from the plan's.
    #[must_use]
    pub const fn new(plan: Plan, depth: u32) -> Self {
        Self { seeds: RunSeeds::new(plan.seed), plan, depth }
    }
}

impl Strategy for PctStrategy {
    fn name(&self) -> String {
        format!("pct:{}", self.depth)
    }

    fn draws_samples(&self) -> bool {
        true
    }

    fn next(&mut self, known: &Knowledge) -> Option<Plan> {
        let steps = if known.longest() == 0 { GUESS } else { known.longest() };
        let tail = Policy::Pct { depth: self.depth, steps };
        Some(known.with_seed(Plan { tail, ..self.plan.clone() }, self.seeds.next()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunSummary;

    #[test]
    fn run_length_is_learnt() {
        let mut pct = PctStrategy::new(Plan::default(), 3);
        let mut known = Knowledge::default();
        [500, 300].iter().for_each(|&points| known.learn(&RunSummary { points, ..RunSummary::default() }));
        assert_eq!(pct.next(&known).map(|plan| plan.tail), Some(Policy::Pct { depth: 3, steps: 500 }));
    }
}
