//! Strategies whose runs differ only in their seed: the random walk and partial order sampling.

use crate::{Knowledge, Strategy};
use unsnarl_model::{Plan, Policy};

/// Repeats one policy, each run with the next seed. A run's plan depends only on its seed, so the seed is
/// enough to repeat it.
#[derive(Debug)]
pub struct SeedSweep {
    plan: Plan,
}

impl SeedSweep {
    /// Builds the strategy; runs of this policy use seeds from the plan's on.
    #[must_use]
    pub fn new(plan: Plan, policy: Policy) -> Self {
        Self { plan: Plan { tail: policy, ..plan } }
    }
}

impl Strategy for SeedSweep {
    fn name(&self) -> String {
        self.plan.tail.name()
    }

    fn next(&mut self, _known: &Knowledge) -> Option<Plan> {
        let plan = self.plan.clone();
        self.plan.seed = self.plan.seed.wrapping_add(1);
        Some(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_use_consecutive_seeds() {
        let mut walk = SeedSweep::new(Plan { seed: 7, ..Plan::default() }, Policy::Random);
        let seeds: Vec<_> =
            std::iter::from_fn(|| walk.next(&Knowledge::default())).take(3).map(|plan| plan.seed).collect();
        assert_eq!(seeds, [7, 8, 9]);
    }
}
