//! Race-directed random testing between runs (Sen, PLDI 2008): each run targets one pair of places at which
//! conflicts were found. Inside a run, `sched/race.rs` brings the two together.
//!
//! A conflict was found in one order of its two operations. The other order is tried first, since it may not
//! have happened yet; then all orders of all pairs in turn.

use crate::{Knowledge, Strategy, seeds::RunSeeds};
use std::collections::HashMap;
use unsnarl_model::{Plan, Policy};

/// Targets each order of each pair in turn; a random walk while none is known.
#[derive(Debug)]
pub struct RaceDirectedStrategy {
    plan: Plan,
    seeds: RunSeeds,
    /// The cost of each order's runs so far: the cheapest is next.
    spent: HashMap<PairOrder, u64>,
}

/// The order in which the two places are to be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PairOrder {
    first: u16,
    second: u16,
}

/// The cost of a run that targets an order not yet seen, one that was seen, and one of two operations at the
/// same place, where swapping them changes least.
const NEW: u64 = 1;
const SEEN: u64 = 2;
const SAME_PLACE: u64 = 4;

impl RaceDirectedStrategy {
    /// Builds the strategy; the seeds of its runs derive from the plan's.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Self { seeds: RunSeeds::new(plan.seed), plan, spent: HashMap::new() }
    }

    fn order(&mut self, known: &Knowledge) -> Option<PairOrder> {
        let costs = costs(known);
        // An order that is found late does not catch up with all the runs of the others.
        let least = self.spent.values().min().copied().unwrap_or(0);
        for (order, _) in &costs {
            self.spent.entry(*order).or_insert(least);
        }
        let &(order, cost) = costs.iter().min_by_key(|(order, cost)| self.spent[order] + cost)?;
        *self.spent.entry(order).or_insert(least) += cost;
        Some(order)
    }
}

/// Returns all orders of all pairs with the cost of a run, in the order of discovery.
fn costs(known: &Knowledge) -> Vec<(PairOrder, u64)> {
    let mut costs: Vec<(PairOrder, u64)> = Vec::new();
    let mut at: HashMap<PairOrder, usize> = HashMap::new();
    let mut set = |order: PairOrder, cost: u64| {
        let at = *at.entry(order).or_insert(costs.len());
        match costs.get_mut(at) {
            Some((_, known)) => *known = cost.max(*known),
            None => costs.push((order, cost)),
        }
    };
    for pair in known.pairs() {
        let (first, second) = (pair.first, pair.second);
        let summary = if first == second { SAME_PLACE } else { SEEN };
        set(PairOrder { first: second, second: first }, NEW);
        set(PairOrder { first, second }, summary);
    }
    costs
}

impl Strategy for RaceDirectedStrategy {
    fn name(&self) -> String {
        "race".into()
    }

    fn next(&mut self, known: &Knowledge) -> Option<Plan> {
        let tail = match self.order(known) {
            Some(PairOrder { first, second }) => Policy::Race { first, second },
            None => Policy::Random,
        };
        Some(known.with_seed(Plan { tail, ..self.plan.clone() }, self.seeds.next()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunSummary;
    use unsnarl_model::{Conflict, ConflictKind, Module, ModuleIx, Op, Side, Site, ThreadIx};

    #[test]
    fn unseen_orders_come_first_then_round_robin() {
        let side =
            |offset| Side { thread: ThreadIx(0), op: Op::Write, site: Site { module: ModuleIx(0), offset } };
        let conflict = |a, b| Conflict { kind: ConflictKind::Race, addr: 0, sides: [side(a), side(b)] };
        let conflicts = [conflict(10, 20), conflict(30, 30)];
        let mut known = Knowledge::default();
        known.learn(&RunSummary {
            conflicts: &conflicts,
            modules: &[Module::default()],
            ..RunSummary::default()
        });
        let mut race = RaceDirectedStrategy::new(Plan::default());
        let orders: Vec<_> = (0..7)
            .filter_map(|_| match race.next(&known)?.tail {
                Policy::Race { first, second } => Some((first, second)),
                _ => None,
            })
            .collect();
        assert_eq!(orders[0], (1, 0), "the other way round");
        for order in [(0, 1), (1, 0), (2, 2)] {
            assert!(orders.contains(&order), "{order:?} in {orders:?}");
        }
    }
}
