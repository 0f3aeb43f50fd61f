//! Several strategies in turn: none is best for every bug, and a run of each costs little.

use crate::{
    Chess, CompleteSearch, Knowledge, Novelty, PctStrategy, RaceDirectedStrategy, RunSummary, SeedSweep,
    Strategy,
};
use std::collections::VecDeque;
use unsnarl_model::{Plan, Policy};

/// Runs its strategies in turn. All of them learn of the conflicts that any run shows.
#[derive(Debug)]
pub struct Portfolio {
    strategies: Vec<Box<dyn Strategy>>,
    turn: usize,
    /// The strategies whose plans are being run, in order.
    running: VecDeque<usize>,
}

/// The bound of the systematic search; how far it gets depends on the available time.
const BOUND: u32 = 3;

/// The sequence of turns, by strategy number, repeated. At first many runs target a conflict, since most bugs
/// are conflicts; the rest is shared among the strategies that need no known conflict.
const TURNS: &[usize] =
    &[0, 1, 1, 1, 2, 2, 2, 1, 2, 2, 2, 1, 2, 2, 3, 2, 1, 2, 2, 4, 2, 1, 2, 2, 5, 2, 1, 2, 2, 6];

/// Runs with at most this many points leave few choices: directed and systematic search exhaust them before
/// random search does.
const SHORT: u64 = 32;
const SHORT_TURNS: &[usize] =
    &[0, 1, 1, 1, 0, 1, 1, 2, 1, 0, 1, 1, 3, 1, 0, 1, 1, 4, 1, 0, 1, 1, 6, 1, 0, 1, 1, 5, 1];

/// After this many turns the bug probably needs many switches, so strategies that learn from each run have
/// the better chance.
const LATE: usize = 2000;
const LATE_TURNS: &[usize] = &[6, 1, 6, 0, 6, 4, 6, 2, 6, 3];

impl Portfolio {
    /// Builds the portfolio: systematic search, race-directed testing, random walk, PCT with two priority
    /// changes, partial order sampling, PCT with one priority change, and novelty search.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            strategies: vec![
                Box::new(Chess::new(plan.clone(), BOUND)),
                Box::new(RaceDirectedStrategy::new(plan.clone())),
                Box::new(SeedSweep::new(plan.clone(), Policy::Random)),
                Box::new(PctStrategy::new(plan.clone(), 3)),
                Box::new(SeedSweep::new(plan.clone(), Policy::Pos)),
                Box::new(PctStrategy::new(plan.clone(), 2)),
                Box::new(Novelty::new(plan.clone())),
            ],
            turn: 0,
            running: VecDeque::new(),
        }
    }
}

impl Strategy for Portfolio {
    fn name(&self) -> String {
        "portfolio".into()
    }

    fn draws_samples(&self) -> bool {
        true
    }

    fn next(&mut self, known: &Knowledge) -> Option<Plan> {
        let turns = match self.turn {
            LATE.. => LATE_TURNS,
            _ if known.longest() <= SHORT => SHORT_TURNS,
            _ => TURNS,
        };
        for _ in 0..turns.len() {
            let index = turns[self.turn % turns.len()];
            self.turn += 1;
            if let Some(plan) = self.strategies[index].next(known) {
                self.running.push_back(index);
                return Some(plan);
            }
        }
        None
    }

    fn learn(&mut self, plan: &Plan, summary: &RunSummary<'_>) {
        if let Some(index) = self.running.pop_front() {
            self.strategies[index].learn(plan, summary);
        }
    }

    fn completeness(&self) -> Option<CompleteSearch> {
        self.strategies.iter().find_map(|strategy| strategy.completeness())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portfolio_runs_all_strategies() {
        for points in [SHORT, 1000] {
            let mut portfolio = Portfolio::new(&Plan::default());
            let mut known = Knowledge::default();
            known.learn(&RunSummary { points, ..RunSummary::default() });
            let tails: Vec<_> = (0..TURNS.len())
                .filter_map(|_| portfolio.next(&known))
                .map(|plan| plan.tail.name())
                .collect();
            for name in ["fair", "random", &format!("pct:3:{points}"), "pos", &format!("pct:2:{points}")] {
                assert!(tails.iter().any(|tail| tail == name), "{name} in {tails:?}");
            }
        }
    }
}
