//! What makes a run a failure that ended well.

use crate::options::FailOn;
use unsnarl_exec::{Executor, Settings};
use unsnarl_model::{Backtrace, Kind, Misuse, Outcome, Side, Site, ThreadIx, Trace};
use unsnarl_report::{Names, ProgramNames};
use unsnarl_symbols::Symbols;

/// Makes a run that ended well the failure that the user wants to see in it.
pub(crate) fn judge(trace: &mut Trace, fail_on: &[FailOn]) {
    if trace.outcome.is_failure() {
        return;
    }
    let wanted = |what| fail_on.contains(&what);
    let failure = wanted(FailOn::Misuse).then(|| misuse(trace)).flatten();
    let failure = failure.or_else(|| wanted(FailOn::Race).then(|| race(trace)).flatten());
    if let Some((kind, thread, site, message)) = failure {
        trace.outcome = Outcome { thread: Some(thread), site: Some(site), message, ..Outcome::exit(0) };
        trace.outcome.kind = kind;
    }
}

type Failure = (Kind, ThreadIx, Site, String);

/// The first wrong use of synchronisation.
fn misuse(trace: &Trace) -> Option<Failure> {
    let wrong = trace.warnings.iter().find(|w| w.misuse != Misuse::NotModelled)?;
    Some((Kind::Misuse, wrong.thread, wrong.site, wrong.misuse.words().into()))
}

/// The first data race.
fn race(trace: &Trace) -> Option<Failure> {
    let [first, second] = trace.races.first()?.sides;
    let mut symbols = Symbols::new();
    let mut names = ProgramNames::new(&trace.modules, &mut symbols);
    let here = format!("{}/", trace.program.cwd);
    let mut told = |side: &Side| {
        let frame = names.place(side.site);
        let place = frame.place().unwrap_or_else(|| frame.to_string());
        format!("{} at {}", side.op.word(), place.strip_prefix(&here).unwrap_or(&place))
    };
    let message = format!("{} and {}: nothing orders them", told(&first), told(&second));
    Some((Kind::Race, second.thread, second.site, message))
}

/// Adds the calls that led to both accesses of a race that is a failure: by another run of the same schedule.
pub(crate) fn add_calls(trace: &mut Trace) {
    let Some(race) = trace.races.first().filter(|_| trace.outcome.kind == Kind::Race) else { return };
    let plan = trace.replay_plan();
    let calls = Executor::new(trace.program.clone(), Settings::default())
        .and_then(|mut executor| executor.calls(&plan, race, &trace.modules));
    // They are an extra: where they cannot be had, the lines are there all the same.
    let Ok(calls) = calls else { return };
    let threads = race.sides.map(|side| side.thread);
    let backtraces = threads.into_iter().zip(calls).filter(|(_, frames)| !frames.is_empty());
    trace.outcome.backtraces = backtraces.map(|(thread, frames)| Backtrace { thread, frames }).collect();
}
