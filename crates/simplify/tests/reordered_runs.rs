//! A reordered trace can be executed event by event, and has the same outcome.

mod toy;

use proptest::prelude::*;
use toy::{MAX_EVENTS, Program, programs, record};
use unsnarl_model::{Event, Fidelity, Plan, Policy, Prefix, Trace};
use unsnarl_simplify::static_order::{self, Effort, Granularity, Graph, OrderStrategy, Rules};

/// Replays the trace's schedule exactly.
fn replay(program: &Program, trace: &Trace) -> Trace {
    let prefix: Prefix = trace.as_prefix(Fidelity::Exact);
    program.run(&Plan { prefix, tail: Policy::Stop, limits: trace.plan.limits, ..Plan::default() })
}

/// Returns events that are comparable across runs, whose sites may have other numbers.
fn rendered(trace: &Trace) -> Vec<(Event, u64)> {
    let site = |event: &Event| trace.site(event).offset;
    trace.events.iter().map(|e| (Event { site: Default::default(), ..*e }, site(e))).collect()
}

/// In another order other threads would be alone, so there would be other events.
fn random() -> impl Strategy<Value = Program> {
    programs::random().prop_map(|program| Program { sole_accesses_are_events: true, ..program })
}

fn is_the_same_run(program: &Program, reordered: &Trace) -> Result<(), TestCaseError> {
    let mut actual = replay(program, reordered);
    // Only a run shows whether a thread without further events was enabled.
    for at in 1..actual.events.len().min(reordered.events.len()) {
        let left = actual.events[at - 1].thread;
        if actual.events[at..].iter().all(|event| event.thread != left) {
            actual.events[at].flags = reordered.events[at].flags;
        }
    }
    prop_assert_eq!(rendered(&actual), rendered(reordered));
    prop_assert_eq!(&actual.outcome, &reordered.outcome);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn simplified_order_replays_exactly_with_same_outcome(
        program in random(),
        seed in any::<u64>(),
    ) {
        let trace = record(&program, seed);
        prop_assume!(trace.events.len() < MAX_EVENTS as usize);
        let found = static_order::simplify(&trace, Rules::of(&trace));
        is_the_same_run(&program, &found.apply(&trace))?;
    }

    #[test]
    fn simtrace_merge_orders_replay_exactly(
        program in random(),
        seed in any::<u64>(),
        grain in prop::sample::select(vec![Granularity::Event, Granularity::Segment]),
    ) {
        let trace = record(&program, seed);
        prop_assume!(trace.events.len() < MAX_EVENTS as usize);
        let graph = Graph::of(trace.events.iter().copied(), Rules::of(&trace), grain);
        for order in [OrderStrategy::Arbitrary(seed), OrderStrategy::FewSegments(Effort(1))] {
            is_the_same_run(&program, &static_order::reorder(&graph, order).apply(&trace))?;
        }
    }

    #[test]
    fn simplification_is_idempotent(program in random(), seed in any::<u64>()) {
        let trace = record(&program, seed);
        let once = static_order::simplify(&trace, Rules::of(&trace)).apply(&trace);
        let twice = static_order::simplify(&once, Rules::of(&once)).apply(&once);
        prop_assert_eq!(rendered(&once), rendered(&twice));
    }
}
