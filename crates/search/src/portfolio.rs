//! Several strategies in turn: none is best for every bug, and a run of each costs little.

use crate::{Pct, Seen, Strategy, Walk};
use unsnarl_model::{Plan, Policy};

/// Takes turns, and lets everybody learn from every run.
#[derive(Debug)]
pub struct Portfolio {
    strategies: Vec<Box<dyn Strategy>>,
    turn: usize,
}

impl Portfolio {
    /// The uniform walk, partial order sampling, and priorities with one and two drops.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            strategies: vec![
                Box::new(Walk::new(plan.clone(), Policy::Random)),
                Box::new(Pct::new(plan.clone(), 3)),
                Box::new(Walk::new(plan.clone(), Policy::Pos)),
                Box::new(Pct::new(plan.clone(), 2)),
            ],
            turn: 0,
        }
    }
}

impl Strategy for Portfolio {
    fn name(&self) -> String {
        "portfolio".into()
    }

    fn next(&mut self) -> Option<Plan> {
        for _ in 0..self.strategies.len() {
            let turn = self.turn % self.strategies.len();
            self.turn += 1;
            if let Some(plan) = self.strategies[turn].next() {
                return Some(plan);
            }
        }
        None
    }

    fn learn(&mut self, seen: &Seen) {
        self.strategies.iter_mut().for_each(|strategy| strategy.learn(seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_take_turns_and_share_what_they_learn() {
        let mut portfolio = Portfolio::new(&Plan::default());
        let first: Vec<_> = (0..4).filter_map(|_| portfolio.next()).map(|plan| plan.tail.name()).collect();
        assert_eq!(first, ["random", "pct:3:32", "pos", "pct:2:32"]);
        portfolio.learn(&Seen { points: 1000 });
        let then: Vec<_> = (0..4).filter_map(|_| portfolio.next()).map(|plan| plan.tail.name()).collect();
        assert_eq!(then, ["random", "pct:3:1000", "pos", "pct:2:1000"]);
    }
}
