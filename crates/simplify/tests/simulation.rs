//! Predicted runs equal real runs.

mod toy;

use proptest::prelude::*;
use toy::{Ins, Program, programs, record};
use unsnarl_model::{
    Event, Fidelity, Flags, Op, Order, Outcome, Plan, Policy, Prefix, Schedule, Site, SiteIx, ThreadIx, Trace,
};
use unsnarl_simplify::{
    Cost,
    simulation::{EarlyStop, Simulation},
};

/// Changes the schedule of a trace: some segments are left out, others moved.
fn changed(trace: &Trace, changes: &[(usize, usize, bool)]) -> Plan {
    let prefix = trace.as_prefix(Fidelity::Relaxed);
    let mut at = 0;
    let mut pieces: Vec<_> = prefix
        .segments
        .iter()
        .map(|segment| {
            at += segment.points as usize;
            (segment.thread, prefix.actions[at - segment.points as usize..at].to_vec())
        })
        .collect();
    for &(from, to, leave_out) in changes {
        if pieces.len() > 1 {
            let piece = pieces.remove(from % pieces.len());
            if !leave_out {
                pieces.insert(to % (pieces.len() + 1), piece);
            }
        }
    }
    let mut schedule = Schedule::default();
    let mut actions = Vec::new();
    for (thread, piece) in pieces {
        piece.iter().for_each(|_| schedule.push(thread));
        actions.extend(piece);
    }
    let prefix = Prefix { segments: schedule.segments, actions, ..prefix };
    Plan { prefix, tail: Policy::Fair, ..trace.plan.clone() }
}

/// Summarises a run in a few words.
fn brief(trace: &Trace) -> String {
    let event = |event: &unsnarl_model::Event| {
        format!(
            "{}:{}@{}{}={}",
            event.thread.0,
            event.op.name(),
            trace.site(event).offset,
            if event.flags.has(Flags::FAILED) { "!" } else { "" },
            event.value
        )
    };
    let events: Vec<String> = trace.events.iter().map(event).collect();
    format!("{} → {:?} {}", events.join(", "), trace.outcome.kind, trace.outcome.message)
}

/// Predicts the result of each plan, compares it with the real result, and learns from plans that were not
/// predicted. Returns the number of predictions.
fn simulate_and_compare(program: &Program, start: &Trace, plans: &[Plan]) -> Result<usize, TestCaseError> {
    let mut simulation = Simulation::of(start);
    let mut predicted = 0;
    for plan in plans {
        let (actual, choices) = program.run_and_simulate(plan);
        match simulation.simulate(plan, None) {
            Some(simulated) => {
                predicted += 1;
                prop_assert!(
                    Simulation::is_right(&simulated, &actual),
                    "predicted: {}\nactual: {}",
                    brief(&simulated),
                    brief(&actual)
                );
                let (least, most) = (Cost::of(&simulated.events), Cost::of(&actual.events));
                prop_assert_eq!(least.switches, most.switches);
                prop_assert!(least.preemptions <= most.preemptions);
            }
            None => {
                let early_stop = EarlyStop { switches: 4, events: 8 };
                if let Some(part) = simulation.simulate(plan, Some(early_stop)) {
                    let same = part.events.iter().zip(&actual.events).all(|(a, b)| {
                        let flags = |flags: Flags| {
                            flags.0 & !(Flags::PREEMPTS | Flags::BLOCKED | Flags::UNDETERMINED).0
                        };
                        part.action(a) == actual.action(b)
                            && (a.thread, a.addr, flags(a.flags)) == (b.thread, b.addr, flags(b.flags))
                    });
                    prop_assert!(
                        same && part.events.len() <= actual.events.len(),
                        "predicted: {}\nactual: {}",
                        brief(&part),
                        brief(&actual)
                    );
                    prop_assert!(Cost::of(&part.events).switches > early_stop.switches);
                }
                simulation.learn(&actual, &choices);
            }
        }
    }
    let ended_well = !simulation.is_disabled() || start.outcome.message.contains("limit");
    prop_assert!(ended_well, "a program in memory has nothing hidden");
    Ok(predicted)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn simulated_runs_match_real_runs(
        program in programs::random(),
        seed in any::<u32>(),
        changes in prop::collection::vec(prop::collection::vec(any::<(usize, usize, bool)>(), 1..3), 1..40),
    ) {
        let start = record(&program, seed.into());
        let plans: Vec<Plan> = changes.iter().map(|changes| changed(&start, changes)).collect();
        simulate_and_compare(&program, &start, &plans)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// This holds even if threads influence each other without an event.
    #[test]
    fn visited_runs_are_known_without_simulation(
        program in programs::random(),
        seed in any::<u32>(),
        changes in prop::collection::vec(prop::collection::vec(any::<(usize, usize, bool)>(), 1..3), 1..40),
    ) {
        let start = record(&program, seed.into());
        let mut simulation = Simulation::of(&start);
        simulation.disable();
        for changes in &changes {
            let plan = changed(&start, changes);
            let (actual, choices) = program.run_and_simulate(&plan);
            match simulation.simulate(&plan, None) {
                Some(predicted) => {
                    prop_assert!(predicted.first_difference(&actual).is_none(), "predicted: {}\nactual: {}", brief(&predicted), brief(&actual));
                    prop_assert_eq!(predicted.signature(), actual.signature());
                }
                None => simulation.learn(&actual, &choices),
            }
        }
    }
}

#[test]
fn equivalent_schedules_run_once() {
    let adds = || vec![Ins::Lock(0), Ins::Read(0), Ins::Write(0, 1), Ins::Unlock(0)];
    let main = vec![Ins::Create(1), Ins::Create(2), Ins::Join(1), Ins::Join(2)];
    let program = Program { threads: vec![main, adds(), adds()], ..Program::default() };
    let start = record(&program, 1);
    let mut simulation = Simulation::of(&start);
    simulation.disable();
    let (mut predicted, mut again) = (0, 0);
    let mut runs: Vec<Trace> = Vec::new();
    for n in 0..100 {
        let plan = changed(&start, &[(n, n / 7, n % 3 == 0), (n * 5, n / 3, false)]);
        let (actual, choices) = program.run_and_simulate(&plan);
        let is_known = simulation.simulate(&plan, None).is_some();
        predicted += u32::from(is_known);
        again += u32::from(runs.iter().any(|run| run.first_difference(&actual).is_none()));
        if !is_known {
            simulation.learn(&actual, &choices);
            runs.push(actual);
        }
    }
    assert!(predicted * 10 >= again * 9, "{predicted} of {again}");
    assert!(predicted >= 50, "{predicted} of 100");
}

#[test]
fn foreign_atomic_values_do_not_prevent_simulation() {
    let adds = || vec![Ins::Add(0, 1), Ins::Add(1, 1), Ins::Read(2), Ins::Write(2, 1)];
    let main = vec![Ins::Create(1), Ins::Create(2), Ins::Join(1), Ins::Join(2)];
    let program = Program { threads: vec![main, adds(), adds()], ..Program::default() };
    let foreign = |mut trace: Trace| {
        for event in trace.events.iter_mut().filter(|event| event.op.is_atomic()) {
            event.flags = event.flags | Flags::FOREIGN;
        }
        trace
    };
    let start = foreign(record(&program, 1));
    let plan = Plan { tail: Policy::Fair, prefix: start.as_prefix(Fidelity::Relaxed), ..start.plan.clone() };
    let predicted = Simulation::of(&start).simulate(&plan, None).expect("everything was observed");
    assert!(Simulation::is_right(&predicted, &start), "{}", brief(&predicted));
}

#[test]
fn most_schedules_of_a_small_program_are_simulated() {
    let adds =
        || vec![Ins::Read(0), Ins::Write(0, 1), Ins::Read(1), Ins::Write(1, 2), Ins::Lock(0), Ins::Unlock(0)];
    let main = vec![Ins::Create(1), Ins::Create(2), Ins::Join(1), Ins::Join(2), Ins::Read(0)];
    let program = Program { threads: vec![main, adds(), adds()], ..Program::default() };
    let start = record(&program, 1);
    let plans: Vec<Plan> =
        (0..100).map(|n| changed(&start, &[(n, n / 7, n % 3 == 0), (n * 5, n / 3, false)])).collect();
    let predicted = simulate_and_compare(&program, &start, &plans).expect("all predictions are right");
    assert!(predicted >= 70, "{predicted} of 100");
}

/// Other threads may end while main is anywhere in its code. From then on it is alone, and its accesses are
/// no events.
#[test]
fn sole_runner_behaves_as_with_other_threads() {
    let adds = vec![Ins::Add(0, 1), Ins::Add(1, 1), Ins::Add(2, 1)];
    let accesses = (0..12).flat_map(|n| [Ins::Read(3 + n), Ins::Write(3 + n, 1)]);
    let main: Vec<Ins> = std::iter::once(Ins::Create(1))
        .chain(accesses)
        .chain([Ins::Lock(0), Ins::Unlock(0), Ins::Join(1), Ins::Read(0), Ins::Lock(1)])
        .collect();
    let program = Program { threads: vec![main, adds], ..Program::default() };
    let start = program.run(&Plan { tail: Policy::Fair, ..record(&program, 1).plan });
    let mut simulation = Simulation::of(&start);
    let (others, own): (Vec<Event>, Vec<Event>) =
        start.events.iter().copied().partition(|event| event.thread.0 == 1);
    let mut predicted = 0;
    for place in 1..20 {
        let mut order = own.clone();
        order.splice(place..place, others.clone());
        let mut schedule = Schedule::default();
        order.iter().for_each(|event| schedule.push(event.thread));
        let actions = order.iter().map(|event| start.action(event)).collect();
        let prefix = Prefix { segments: schedule.segments, actions, ..start.as_prefix(Fidelity::Relaxed) };
        let plan = Plan { prefix, tail: Policy::Fair, ..start.plan.clone() };
        let (actual, choices) = program.run_and_simulate(&plan);
        match simulation.simulate(&plan, None) {
            Some(simulated) => {
                assert!(
                    Simulation::is_right(&simulated, &actual),
                    "{}\n{}",
                    brief(&simulated),
                    brief(&actual)
                );
                predicted += 1;
            }
            None => simulation.learn(&actual, &choices),
        }
    }
    assert!(predicted >= 17, "{predicted} of 19");
}

/// Builds a run of main and one thread by hand: thread, operation, site, address, size and value.
fn recorded_by_hand(events: &[(u16, Op, u64, u64, u32, u64)]) -> Trace {
    let program = Program { threads: vec![vec![Ins::Create(1)], Vec::new()], ..Program::default() };
    let site = |offset| Site { offset, ..Site::default() };
    let event = |(at, &(thread, op, _, addr, size, value)): (usize, &(u16, Op, u64, u64, u32, u64))| Event {
        thread: ThreadIx(thread),
        op,
        site: SiteIx(at as u32),
        addr,
        size,
        value,
        flags: Flags::NONE,
        order: Order::Relaxed,
    };
    Trace {
        sites: events.iter().map(|&(_, _, offset, ..)| site(offset)).collect(),
        events: events.iter().enumerate().map(event).collect(),
        outcome: Outcome::exit(0),
        ..record(&program, 1)
    }
}

fn plan_of(trace: &Trace) -> Plan {
    Plan { prefix: trace.as_prefix(Fidelity::Relaxed), tail: Policy::Fair, ..trace.plan.clone() }
}

const CREATE: (u16, Op, u64, u64, u32, u64) = (0, Op::Create, 1, 0, 0, 1);
const START: (u16, Op, u64, u64, u32, u64) = (1, Op::Start, 900, 0, 0, 0);
const EXIT: (u16, Op, u64, u64, u32, u64) = (0, Op::Exit, 12, 0, 0, 0);

#[test]
fn double_free_is_simulated() {
    let free = |first: bool, thread| (thread, Op::Free, 10, 0x5000, if first { 64 } else { 0 }, 0);
    let one = recorded_by_hand(&[CREATE, START, free(true, 1), free(false, 0), EXIT]);
    let other = recorded_by_hand(&[CREATE, START, free(true, 0), free(false, 1), EXIT]);
    let mut simulation = Simulation::of(&one);
    assert!(simulation.simulate(&plan_of(&other), None).is_none(), "this order was never observed");
    simulation.learn(&other, &[]);
    for run in [&one, &other] {
        let predicted = simulation.simulate(&plan_of(run), None).expect("this order was observed");
        assert!(Simulation::is_right(&predicted, run), "{}", brief(&predicted));
        let sizes = |trace: &Trace| -> Vec<u32> { trace.events.iter().map(|event| event.size).collect() };
        assert_eq!(sizes(&predicted), sizes(run));
    }
    assert!(!simulation.is_disabled());
}

/// A lock in uninstrumented code: its release wakes a thread if others wait, and nothing else about them
/// matters.
#[test]
fn hidden_dependence_on_waiters_is_learnt() {
    const FUTEX: u64 = 0x6000;
    let gives_back = (0, Op::Fence, 10, 0, 0, 0);
    let wakes = (0, Op::FutexWake, 11, FUTEX, 0, 1);
    let goes = |place| (1, Op::Fence, place, 0, 0, 0);
    let waits = (1, Op::FutexWait, 22, FUTEX, 0, 2);
    let mut simulation = Simulation::of(&recorded_by_hand(&[
        CREATE,
        START,
        goes(20),
        goes(21),
        waits,
        gives_back,
        wakes,
        EXIT,
    ]));
    simulation.learn(&recorded_by_hand(&[CREATE, START, gives_back, EXIT]), &[]);
    let between = recorded_by_hand(&[CREATE, START, goes(20), gives_back, EXIT]);
    let predicted = simulation.simulate(&plan_of(&between), None).expect("no thread waits");
    assert!(Simulation::is_right(&predicted, &between), "{}", brief(&predicted));
    let about_to_wait = recorded_by_hand(&[CREATE, START, goes(20), goes(21), gives_back, EXIT]);
    assert!(simulation.simulate(&plan_of(&about_to_wait), None).is_none(), "a thread is about to wait");
    assert!(!simulation.is_disabled());
}
