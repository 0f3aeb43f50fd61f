//! What makes a run a failure that ended well.

use crate::options::FailOn;
use unsnarl_model::{Event, Kind, Misuse, Outcome, Site, ThreadIx, Trace};
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
    let race = *unsnarl_race::races(trace).first()?;
    let [first, second] = [race.first, race.second].map(|number| trace.events[number as usize]);
    let mut symbols = Symbols::new();
    let mut names = ProgramNames::new(&trace.modules, &mut symbols);
    let here = format!("{}/", trace.program.cwd);
    let mut told = |event: &Event| {
        let frame = names.place(trace.site(event));
        let place = frame.place().unwrap_or_else(|| frame.to_string());
        format!("{} at {}", event.op.word(), place.strip_prefix(&here).unwrap_or(&place))
    };
    let message = format!("{} and {}: nothing orders them", told(&first), told(&second));
    Some((Kind::Race, second.thread, trace.site(&second), message))
}
