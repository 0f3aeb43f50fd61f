//! Compares the result with the minimum number of context switches.

use super::{brute, random};
use crate::static_order::{Effort, Granularity, Graph, OrderStrategy, reorder};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn unlimited_search_finds_the_minimum(
        events in random::events(4, 14),
        rules in random::rules(),
    ) {
        let graph = Graph::of(events.iter().copied(), rules, Granularity::Event);
        let found = reorder(&graph, OrderStrategy::FewSegments(Effort::EXACT));
        prop_assert!(found.minimal);
        prop_assert_eq!(found.after, brute::least_switches(&events, rules));
    }

    #[test]
    fn minimum_is_always_found_for_two_threads(
        events in random::events(2, 40),
        rules in random::rules(),
    ) {
        let graph = Graph::of(events.iter().copied(), rules, Granularity::Event);
        let usual = reorder(&graph, OrderStrategy::FewSegments(Effort::for_events(40)));
        let exact = reorder(&graph, OrderStrategy::FewSegments(Effort::EXACT));
        prop_assert_eq!(usual.after, exact.after);
    }

    #[test]
    fn claimed_minimum_is_a_minimum(events in random::events(5, 14), rules in random::rules()) {
        let graph = Graph::of(events.iter().copied(), rules, Granularity::Event);
        for effort in [Effort(1), Effort(2)] {
            let found = reorder(&graph, OrderStrategy::FewSegments(effort));
            if found.minimal {
                prop_assert_eq!(found.after, brute::least_switches(&events, rules));
            }
        }
    }
}
