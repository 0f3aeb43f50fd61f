//! Criteria by which a run that ended normally is a failure.

use crate::options::FailOn;
use std::collections::HashMap;
use unsnarl_exec::{Executor, Settings};
use unsnarl_model::{Backtrace, Event, Op, Outcome, OutcomeKind, Side, Site, SiteIx, ThreadIx, Trace};
use unsnarl_report::{Names, ProgramNames};
use unsnarl_symbols::{Frame, Symbols};

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

/// Returns the first data race.
fn race(trace: &Trace) -> Option<Failure> {
    let [first, second] = trace.races.first()?.sides;
    let mut symbols = Symbols::new();
    let mut names = ProgramNames::new(&trace.modules, &mut symbols);
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

/// Maximum number of events whose calls are looked up.
const MAX_CALLERS: usize = 4096;

/// Adds the calls that led to events in library code: in an unoptimised Rust program, for example, atomics are library
/// calls. Without such events, nothing is run. If there is room, the calls of all other events are added, too.
fn add_callers(trace: &mut Trace) {
    let mut symbols = Symbols::new();
    let mut in_library: HashMap<SiteIx, bool> = HashMap::new();
    let mut needs_caller = |event: &Event| {
        let all_system = in_library.entry(event.site).or_insert_with(|| {
            symbols.lookup(&trace.modules, trace.site(event)).iter().all(|frame| frame.system)
        });
        *all_system && !matches!(event.op, Op::Start | Op::End | Op::Exit)
    };
    let needed: Vec<bool> = trace.events.iter().map(&mut needs_caller).collect();
    if !needed.contains(&true) {
        return;
    }
    let all = trace.events.len() <= MAX_CALLERS;
    let numbers = (0..trace.events.len()).filter(|&number| all || needed[number]).take(MAX_CALLERS);
    let Some(calls) = calls_of(trace, &numbers.map(|number| number as u64).collect::<Vec<u64>>()) else {
        return;
    };
    let mut users: HashMap<Site, bool> = HashMap::new();
    let modules = &trace.modules;
    let mut is_users = |site: &Site| {
        let is_users = |frame: &Frame| !frame.system && frame.line.is_some();
        *users.entry(*site).or_insert_with(|| symbols.lookup(modules, *site).iter().any(is_users))
    };
    let mut caller = |&(number, ref calls): &(usize, Vec<Site>)| {
        Some((number, calls.iter().copied().find(&mut is_users).filter(|_| needed[number])?))
    };
    let callers: Vec<(usize, Site)> = calls.iter().filter_map(&mut caller).collect();
    trace.add_contexts(calls);
    trace.add_callers(callers);
}

/// Adds the calls that led to each event, as far as there is room.
pub(crate) fn add_all_calls(trace: &mut Trace) {
    let numbers: Vec<u64> = (0..trace.events.len() as u64).take(MAX_CALLERS).collect();
    if let Some(calls) = calls_of(trace, &numbers) {
        trace.add_contexts(calls);
    }
}

/// Returns the calls that led to these events, innermost first, from another run of the schedule.
fn calls_of(trace: &Trace, event_numbers: &[u64]) -> Option<Vec<(usize, Vec<Site>)>> {
    let plan = trace.replay_plan();
    let stacks = Executor::new(trace.program.clone(), Settings::default())
        .and_then(|mut executor| executor.event_stacks(&plan, event_numbers))
        // Calls are optional.
        .ok()?;
    let calls = stacks.into_iter().map(|(number, mut frames)| {
        let number = number as usize;
        // The event's own site is no call that led to it.
        if frames.first() == trace.events.get(number).map(|event| trace.site(event)).as_ref() {
            frames.remove(0);
        }
        (number, frames)
    });
    Some(calls.filter(|(number, _)| *number < trace.events.len()).collect())
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
