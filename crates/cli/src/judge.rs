//! Criteria by which a run that ended normally is a failure.

use crate::options::FailOn;
use std::{cell::RefCell, collections::HashMap};
use unsnarl_exec::{Executor, Settings};
use unsnarl_model::{
    Backtrace, Event, Flags, Op, Outcome, OutcomeKind, Plan, Policy, RunLimits, Side, Site, SiteIx, ThreadIx,
    Trace,
};
use unsnarl_report::{Names, ProgramNames};
use unsnarl_symbols::{Frame, Symbols, failure_place};

/// Turns a run that ended normally into a failure if it meets one of the criteria.
pub(crate) fn judge(trace: &mut Trace, fail_on: &[FailOn]) {
    if trace.outcome.is_failure() {
        return;
    }
    let fails_on = |condition| fail_on.contains(&condition);
    let failure = fails_on(FailOn::Misuse).then(|| misuse(trace)).flatten();
    let failure = failure.or_else(|| fails_on(FailOn::Race).then(|| race(trace)).flatten());
    if let Some((kind, thread, site, message)) = failure {
        trace.outcome = Outcome { thread: Some(thread), site: Some(site), message, ..Outcome::exit(0) };
        trace.outcome.kind = kind;
        trace.outcome.place = SYMBOLS.with_borrow_mut(|symbols| failure_place(trace, symbols));
    }
}

/// Applies the criterion by which a recording counted as a failure. Of several races, the recorded one counts.
pub(crate) fn judge_like(recorded: &Trace, trace: &mut Trace) {
    match recorded.outcome.kind {
        OutcomeKind::Misuse => judge(trace, &[FailOn::Misuse]),
        OutcomeKind::Race => {
            if let Some(race) = recorded.first_race() {
                trace.prefer_race(&race);
            }
            judge(trace, &[FailOn::Race]);
        }
        _ => {}
    }
}

type Failure = (OutcomeKind, ThreadIx, Site, String);

/// Returns the first misuse of synchronisation.
fn misuse(trace: &Trace) -> Option<Failure> {
    let wrong = trace.warnings.iter().find(|w| w.misuse.is_program_error())?;
    Some((OutcomeKind::Misuse, wrong.thread, wrong.site, wrong.misuse.description().into()))
}

thread_local! {
    /// The names of the program, which is the same in all runs that are judged.
    static SYMBOLS: RefCell<Symbols> = RefCell::default();
}

/// Returns the first data race.
fn race(trace: &Trace) -> Option<Failure> {
    SYMBOLS.with_borrow_mut(|symbols| race_with_names(trace, symbols))
}

fn race_with_names(trace: &Trace, symbols: &mut Symbols) -> Option<Failure> {
    let [first, second] = trace.races.first()?.sides;
    let mut names = ProgramNames::new(&trace.modules, symbols);
    let here = format!("{}/", trace.program.cwd);
    let variable = names.variable(trace.races.first()?.addr);
    let mut describe_side = |side: &Side| {
        let frame = names.place(side.site);
        let place = frame.place().unwrap_or_else(|| frame.to_string());
        (side.op.name(), place.strip_prefix(&here).unwrap_or(&place).to_owned())
    };
    let mut sides = [describe_side(&first), describe_side(&second)];
    // The order of the accesses does not matter for a race, so its text does not depend on it.
    sides.sort();
    let [(one, at), (other, there)] = sides;
    let on = variable.map_or_else(String::new, |name| format!(" of `{name}`"));
    let message = format!("{one}{on} at {at} and {other} at {there}: nothing orders them");
    Some((OutcomeKind::Race, second.thread, second.site, message))
}

/// Adds details for the reader that a trace does not hold: the call stacks of both sides of a race, and the lines that
/// called library code of the language. They come from further runs of the same schedule.
pub(crate) fn add_stacks(trace: &mut Trace) {
    add_stacks_to_race(trace);
    add_callers(trace);
}

/// Maximum number of events whose callers are looked up.
const MAX_CALLERS: usize = 4096;

/// Adds the lines that called library code of the language: in an unoptimised Rust program, for example, atomics are
/// library calls. Without such calls, nothing is run.
fn add_callers(trace: &mut Trace) {
    let mut symbols = Symbols::new();
    let mut in_library: HashMap<SiteIx, bool> = HashMap::new();
    let needs_caller = |(number, event): (usize, &Event)| {
        let all_system = in_library.entry(event.site).or_insert_with(|| {
            symbols.lookup(&trace.modules, trace.site(event)).iter().all(|frame| frame.system)
        });
        (*all_system && !matches!(event.op, Op::Start | Op::End | Op::Exit)).then_some(number as u64)
    };
    let event_numbers: Vec<u64> =
        trace.events.iter().enumerate().filter_map(needs_caller).take(MAX_CALLERS).collect();
    if event_numbers.is_empty() {
        return;
    }
    let plan = trace.replay_plan();
    let calls = Executor::new(trace.program.clone(), Settings::default())
        .and_then(|mut executor| executor.event_stacks(&plan, &event_numbers));
    // Callers are optional.
    let Ok(calls) = calls else { return };
    let mut users: HashMap<Site, bool> = HashMap::new();
    let modules = &trace.modules;
    let mut is_users = |site: &Site| {
        let describe_side = |frame: &Frame| !frame.system && frame.line.is_some();
        *users.entry(*site).or_insert_with(|| symbols.lookup(modules, *site).iter().any(describe_side))
    };
    let callers: Vec<(usize, Site)> = calls
        .into_iter()
        .filter_map(|(number, frames)| Some((number as usize, frames.into_iter().find(&mut is_users)?)))
        .collect();
    trace.add_callers(callers);
}

/// Number of threads, preempted for good, whose next operations are looked up.
const MAX_CONTINUATIONS: usize = 3;
/// Number of a thread's next events that are looked up.
const CONTINUED_EVENTS: u64 = 128;

/// Adds what explains a failure but is no event: the plain accesses of the run with their values, and what threads that
/// were preempted for good would have executed next. They come from further runs of the same schedule; if one of them
/// differs, the trace stays as it is.
pub(crate) fn add_accesses(trace: &mut Trace) {
    if !trace.outcome.is_failure() || trace.program.path.is_empty() {
        return;
    }
    let Ok(mut executor) = Executor::new(trace.program.clone(), Settings::default()) else { return };
    let plan = Plan { conflicts: false, choices: false, ..trace.replay_plan() };
    let Ok(logged) = executor.run_with_accesses(&plan) else { return };
    if trace.first_difference(&logged).is_some() || !trace.has_layout_of(&logged) {
        return;
    }
    trace.take_accesses(&logged);
    for event in preempted_for_good(trace).into_iter().take(MAX_CONTINUATIONS) {
        let limits = RunLimits { events: event + CONTINUED_EVENTS, millis: 5_000, ..plan.limits };
        let prefix = plan.prefix.clone().first_points(event as usize);
        let continued = Plan { prefix, tail: Policy::Fair, limits, ..plan.clone() };
        if let Ok(logged) = executor.run_with_accesses(&continued)
            && trace.has_layout_of(&logged)
        {
            trace.add_continuation(event, &logged);
        }
    }
}

/// Returns the events that preempted a thread that did not run again, the latest first.
fn preempted_for_good(trace: &Trace) -> Vec<u64> {
    let events = &trace.events;
    let is_last = |at: usize| events[at..].iter().all(|event| event.thread != events[at - 1].thread);
    let preempting = (1..events.len()).rev().filter(|&at| events[at].flags.has(Flags::PREEMPTS));
    preempting.filter(|&at| is_last(at)).map(|at| at as u64).collect()
}

/// Adds the call stacks of both accesses of a race that is a failure.
fn add_stacks_to_race(trace: &mut Trace) {
    let Some(race) = trace.races.first().filter(|_| trace.outcome.kind == OutcomeKind::Race) else { return };
    let plan = trace.replay_plan();
    let calls = Executor::new(trace.program.clone(), Settings::default())
        .and_then(|mut executor| executor.conflict_stacks(&plan, race, &trace.modules));
    // Stacks are optional: without them the lines are still shown.
    let Ok(calls) = calls else { return };
    let threads = race.sides.map(|side| side.thread);
    let backtraces = threads.into_iter().zip(calls).filter(|(_, frames)| !frames.is_empty());
    trace.outcome.backtraces = backtraces.map(|(thread, frames)| Backtrace { thread, frames }).collect();
}
