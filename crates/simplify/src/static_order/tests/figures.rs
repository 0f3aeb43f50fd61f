//! The figures and constructions of the papers.

use super::{brute, closure::keeps};
use crate::static_order::{Effort, Granularity, Graph, OrderStrategy, Rules, reorder};
use unsnarl_model::{Event, Flags, Op, Order, SiteIx, ThreadIx};

const FREE: Rules = Rules { environment: false, hides_sole_accesses: false, end: false };

fn access(thread: u16, op: Op, addr: u64, size: u64) -> Event {
    let (flags, order) = (Flags::NONE, Order::Relaxed);
    Event { thread: ThreadIx(thread), op, flags, order, site: SiteIx(0), context: 0, size, addr, value: 0 }
}

/// SimTrace's figure 1: a1 → b2, c1 → b2, b1 → a2, b1 → c2; threads a, b, c are 0, 1, 2.
fn figure_1() -> Vec<Event> {
    vec![
        access(0, Op::Write, 0, 1),
        access(2, Op::Write, 1, 1),
        access(1, Op::Write, 2, 1),
        access(1, Op::Read, 0, 2),
        access(2, Op::Read, 2, 1),
        access(0, Op::Read, 2, 1),
    ]
}

#[test]
fn search_beats_greedy_merge_on_figure_1() {
    let events = figure_1();
    let graph = Graph::of(events.clone(), FREE, Granularity::Event);
    let by_seed: Vec<u64> =
        (0..32).map(|seed| reorder(&graph, OrderStrategy::Arbitrary(seed)).after).collect();
    assert!(by_seed.contains(&4) && by_seed.contains(&3), "{by_seed:?}");
    for effort in [Effort(1), Effort::for_events(6)] {
        let best = reorder(&graph, OrderStrategy::FewSegments(effort));
        assert_eq!((best.before, best.after), (4, 3));
        // b1, a1 a2, c1 c2, b2.
        assert_eq!(best.permutation(&events), [2, 0, 5, 1, 4, 3]);
    }
}

/// The construction of Tinertia's theorem 3.1: two actions of each vertex's thread, and for each edge of the
/// graph the first action of either end before the second action of the other.
fn vertex_cover(vertices: u16, edges: &[(u16, u16)]) -> Vec<Event> {
    // Each vertex's first action writes a byte of its own; its second one reads its neighbours'.
    let firsts = (0..vertices).map(|v| access(v, Op::Write, u64::from(v), 1));
    let mut events: Vec<Event> = firsts.collect();
    for v in 0..vertices {
        let neighbours = edges.iter().filter_map(|&(a, b)| match () {
            () if a == v => Some(b),
            () if b == v => Some(a),
            () => None,
        });
        // Several consecutive reads are one action in the graph, because no other event of the thread lies
        // between them.
        events.extend(neighbours.map(|n| access(v, Op::Read, n.into(), 1)));
    }
    events
}

fn least_cover(vertices: u16, edges: &[(u16, u16)]) -> u32 {
    let covers = |set: u32| edges.iter().all(|&(a, b)| set & (1 << a | 1 << b) != 0);
    (0..1u32 << vertices).filter(|&set| covers(set)).map(u32::count_ones).min().unwrap_or(0)
}

#[test]
fn minimal_switches_equal_minimal_vertex_cover() {
    let graphs: [(u16, &[(u16, u16)]); 5] = [
        (3, &[(0, 1), (1, 2)]),
        (3, &[(0, 1), (1, 2), (0, 2)]),
        (5, &[(0, 1), (0, 2), (0, 3), (0, 4)]),
        (5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]),
        (6, &[(0, 1), (2, 3), (4, 5), (1, 2), (3, 4), (5, 0), (0, 3)]),
    ];
    for (vertices, edges) in graphs {
        let events = vertex_cover(vertices, edges);
        let graph = Graph::of(events.clone(), FREE, Granularity::Event);
        let exact = reorder(&graph, OrderStrategy::FewSegments(Effort::EXACT));
        // One run for each thread, one more for each vertex of the cover, and a switch between any two.
        assert_eq!(exact.after, u64::from(u32::from(vertices) + least_cover(vertices, edges)) - 1);
        assert!(exact.minimal && keeps(&events, FREE, &exact.permutation(&events)));
        let usual = reorder(&graph, OrderStrategy::FewSegments(Effort::for_events(events.len() as u64)));
        assert_eq!(usual.after, exact.after);
    }
}

#[test]
fn first_action_and_inner_dependences_are_kept() {
    // The dependences that the paper's algorithm 1 as printed loses: the reads of thread 1, one as its first
    // event, one after another event of its own.
    let events = vec![
        access(0, Op::Write, 0, 1),
        access(1, Op::Read, 0, 1),
        access(0, Op::Write, 8, 1),
        access(1, Op::Write, 16, 1),
        access(1, Op::Read, 8, 1),
        access(0, Op::Write, 24, 1),
    ];
    let graph = Graph::of(events.clone(), FREE, Granularity::Event);
    let found = reorder(&graph, OrderStrategy::FewSegments(Effort::EXACT));
    assert_eq!(found.permutation(&events), [0, 2, 5, 1, 3, 4]);
    assert_eq!(found.after, brute::least_switches(&events, FREE));
}
