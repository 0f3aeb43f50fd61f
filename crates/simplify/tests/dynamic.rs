//! Properties of dynamic simplification, tested on random programs.

mod toy;

use proptest::prelude::*;
use toy::{InMemory, failing, programs};
use unsnarl_model::{Plan, Trace};
use unsnarl_simplify::{Cost, Runner, dynamic};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn result_keeps_failure_with_no_more_switches(
        program in programs::random(),
        seed in any::<u32>(),
    ) {
        let seed = u64::from(seed);
        let Some(start) = failing(&program, seed..seed + 20) else { return Ok(()) };
        let mut runner = InMemory::new(&program);
        let found = dynamic::simplify(&start, &mut runner, &mut |_| {});
        prop_assert_eq!(found.trace.signature(), start.signature());
        prop_assert!(Cost::of(&found.trace.events).switches <= Cost::of(&start.events).switches);
        prop_assert_eq!(found.stats.executions, runner.runs);
        let again = program.run(&found.trace.replay_plan());
        prop_assert!(found.trace.first_difference(&again).is_none());
        prop_assert_eq!(again.outcome, found.trace.outcome);
    }
}

#[test]
fn vertex_cover_construction_simplifies_to_a_cover() {
    for (vertices, edges) in [(3, &[(0, 1), (1, 2)][..]), (4, &[(0, 1), (1, 2), (2, 3), (3, 0)][..])] {
        let program = programs::vertex_cover(vertices, edges);
        let least = u64::from(u32::from(vertices) + programs::least_cover(vertices, edges)) - 1;
        let start = failing(&program, 0..10_000).expect("a schedule that keeps every edge");
        let found = dynamic::simplify(&start, &mut InMemory::new(&program), &mut |_| {});
        assert_eq!(found.trace.signature(), start.signature());
        let switches = Cost::of(&found.trace.events).switches;
        assert!(switches >= least, "{switches} switches where the least cover allows {least}");
        assert!(switches < Cost::of(&start.events).switches);
    }
}

/// Runs a few plans and then reports an interruption.
struct Impatient<'p>(InMemory<'p>, u64);

impl Runner for Impatient<'_> {
    type Error = &'static str;

    fn run(&mut self, plan: &Plan) -> Result<Trace, &'static str> {
        if self.0.runs == self.1 {
            return Err("enough");
        }
        Ok(self.0.run(plan).unwrap_or_else(|never| match never {}))
    }
}

#[test]
fn best_trace_is_kept_when_stopped() {
    let program = programs::figure_1();
    let start = failing(&program, 0..1000).expect("a failing run");
    let all = dynamic::simplify(&start, &mut InMemory::new(&program), &mut |_| {});
    let mut last = Cost::of(&start.events);
    for patience in 0..all.stats.executions {
        let mut runner = Impatient(InMemory::new(&program), patience);
        let found = dynamic::simplify(&start, &mut runner, &mut |_| {});
        assert_eq!(found.stopped, Some("enough"));
        assert_eq!(found.trace.signature(), start.signature());
        let cost = Cost::of(&found.trace.events);
        assert!(cost.switches <= last.switches);
        last = cost;
    }
    assert!(all.stopped.is_none());
}
