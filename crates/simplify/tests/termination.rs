//! Simplification ends by itself, at a fixed point, and its cost follows what is left.

mod toy;

use proptest::prelude::*;
use toy::{InMemory, Program, failing, programs};
use unsnarl_model::{Event, Op, Plan, Policy, RunLimits, ThreadIx, Trace};
use unsnarl_simplify::{
    Cost,
    combined::{self, SimplifyOptions},
    dynamic,
};

fn options(effort: u32) -> SimplifyOptions {
    SimplifyOptions { effort, ..SimplifyOptions::default() }
}

fn rank(trace: &Trace) -> (Cost, usize) {
    (Cost::of(&trace.events), trace.events.len())
}

/// Returns the first failing random run with at least this many context switches.
fn long_failing(program: &Program, switches: u64) -> Trace {
    let limits = RunLimits { events: 1_000_000, ..RunLimits::default() };
    let runs =
        (0..10_000).map(|seed| program.run(&Plan { tail: Policy::Random, seed, limits, ..Plan::default() }));
    runs.into_iter()
        .find(|trace| trace.outcome.is_failure() && Cost::of(&trace.events).switches >= switches)
        .expect("a failing run")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn tinertia_never_makes_a_trace_longer_at_the_same_cost(
        program in programs::polling(),
        seed in any::<u32>(),
    ) {
        let seed = u64::from(seed);
        let Some(start) = failing(&program, seed..seed + 20) else { return Ok(()) };
        let mut ranks = vec![rank(&start)];
        let found = dynamic::simplify(&start, &mut InMemory::new(&program), &mut |step| ranks.push(rank(step.trace)));
        prop_assert!(ranks.windows(2).all(|pair| pair[1] <= pair[0]), "{ranks:?}");
        prop_assert!(found.stopped.is_none());
    }

    #[test]
    fn simplification_of_polling_programs_ends(
        program in programs::polling(),
        seed in any::<u32>(),
        effort in 0..3u32,
    ) {
        let seed = u64::from(seed);
        let Some(start) = failing(&program, seed..seed + 20) else { return Ok(()) };
        let mut runner = InMemory::new(&program);
        let options = SimplifyOptions { executions: u64::MAX, ..options(effort) };
        let mut ranks = vec![rank(&start)];
        combined::simplify(&start, &mut runner, &options, &mut |step| ranks.push(rank(step.trace)));
        prop_assert!(ranks.windows(2).all(|pair| pair[1] < pair[0]), "{ranks:?}");
        prop_assert!(runner.runs < 20_000, "{} runs", runner.runs);
    }

    #[test]
    fn simplifying_a_result_changes_nothing(
        program in prop_oneof![programs::random(), programs::polling()],
        seed in any::<u32>(),
    ) {
        let seed = u64::from(seed);
        let Some(start) = failing(&program, seed..seed + 20) else { return Ok(()) };
        let once = combined::simplify(&start, &mut InMemory::new(&program), &options(1), &mut |_| {}).trace;
        let twice = combined::simplify(&once, &mut InMemory::new(&program), &options(1), &mut |_| {}).trace;
        prop_assert_eq!(&once.events, &twice.events);
    }
}

#[test]
fn figure_1_with_a_polling_loop_needs_few_runs() {
    use toy::Ins::{Goto, Read, Sleep, Unless, Write};
    let one = programs::figure_1().threads.swap_remove(0);
    let two = vec![Read(0), Unless(0, 4), Sleep, Goto(0), Write(1, 3), Write(0, 0)];
    let program = Program::bare(vec![one, two]);
    let mut starts = 0;
    for seed in 0..2_000 {
        let Some(start) = failing(&program, [seed]) else { continue };
        starts += 1;
        let mut runner = InMemory::new(&program);
        let found = combined::simplify(&start, &mut runner, &options(1), &mut |_| {});
        assert_eq!(Cost::of(&found.trace.events).switches, 2);
        assert!(runner.runs < 200, "{} runs for a trace of {} events", runner.runs, start.events.len());
    }
    assert!(starts > 20, "{starts}");
}

#[test]
fn executed_length_is_bounded() {
    let program = programs::long(2, 100);
    let start = long_failing(&program, 50);
    let mut longest = 0;
    let mut runner = Longest { runner: InMemory::new(&program), longest: &mut longest };
    let found = combined::simplify(&start, &mut runner, &options(1), &mut |_| {});
    assert!(longest <= 4 * start.events.len() as u64 + 10_000);
    assert_eq!(found.trace.plan.limits, start.plan.limits, "the limits of the trace stay");
}

/// Records the limit of events of the longest run that was requested.
struct Longest<'p, 'l> {
    runner: InMemory<'p>,
    longest: &'l mut u64,
}

impl unsnarl_simplify::Runner for Longest<'_, '_> {
    type Error = std::convert::Infallible;

    fn run(&mut self, plan: &Plan) -> Result<Trace, Self::Error> {
        *self.longest = (*self.longest).max(plan.limits.events);
        self.runner.run(plan)
    }
}

#[test]
fn cost_follows_what_is_left() {
    // Ten times as many switches, of which as few matter, take hardly more runs.
    let runs = |rounds, switches| {
        let program = programs::long(4, rounds);
        let start = long_failing(&program, switches);
        let mut runner = InMemory::new(&program);
        let found = combined::simplify(&start, &mut runner, &options(0), &mut |_| {});
        let cost = Cost::of(&found.trace.events);
        assert!(cost.switches <= 12 && cost.preemptions <= 2, "{cost:?} left");
        runner.runs
    };
    let (short, long) = (runs(20, 100), runs(200, 1_000));
    assert!(long <= 4 * short + 20, "{short} runs, and {long} for a trace ten times as long");
}

#[test]
fn rounds_of_a_waiting_loop_are_left_out() {
    use toy::Ins::{Create, Fail, Read, Unless, Write, Yield};
    let main = vec![Create(1), Write(0, 1), Read(1), Unless(1, 5), Fail("polled")];
    // The thread must find the variable unset once; after that it polls.
    let poller = vec![Read(0), Unless(0, 6), Yield, Read(0), Unless(1, 2), Write(1, 1)];
    let program = Program { threads: vec![main, poller], ..Program::default() };
    let polls = |trace: &Trace| trace.events.iter().filter(|event| event.op == Op::Yield).count();
    let mut tried = 0;
    for seed in 0..3_000 {
        let Some(start) = failing(&program, [seed]).filter(|start| polls(start) >= 4) else { continue };
        tried += 1;
        let found = combined::simplify(&start, &mut InMemory::new(&program), &options(0), &mut |_| {});
        assert!(polls(&found.trace) <= 2, "{} of {} rounds are left", polls(&found.trace), polls(&start));
    }
    assert!(tried > 0);
}

#[test]
fn hang_counts_only_if_it_remains_when_everybody_is_served() {
    use toy::Ins::{Add, Create, Goto, Read, Unless, Write, Yield};
    // If both threads read before either writes, an update is lost and main polls for ever. A schedule in which main
    // polls until the limit, before the others have run, is no hang.
    let main =
        vec![Create(1), Create(2), Read(0), Unless(2, 6), Read(1), Unless(9, 8), Yield, Goto(2), Add(2, 1)];
    let update = vec![Read(0), Unless(0, 4), Write(0, 1), Goto(5), Write(0, 2), Add(1, 0)];
    let program = Program { threads: vec![main, update.clone(), update], ..Program::default() };
    let limits = RunLimits { events: 100, ..RunLimits::default() };
    let mut tried = 0;
    for seed in 0..200 {
        let start = program.run(&Plan { tail: Policy::Random, seed, limits, ..Plan::default() });
        let ended = |trace: &Trace| trace.events.iter().filter(|event| event.op == Op::End).count();
        if tried == 3 || start.outcome.limit().is_none() || ended(&start) < 2 {
            continue;
        }
        tried += 1;
        for effort in [0, 1] {
            let found =
                combined::simplify(&start, &mut InMemory::new(&program), &options(effort), &mut |_| {});
            assert!(found.trace.outcome.limit().is_some());
            let is_stale =
                |event: &&Event| event.op == Op::Read && event.thread != ThreadIx::MAIN && event.value == 0;
            assert_eq!(found.trace.events.iter().filter(is_stale).count(), 2, "an update is lost");
        }
    }
    assert!(tried > 0);
}
