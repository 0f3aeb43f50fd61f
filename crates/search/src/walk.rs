//! Strategies whose runs differ only in their seed: the random walk and partial order sampling.

use crate::{Knowledge, Strategy, seeds::RunSeeds};
use unsnarl_model::{Plan, Policy};

/// Repeats one policy, each run with a seed of its own. A run's plan depends only on its seed, so the seed is
/// enough to repeat it.
#[derive(Debug)]
pub struct SeedSweep {
    plan: Plan,
    seeds: RunSeeds,
}

impl SeedSweep {
    /// Builds the strategy; the seeds of its runs derive from the plan's.
    #[must_use]
    pub fn new(plan: Plan, policy: Policy) -> Self {
        Self { seeds: RunSeeds::new(plan.seed), plan: Plan { tail: policy, ..plan } }
    }
}

impl Strategy for SeedSweep {
    fn name(&self) -> String {
        self.plan.tail.name()
    }

    fn draws_samples(&self) -> bool {
        true
    }

    fn next(&mut self, known: &Knowledge) -> Option<Plan> {
        Some(known.with_seed(self.plan.clone(), self.seeds.next()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_with_different_seeds_share_no_run() {
        let runs = |seed| {
            let mut walk = SeedSweep::new(Plan { seed, ..Plan::default() }, Policy::Random);
            let plans = std::iter::from_fn(move || walk.next(&Knowledge::default()));
            plans.take(100).map(|plan| plan.seed).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(runs(7), runs(7));
        assert_eq!(runs(7).len(), 100);
        assert!(runs(7).is_disjoint(&runs(8)));
    }
}
