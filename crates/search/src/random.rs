//! A uniform random walk for each run, each with the next seed.

use crate::Strategy;
use unsnarl_model::{Plan, Policy};

/// Random walks. The plan of a run depends on its seed alone, so a single run can be repeated by it.
#[derive(Debug)]
pub struct Random {
    plan: Plan,
}

impl Random {
    /// Walks from this plan's seed on.
    #[must_use]
    pub const fn new(plan: Plan) -> Self {
        Self { plan }
    }
}

impl Strategy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn next(&mut self) -> Option<Plan> {
        let plan = Plan { tail: Policy::Random, ..self.plan.clone() };
        self.plan.seed = self.plan.seed.wrapping_add(1);
        Some(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_the_next_seed() {
        let mut random = Random::new(Plan { seed: 7, ..Plan::default() });
        let seeds: Vec<_> = std::iter::from_fn(|| random.next()).take(3).map(|plan| plan.seed).collect();
        assert_eq!(seeds, [7, 8, 9]);
    }
}
