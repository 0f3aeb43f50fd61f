//! Fewer context switches without running anything.
//!
//! SimTrace (Huang and Zhang, "An Efficient Static Trace Simplification Technique for Debugging Concurrent
//! Programs", SAS 2011): independent events may be swapped, and any order that keeps the dependences has the
//! same outcome (theorem 1). So search for one in which threads run long.
//!
//! | step | file | in the paper |
//! | --- | --- | --- |
//! | which events depend on each other | [`relation`] | definition 4 |
//! | found in linear time | `direct_dependences`, `cells`, `memory` | |
//! | events that stay together are one node | [`graph`], `clocks` | algorithm 1 |
//! | an order with few segments | `node_order` | |
//! | or by merging, in an arbitrary order | `merge` | algorithm 2 |
//! | with few preemptions | `reduce_preemptions` | |
//! | the trace in that order | [`mod@reorder`], `preemption` | |
//! | the same without holding the whole trace | [`rebuild_schedule`] | |
//! | only the events that the failure depends on | [`causal_past`] | |
//!
//! [`baseline`] has the paper's algorithms as printed, for comparison.

pub mod baseline;
pub mod causal_past;
mod cells;
mod clocks;
mod direct_dependences;
pub(crate) mod feasibility;
pub(crate) mod fingerprint;
pub mod graph;
pub(crate) mod hash;
mod memory;
mod merge;
mod node_order;
pub mod rebuild_schedule;
mod reduce_preemptions;
pub mod reorder;
#[cfg(test)]
mod tests;

pub use graph::{Builder, Granularity, Graph};
pub use node_order::Effort;
pub use reorder::Reordering;

use unsnarl_model::{Event, Schedule, Segment, Stats, Trace};
pub use unsnarl_semantics::dependence::Rules;

/// The rule that chooses among the orders that keep the dependences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderStrategy {
    /// Few segments, by a search.
    FewSegments(Effort),
    /// As in the paper: merge adjacent nodes in an arbitrary order, here determined by the seed.
    Arbitrary(u64),
}

/// Returns a new order of this trace's events with few context switches. The result is a fixed point:
/// simplifying the trace in the new order yields that same order.
///
/// To ensure that, it iterates at least twice. For traces that are too long for that, or for memory, build a
/// [`Graph`] of their events and [`reorder`] it.
#[must_use]
pub fn simplify(trace: &Trace, rules: Rules) -> Reordering {
    let mut order: Vec<usize> = (0..trace.events.len()).collect();
    loop {
        let events: Vec<Event> = order.iter().map(|&at| trace.events[at]).collect();
        let graph = Graph::of_trace(&events, rules, Granularity::Event);
        let found = reorder(&graph, OrderStrategy::FewSegments(Effort::for_events(graph.events())));
        let improved = if found.after < found.before {
            Some(found.permutation(&events).into_iter().map(|at| order[at]).collect())
        } else {
            reduce_preemptions::reduce_preemptions(trace, &order, rules)
        };
        let Some(improved) = improved else {
            let before = Stats::of(&trace.events).context_switches;
            return Reordering { before, ..found };
        };
        order = improved;
    }
}

/// Returns a new order of a graph's events.
#[must_use]
pub fn reorder(graph: &Graph, order: OrderStrategy) -> Reordering {
    let (segments, minimal) = match order {
        OrderStrategy::FewSegments(effort) => {
            let found = node_order::order(graph, effort);
            (found.segments, found.minimal)
        }
        OrderStrategy::Arbitrary(seed) => (merge::order(graph, seed), false),
    };
    let before = graph.switches();
    let least = graph.least_switches();
    let after = segments.len().saturating_sub(1) as u64;
    if after >= before {
        let schedule = graph.schedule().clone();
        return Reordering { schedule, before, after: before, least, minimal: minimal && after == before };
    }
    let mut schedule = Schedule::default();
    for segment in &segments {
        let nodes = &graph.threads[segment.thread.index()][segment.from as usize..segment.to as usize];
        for &node in nodes {
            let points = graph.nodes[node as usize].events;
            add(&mut schedule, Segment { thread: segment.thread, points });
        }
    }
    Reordering { schedule, before, after, least, minimal: minimal || after == least }
}

/// Appends a segment to the schedule.
fn add(schedule: &mut Schedule, segment: Segment) {
    match schedule.segments.last_mut() {
        Some(last) if last.thread == segment.thread => match last.points.checked_add(segment.points) {
            Some(points) => last.points = points,
            None => schedule.segments.push(segment),
        },
        _ => schedule.segments.push(segment),
    }
}
