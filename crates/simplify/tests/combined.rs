//! Properties of static and dynamic simplification together.

mod toy;

use proptest::prelude::*;
use std::{cell::Cell, convert::Infallible};
use toy::{InMemory, failing, programs};
use unsnarl_model::{OutcomeKind, Plan, Trace};
use unsnarl_simplify::{
    Cost, Runner,
    combined::{self, SimplifyOptions},
    dynamic, test_preemptions,
};

/// Runs all plans of a batch, the last one first, before it asks which one is accepted, as many workers
/// would.
struct Eager<'p> {
    runner: InMemory<'p>,
}

impl Runner for Eager<'_> {
    type Error = Infallible;

    fn run(&mut self, plan: &Plan) -> Result<Trace, Infallible> {
        self.runner.run(plan)
    }

    fn run_until(
        &mut self,
        plans: &[Plan],
        accept: &mut dyn FnMut(usize, &Trace) -> bool,
    ) -> Result<Vec<Trace>, Infallible> {
        let mut traces = Vec::new();
        for plan in plans.iter().rev() {
            traces.insert(0, self.run(plan)?);
        }
        let accepted = (0..traces.len()).find(|&at| accept(at, &traces[at]));
        let accepted_count = accepted.map_or(traces.len(), |at| at + 1);
        traces.truncate(accepted_count);
        Ok(traces)
    }
}

/// Reports an interruption after a number of requests.
struct Impatient<'p> {
    runner: InMemory<'p>,
    left: Cell<u64>,
    fruitless_requests: Cell<u64>,
}

impl Runner for Impatient<'_> {
    type Error = &'static str;

    fn run(&mut self, plan: &Plan) -> Result<Trace, &'static str> {
        assert_ne!(self.left.get(), 0, "a run after the end");
        self.runner.run(plan).map_err(|never| match never {})
    }

    fn check_interrupt(&self) -> Result<(), &'static str> {
        self.left.set(self.left.get().saturating_sub(1));
        if self.left.get() > 0 {
            return Ok(());
        }
        self.fruitless_requests.set(self.fruitless_requests.get() + 1);
        Err("no more time")
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn result_keeps_failure_at_no_higher_cost(
        program in programs::random(),
        seed in any::<u32>(),
        effort in 0..3u32,
    ) {
        let seed = u64::from(seed);
        let Some(start) = failing(&program, seed..seed + 20) else { return Ok(()) };
        let mut runner = InMemory::new(&program);
        let options = SimplifyOptions { effort, ..SimplifyOptions::default() };
        let found = combined::simplify(&start, &mut runner, &options, &mut |_| {});
        prop_assert_eq!(found.trace.signature(), start.signature());
        prop_assert!(Cost::of(&found.trace.events) <= Cost::of(&start.events));
        prop_assert_eq!(found.stats.executions, runner.runs);
        let again = program.run(&found.trace.replay_plan());
        prop_assert!(found.trace.first_difference(&again).is_none());
        if effort >= 1 {
            let tinertia_only = dynamic::simplify(&start, &mut InMemory::new(&program), &mut |_| {});
            prop_assert!(Cost::of(&found.trace.events) <= Cost::of(&tinertia_only.trace.events));
        }
    }

    #[test]
    fn result_is_independent_of_batch_size(program in programs::random(), seed in any::<u32>()) {
        let seed = u64::from(seed);
        let Some(start) = failing(&program, seed..seed + 20) else { return Ok(()) };
        let run = |batch| {
            let options = SimplifyOptions { batch, ..SimplifyOptions::default() };
            combined::simplify(&start, &mut Eager { runner: InMemory::new(&program) }, &options, &mut |_| {})
        };
        let options = SimplifyOptions { batch: 1, ..SimplifyOptions::default() };
        let one_by_one = combined::simplify(&start, &mut InMemory::new(&program), &options, &mut |_| {});
        for batch in [1, 3, 100] {
            let found = run(batch);
            prop_assert_eq!(&found.trace, &one_by_one.trace);
            prop_assert_eq!(found.stats, one_by_one.stats);
        }
    }

    #[test]
    fn stopped_simplification_returns_best_trace(
        program in programs::random(),
        seed in any::<u32>(),
        questions in 1..80u64,
        effort in 0..3u32,
    ) {
        let seed = u64::from(seed);
        let Some(start) = failing(&program, seed..seed + 20) else { return Ok(()) };
        let options = SimplifyOptions { effort, ..SimplifyOptions::default() };
        let runner = InMemory::new(&program);
        let mut runner = Impatient { runner, left: Cell::new(questions), fruitless_requests: Cell::new(0) };
        let found = combined::simplify(&start, &mut runner, &options, &mut |_| {});
        prop_assert_eq!(found.stopped.is_some(), runner.left.get() == 0);
        prop_assert!(runner.fruitless_requests.get() <= 1);
        prop_assert_eq!(found.trace.signature(), start.signature());
        prop_assert!(Cost::of(&found.trace.events) <= Cost::of(&start.events));
        prop_assert!(found.trace.first_difference(&program.run(&found.trace.replay_plan())).is_none());
    }

    #[test]
    fn run_count_can_be_limited(program in programs::random(), seed in any::<u32>(), most in 0..6u64) {
        let seed = u64::from(seed);
        let Some(start) = failing(&program, seed..seed + 20) else { return Ok(()) };
        let options = SimplifyOptions { executions: most, ..SimplifyOptions::default() };
        let found = combined::simplify(&start, &mut InMemory::new(&program), &options, &mut |_| {});
        prop_assert!(found.stats.executions <= most);
        prop_assert_eq!(found.trace.signature(), start.signature());
    }
}

#[test]
fn batch_does_not_repeat_a_known_run() {
    use toy::{
        Ins::{Create, Join, Lock, Read, SemWait, Unlock, Write},
        Program,
    };
    let program = Program {
        threads: vec![
            vec![Create(1), Create(2), Create(3), Read(0), Write(1, 0), Read(0), Join(1), Join(2), Join(3)],
            vec![Lock(0), Lock(1), Unlock(1), Unlock(0)],
            vec![SemWait(0), Lock(1), Lock(0), Unlock(0), Unlock(1)],
            vec![Lock(1), Read(1), Read(2), Unlock(1)],
        ],
        count: 1,
        barrier: 2,
        ..Program::default()
    };
    let start = failing(&program, 1_221_830_658..1_221_830_678).expect("a deadlock");
    let runs = |batch| {
        let options = SimplifyOptions { batch, ..SimplifyOptions::default() };
        let mut runner = Eager { runner: InMemory::new(&program) };
        combined::simplify(&start, &mut runner, &options, &mut |_| {}).stats.executions
    };
    assert_eq!(runs(3), runs(1));
}

#[test]
fn combined_needs_fewer_runs_than_tinertia() {
    // The programs are the same in every run of this test; the figures are sums over all of them.
    let (mut runs, mut tinertia_runs, mut cost, mut tinertia_cost) = (0, 0, (0, 0), (0, 0));
    for (vertices, edges) in [
        (3, &[(0, 1), (1, 2)][..]),
        (4, &[(0, 1), (1, 2), (2, 3), (3, 0)][..]),
        (4, &[(0, 1), (0, 2), (0, 3)][..]),
    ] {
        let program = programs::vertex_cover(vertices, edges);
        for seed in 0..10 {
            let Some(start) = failing(&program, seed * 5000..(seed + 1) * 5000) else { continue };
            let found = combined::simplify(
                &start,
                &mut InMemory::new(&program),
                &SimplifyOptions::default(),
                &mut |_| {},
            );
            let tinertia_only = dynamic::simplify(&start, &mut InMemory::new(&program), &mut |_| {});
            runs += found.stats.executions;
            tinertia_runs += tinertia_only.stats.executions;
            let (ours, theirs) = (Cost::of(&found.trace.events), Cost::of(&tinertia_only.trace.events));
            cost = (cost.0 + ours.switches, cost.1 + ours.preemptions);
            tinertia_cost = (tinertia_cost.0 + theirs.switches, tinertia_cost.1 + theirs.preemptions);
        }
    }
    assert!(runs * 2 <= tinertia_runs, "{runs} runs against {tinertia_runs}");
    assert!(cost <= tinertia_cost, "{cost:?} against {tinertia_cost:?}");
}

#[test]
fn remaining_preemptions_are_necessary() {
    let program = programs::figure_1();
    let start = failing(&program, 0..1000).expect("a failing run");
    let mut runner = InMemory::new(&program);
    let found = combined::simplify(&start, &mut runner, &SimplifyOptions::default(), &mut |_| {});
    let Ok(reasons) = test_preemptions(&found.trace, &mut runner);
    let preemptions = Cost::of(&found.trace.events).preemptions;
    assert_eq!(reasons.len() as u64, preemptions);
    assert!(preemptions > 0 && reasons.iter().all(|test| !test.still_fails), "{reasons:?}");
    for test in reasons {
        assert_eq!(found.trace.events[test.event - 1].thread, test.thread);
        assert_eq!(test.outcome_without.kind, OutcomeKind::Exit(0));
    }
}
