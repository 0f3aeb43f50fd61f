//! No dependence is lost, and none is invented.

use super::{brute, random};
use crate::static_order::{
    Effort, Granularity, Graph, OrderStrategy, Rules, baseline, graph::Builder, reorder,
};
use proptest::prelude::*;
use unsnarl_model::{Event, ObjectKind, Op, Stats};

/// Returns which nodes precede which, from the graph's edges.
fn closure_of(graph: &Graph) -> Vec<Vec<bool>> {
    let mut before = vec![vec![false; graph.len()]; graph.len()];
    for node in 0..graph.len() {
        let own = &graph.nodes[node];
        let previous = own.rank.checked_sub(1).map(|rank| graph.threads[own.thread.index()][rank as usize]);
        for &direct in graph.before(node as u32).iter().chain(&previous) {
            before[node][direct as usize] = true;
            let (earlier, later) = before.split_at_mut(node);
            later[0].iter_mut().zip(&earlier[direct as usize]).for_each(|(mine, theirs)| *mine |= theirs);
        }
    }
    before
}

/// Returns whether the order keeps all dependences.
pub(super) fn keeps(events: &[Event], rules: Rules, order: &[usize]) -> bool {
    let before = brute::closure(events, rules);
    let mut place = vec![0; events.len()];
    order.iter().enumerate().for_each(|(new, &old)| place[old] = new);
    (0..events.len()).all(|j| (0..events.len()).all(|i| !before[j][i] || place[i] < place[j]))
}

fn is_permutation(order: &[usize]) -> bool {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    sorted.iter().copied().eq(0..order.len())
}

fn in_order(events: &[Event], order: &[usize]) -> Vec<Event> {
    order.iter().map(|&at| events[at]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn graph_edges_have_closure_of_conflicting_pairs(
        events in random::events(4, 24),
        rules in random::rules(),
    ) {
        let mut builder = Builder::apart(rules);
        events.iter().for_each(|&event| builder.push(event));
        prop_assert_eq!(closure_of(&builder.finish()), brute::closure(&events, rules));
    }

    #[test]
    fn new_orders_keep_dependences_with_no_more_switches(
        events in random::events(4, 24),
        rules in random::rules(),
        seed in any::<u64>(),
    ) {
        for grain in [Granularity::Event, Granularity::Segment] {
            let graph = Graph::of(events.iter().copied(), rules, grain);
            let orders = [
                OrderStrategy::Arbitrary(seed),
                OrderStrategy::FewSegments(Effort(1)),
                OrderStrategy::FewSegments(Effort(4)),
                OrderStrategy::FewSegments(Effort::for_events(24)),
            ];
            for order in orders {
                let found = reorder(&graph, order);
                let permutation = found.permutation(&events);
                prop_assert!(permutation.len() == events.len() && is_permutation(&permutation));
                prop_assert!(keeps(&events, rules, &permutation));
                let stats = Stats::of(&in_order(&events, &permutation));
                prop_assert_eq!(stats.context_switches, found.after);
                prop_assert!(found.after <= found.before);
                prop_assert_eq!(found.before, Stats::of(&events).context_switches);
                if grain == Granularity::Event {
                    prop_assert!(found.after >= found.least);
                }
            }
        }
    }

    #[test]
    fn paper_algorithms_with_all_edges_keep_dependences(
        events in random::events(4, 24),
        rules in random::rules(),
    ) {
        let found = baseline::simplify(&events, rules);
        let permutation = found.permutation(&events);
        prop_assert!(permutation.len() == events.len() && is_permutation(&permutation));
        prop_assert!(keeps(&events, rules, &permutation));
        prop_assert!(found.after <= found.before);
    }

    #[test]
    fn static_simplification_is_idempotent(
        events in random::events(4, 40),
        rules in random::rules(),
        width in 1..5usize,
    ) {
        let effort = Effort(width);
        let again = |events: &[Event]| {
            let graph = Graph::of(events.iter().copied(), rules, Granularity::Event);
            let found = reorder(&graph, OrderStrategy::FewSegments(effort));
            in_order(events, &found.permutation(events))
        };
        // No thread is created that already runs, and none is joined that continues: then order would matter.
        let on_thread = |op: Op| op.object_kind() == Some(ObjectKind::Thread);
        let events: Vec<Event> = events.into_iter().filter(|event| !on_thread(event.op)).collect();
        let once = again(&events);
        prop_assert_eq!(again(&once), once);
    }
}
