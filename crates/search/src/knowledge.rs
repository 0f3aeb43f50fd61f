//! The results of all runs of a search: where threads conflict, and how long runs are.

use crate::{RunSummary, seeds::entropy_of};
use std::collections::{HashMap, HashSet};
use unsnarl_model::{
    Conflict, ConflictKind, ModuleIx, Op, Places, Plan, Prefix, Segment, Side, Site, Span, ThreadId, ThreadIx,
};

/// The places where threads conflict.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    places: Places,
    pairs: Vec<SitePair>,
    known: HashSet<SitePair>,
    /// The threads of conflicts between two operations at one place, in the order of execution.
    at_one_place: HashMap<u16, ThreadOrders>,
    longest: u64,
    /// The smallest number of points that a run had before its second thread.
    single_thread_points: Option<u64>,
    /// The number of results so far.
    runs: u64,
    /// The earliest use of random numbers so far.
    randomness: Randomness,
    /// True if the program's random numbers are the same in all runs.
    pins_random_numbers: bool,
    /// The number of places given by the user, which come first: accesses elsewhere are ignored. 0 if none
    /// were given.
    given_count: usize,
}

/// The orders in which threads executed two operations at one place.
#[derive(Clone, Debug)]
enum ThreadOrders {
    Some(HashSet<(ThreadIx, ThreadIx)>),
    /// Two threads were in both orders.
    Both,
}

impl ThreadOrders {
    fn add(&mut self, first: ThreadIx, second: ThreadIx) {
        let Self::Some(orders) = self else { return };
        if first == second || orders.contains(&(second, first)) {
            *self = Self::Both;
        } else {
            orders.insert((first, second));
        }
    }
}

/// The earliest use of random numbers by a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Randomness {
    /// No run did.
    #[default]
    Unused,
    /// Some run did, after it had created its second thread.
    WithThreads,
    /// Some run did before.
    BeforeThreads,
}

/// Two places with conflicting operations, by their numbers in [`Knowledge::places`], in the order of
/// execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SitePair {
    /// The kind of conflict.
    pub kind: ConflictKind,
    /// The place of the earlier operation.
    pub first: u16,
    /// The place of the later operation; may be the same.
    pub second: u16,
}

impl Knowledge {
    /// Builds the initial knowledge for the places of interest; empty for all places.
    #[must_use]
    pub fn new(given_count: Places) -> Self {
        Self { given_count: given_count.spans.len(), places: given_count, ..Self::default() }
    }

    /// Returns the knowledge of a search in which all runs have the plan's random numbers.
    #[must_use]
    pub fn with_pinned_random_numbers(self) -> Self {
        Self { pins_random_numbers: true, ..self }
    }

    /// Returns when the program uses random numbers.
    #[must_use]
    pub fn randomness(&self) -> Randomness {
        self.randomness
    }

    /// Returns whether the program's random numbers differ between runs.
    #[must_use]
    pub fn varies_random_numbers(&self) -> bool {
        self.randomness != Randomness::Unused && !self.pins_random_numbers
    }

    /// Returns a plan with this seed, and with random numbers of its own if the program uses any. Random
    /// numbers that are used before there are threads are shared by all plans that are made together: their
    /// runs continue from one snapshot.
    pub(crate) fn with_seed(&self, plan: Plan, seed: u64) -> Plan {
        let entropy = match self.randomness {
            _ if !self.varies_random_numbers() => plan.entropy,
            Randomness::BeforeThreads => entropy_of(plan.entropy ^ self.runs),
            _ => entropy_of(seed),
        };
        Plan { seed, entropy, ..plan }
    }

    /// Returns the places where conflicts were found, in the order of discovery. Both places of each pair are
    /// included.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the conflicts in the order of discovery.
    #[must_use]
    pub fn pairs(&self) -> &[SitePair] {
        &self.pairs
    }

    /// Returns the number of pairs of conflicting operations, and of those among them that were executed in both orders.
    /// Two operations at one place are in both orders if two threads were.
    #[must_use]
    pub fn orders(&self) -> (usize, usize) {
        let orders: HashSet<(u16, u16)> = self.pairs.iter().map(|pair| (pair.first, pair.second)).collect();
        let mut count = (0, 0);
        for &(first, second) in &orders {
            let both = match (first == second).then(|| self.at_one_place.get(&first)) {
                Some(threads) => matches!(threads, Some(ThreadOrders::Both)),
                None => orders.contains(&(second, first)),
            };
            if first <= second || !both {
                count.0 += 1;
                count.1 += usize::from(both);
            }
        }
        count
    }

    /// Returns the number of races, counting both orders of a pair as one.
    #[must_use]
    pub fn races(&self) -> usize {
        let races = self.pairs.iter().filter(|pair| pair.kind == ConflictKind::Race);
        let either_way = |pair: &SitePair| (pair.first.min(pair.second), pair.first.max(pair.second));
        races.map(either_way).collect::<HashSet<_>>().len()
    }

    /// Returns the number of points of the longest run.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// Returns the schedule before the second thread exists, which is the same in all runs; empty if it is
    /// unknown.
    #[must_use]
    pub fn single_thread_prefix(&self) -> Prefix {
        let points = u32::try_from(self.single_thread_points.unwrap_or(0)).unwrap_or(0);
        if points == 0 {
            return Prefix::default();
        }
        let segment = Segment { thread: ThreadIx::MAIN, points };
        Prefix { threads: vec![ThreadId::main()], segments: vec![segment], ..Prefix::default() }
    }

    pub(crate) fn learn(&mut self, summary: &RunSummary<'_>) {
        self.runs += 1;
        let randomness = match summary.first_random {
            None => Randomness::Unused,
            Some(at) if at < summary.single_thread_points => Randomness::BeforeThreads,
            Some(_) => Randomness::WithThreads,
        };
        self.randomness = self.randomness.max(randomness);
        self.longest = self.longest.max(summary.points);
        self.single_thread_points = Some(
            self.single_thread_points
                .unwrap_or(summary.single_thread_points)
                .min(summary.single_thread_points),
        );
        for conflict in summary.conflicts {
            self.add(conflict, summary);
        }
    }

    fn is_in_given_places(&self, side: &Side, summary: &RunSummary<'_>) -> bool {
        let path = |site: Site| summary.modules.get(usize::from(site.module.0)).map(|module| &module.path);
        self.given_count == 0
            || !matches!(side.op, Op::Read | Op::Write | Op::Free)
            || self.places.spans[..self.given_count].iter().any(|span| {
                (span.start..span.end).contains(&side.site.offset)
                    && self.places.modules.get(usize::from(span.module.0)) == path(side.site)
            })
    }

    fn add(&mut self, conflict: &Conflict, summary: &RunSummary<'_>) {
        // Places have 16-bit numbers, and no search gets through that many pairs.
        const MAX_SITES: usize = u16::MAX as usize - 2;
        if self.places.spans.len() >= MAX_SITES
            || !conflict.sides.iter().all(|side| self.is_in_given_places(side, summary))
        {
            return;
        }
        let mut place = |site: Site| {
            let path = summary.modules.get(usize::from(site.module.0)).map_or("", |module| &module.path);
            let module: ModuleIx = self.places.module(path);
            self.places.add(Span { module, start: site.offset, end: site.offset + 1 })
        };
        let [first, second] = conflict.sides.each_ref().map(|side| place(side.site));
        if first == second {
            let orders = self.at_one_place.entry(first);
            let orders = orders.or_insert_with(|| ThreadOrders::Some(HashSet::new()));
            orders.add(conflict.sides[0].thread, conflict.sides[1].thread);
        }
        let pair = SitePair { kind: conflict.kind, first, second };
        if self.known.insert(pair) {
            self.pairs.push(pair);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::{Module, ThreadIx};

    fn conflict(kind: ConflictKind, a: u64, b: u64) -> Conflict {
        let side =
            |offset| Side { thread: ThreadIx(0), op: Op::Write, site: Site { module: ModuleIx(1), offset } };
        Conflict { kind, addr: 0, sides: [side(a), side(b)] }
    }

    #[test]
    fn random_numbers_vary_as_soon_as_the_program_uses_them() {
        let entropies = |first_random, single_thread_points| {
            let mut known = Knowledge::default();
            known.learn(&RunSummary { first_random, single_thread_points, ..RunSummary::default() });
            let entropy = |seed| known.with_seed(Plan::default(), seed).entropy;
            let pinned = known.clone().with_pinned_random_numbers().with_seed(Plan::default(), 1).entropy;
            assert_eq!(pinned, Plan::default().entropy);
            (entropy(1), entropy(2))
        };
        let (first, second) = entropies(None, 5);
        assert_eq!((first, second), (Plan::default().entropy, Plan::default().entropy));
        let (first, second) = entropies(Some(9), 5);
        assert_ne!(first, second);
        let (first, second) = entropies(Some(2), 5);
        assert_eq!(first, second, "one snapshot for plans that are made together");
        assert_ne!(first, Plan::default().entropy);
    }

    #[test]
    fn race_counts_once_in_either_order() {
        let modules = ["a", "b"].map(|path| Module { path: path.into(), ..Module::default() });
        let conflicts = [(10, 20), (20, 10), (20, 20)].map(|(a, b)| conflict(ConflictKind::Race, a, b));
        let mut known = Knowledge::default();
        known.learn(&RunSummary {
            conflicts: &conflicts,
            modules: &modules,
            points: 7,
            ..RunSummary::default()
        });
        assert_eq!(
            known.pairs().iter().map(|p| (p.first, p.second)).collect::<Vec<_>>(),
            [(0, 1), (1, 0), (1, 1)]
        );
        assert_eq!((known.places().modules.len(), known.places().spans.len()), (1, 2));
        assert_eq!((known.races(), known.longest()), (2, 7));
    }

    #[test]
    fn pairs_are_counted_with_both_orders() {
        let modules = ["a", "b"].map(|path| Module { path: path.into(), ..Module::default() });
        let mut known = Knowledge::default();
        let mut learn = |a: u64, b: u64, threads: [u16; 2]| {
            let mut conflict = conflict(ConflictKind::Race, a, b);
            conflict.sides[0].thread = ThreadIx(threads[0]);
            conflict.sides[1].thread = ThreadIx(threads[1]);
            let conflicts = [conflict];
            known.learn(&RunSummary { conflicts: &conflicts, modules: &modules, ..RunSummary::default() });
            known.orders()
        };
        assert_eq!(learn(10, 20, [1, 2]), (1, 0));
        assert_eq!(learn(10, 20, [2, 1]), (1, 0), "the same order of places");
        assert_eq!(learn(20, 10, [1, 2]), (1, 1));
        assert_eq!(learn(30, 30, [1, 2]), (2, 1));
        assert_eq!(learn(30, 30, [1, 3]), (2, 1));
        assert_eq!(learn(30, 30, [3, 1]), (2, 2));
        assert_eq!(learn(30, 10, [3, 1]), (3, 2));
    }

    #[test]
    fn accesses_outside_given_sites_are_ignored() {
        let modules = ["a", "b"].map(|path| Module { path: path.into(), ..Module::default() });
        let mut given_count = Places::default();
        let module = given_count.module("b");
        given_count.add(Span { module, start: 5, end: 15 });
        let mut known = Knowledge::new(given_count);
        let conflicts = [(10, 20), (10, 11)].map(|(a, b)| conflict(ConflictKind::Race, a, b));
        known.learn(&RunSummary { conflicts: &conflicts, modules: &modules, ..RunSummary::default() });
        assert_eq!(known.pairs().iter().map(|p| (p.first, p.second)).collect::<Vec<_>>(), [(1, 2)]);
    }
}
