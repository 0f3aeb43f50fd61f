//! Fewer context switches without running anything.
//!
//! SimTrace (Huang and Zhang, "An Efficient Static Trace Simplification Technique for Debugging Concurrent
//! Programs", SAS 2011): events that do not depend on each other may change places, and any order that keeps the
//! dependences leads to the same end (theorem 1). So look for one in which threads run long.
//!
//! | step | file | in the paper |
//! | --- | --- | --- |
//! | which events depend on each other | [`relation`] | definition 4 |
//! | found in linear time | `ledger`, `cells`, `memory` | |
//! | events that stay together are one node | [`graph`], `clocks` | algorithm 1 |
//! | an order in few runs | `runs` | |
//! | or by merging, in an arbitrary order | `merge` | algorithm 2 |
//! | with few preemptions | `reduce_preemptions` | |
//! | the trace in that order | [`mod@reorder`], `preemption` | |
//! | the same without holding all of it | [`rebuild_schedule`] | |
//! | what the failure depends on, without the rest | [`causal_past`] | |
//!
//! [`baseline`] has the paper's algorithms as they are printed, for comparison.

pub mod baseline;
pub mod causal_past;
mod cells;
mod clocks;
pub(crate) mod fingerprint;
pub mod graph;
pub(crate) mod hash;
mod ledger;
mod memory;
mod merge;
pub(crate) mod preemption;
pub mod rebuild_schedule;
mod reduce_preemptions;
pub mod relation;
pub mod reorder;
mod runs;
#[cfg(test)]
mod tests;

pub use graph::{Builder, Granularity, Graph};
pub use relation::Rules;
pub use reorder::Reordering;
pub use runs::Effort;

use unsnarl_model::{Event, Schedule, Segment, Stats, Trace};

/// Which of the orders that keep the dependences is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderStrategy {
    /// Few runs, by a search.
    Runs(Effort),
    /// The paper's: merge neighbours in an arbitrary order, here one that follows from the seed.
    Arbitrary(u64),
}

impl Rules {
    /// What must be kept of this trace for it to be executed again.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        // Traces of other tools have no program, and their accesses are all there.
        let recorded = !trace.program.path.is_empty();
        let accesses = trace.events.iter().any(|event| event.op.is_plain_access());
        Self { hides_sole_accesses: recorded && accesses, ..Self::default() }
    }
}

/// A new order of this trace's events with few context switches. None is better that this would find: what it
/// gives for the trace in the new order is that same order.
///
/// To be sure of that it looks at least twice. For traces that are too long for that, or to be held in memory, make
/// a [`Graph`] of their events and [`reorder`] it.
#[must_use]
pub fn simplify(trace: &Trace, rules: Rules) -> Reordering {
    let mut order: Vec<usize> = (0..trace.events.len()).collect();
    loop {
        let events: Vec<Event> = order.iter().map(|&at| trace.events[at]).collect();
        let graph = Graph::of_trace(&events, rules, Granularity::Event);
        let found = reorder(&graph, OrderStrategy::Runs(Effort::for_events(graph.events())));
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

/// A new order of a graph's events.
#[must_use]
pub fn reorder(graph: &Graph, order: OrderStrategy) -> Reordering {
    let (runs, minimal) = match order {
        OrderStrategy::Runs(effort) => {
            let found = runs::order(graph, effort);
            (found.runs, found.minimal)
        }
        OrderStrategy::Arbitrary(seed) => (merge::order(graph, seed), false),
    };
    let before = graph.switches();
    let least = graph.least_switches();
    let after = runs.len().saturating_sub(1) as u64;
    if after >= before {
        let schedule = graph.schedule().clone();
        return Reordering { schedule, before, after: before, least, minimal: minimal && after == before };
    }
    let mut schedule = Schedule::default();
    for run in &runs {
        let nodes = &graph.threads[run.thread.index()][run.from as usize..run.to as usize];
        for &node in nodes {
            let points = graph.nodes[node as usize].events;
            add(&mut schedule, Segment { thread: run.thread, points });
        }
    }
    Reordering { schedule, before, after, least, minimal: minimal || after == least }
}

/// One more segment behind the others.
fn add(schedule: &mut Schedule, segment: Segment) {
    match schedule.segments.last_mut() {
        Some(last) if last.thread == segment.thread => match last.points.checked_add(segment.points) {
            Some(points) => last.points = points,
            None => schedule.segments.push(segment),
        },
        _ => schedule.segments.push(segment),
    }
}
