//! The remaining preemptions, and what each of them is needed for.

use crate::{Names, describe, objects::ObjectNames, outcome::kind_text, paths};
use serde_json::{Value, json};
use std::fmt::Write;
use unsnarl_model::{Counterfactual, Flags, OutcomeKind, Trace};

/// One preemption of a trace.
struct Preemption<'t> {
    event: usize,
    /// The preempted thread, its next operation, and the place.
    preempted: String,
    before: Option<String>,
    place: Option<(String, u32)>,
    counterfactual: Option<&'t Counterfactual>,
}

impl Preemption<'_> {
    /// Returns the next operation and the place.
    fn at(&self) -> String {
        let before = self
            .before
            .as_ref()
            .map_or_else(|| "and never runs again".to_owned(), |before| format!("before `{before}`"));
        let place = self.place.as_ref();
        let place =
            place.map_or_else(String::new, |(file, line)| format!(" at {}:{line}", paths::base(file)));
        before + &place
    }
}

/// Describes the preemptions of a trace whose needs are known; empty if none are.
#[must_use]
pub fn counterfactuals_text(trace: &Trace, names: &mut dyn Names) -> String {
    let mut text = String::new();
    if trace.counterfactuals.is_empty() {
        return text;
    }
    for preemption in preemptions(trace, names) {
        let at = preemption.at();
        let Preemption { event, preempted, counterfactual, .. } = preemption;
        let _ = write!(text, "preemption at {event}: {preempted} is preempted {at}");
        let _ = match counterfactual {
            Some(counterfactual) => {
                writeln!(text, "; without this preemption, {}", outcome_without(counterfactual))
            }
            None => writeln!(text),
        };
    }
    text
}

/// Describes the preemption at this event, like "0.1 is preempted before `write hits` at visit.c:7".
#[must_use]
pub fn preemption_text(trace: &Trace, event: usize, names: &mut dyn Names) -> Option<String> {
    let preemption = preemptions(trace, names).into_iter().find(|preemption| preemption.event == event)?;
    Some(format!("{} is preempted {}", preemption.preempted, preemption.at()))
}

/// Returns the same as JSON.
#[must_use]
pub fn counterfactuals_json(trace: &Trace, names: &mut dyn Names) -> Value {
    let described = preemptions(trace, names).into_iter().map(|preemption| {
        let Preemption { event, preempted, before, place, counterfactual } = preemption;
        let (file, line) = place.unzip();
        json!({
            "event": event, "thread": preempted, "before": before, "file": file, "line": line,
            "without": counterfactual.map(outcome_without),
        })
    });
    described.collect()
}

fn preemptions<'t>(trace: &'t Trace, names: &mut dyn Names) -> Vec<Preemption<'t>> {
    let objects = ObjectNames::of(trace, names);
    let preempting = (1..trace.events.len()).filter(|&at| trace.events[at].flags.has(Flags::PREEMPTS));
    let described = preempting.map(|event| {
        let thread = trace.events[event - 1].thread;
        let next = (event..trace.events.len()).find(|&at| trace.events[at].thread == thread);
        let site = next.map(|next| trace.user_site(&trace.events[next]));
        let site = site.or_else(|| trace.outcome.site.filter(|_| trace.outcome.thread == Some(thread)));
        let place = site.map(|site| names.place(site)).filter(|frame| !frame.system);
        Preemption {
            event,
            preempted: describe::id(trace, thread),
            before: next.map(|next| describe::event(trace, &objects, next)),
            place: place.and_then(|frame| frame.file.zip(frame.line)),
            counterfactual: trace
                .counterfactuals
                .iter()
                .find(|counterfactual| counterfactual.event == event as u64),
        }
    });
    described.collect()
}

/// Describes how the program ends without a preemption.
pub(crate) fn outcome_without(counterfactual: &Counterfactual) -> String {
    let kind = match counterfactual.outcome_without {
        OutcomeKind::Exit(0) => "the program ends normally".to_owned(),
        OutcomeKind::Exit(status) => format!("the program ends with status {status}"),
        other => kind_text(other),
    };
    match (counterfactual.outcome_without, counterfactual.message.lines().next().unwrap_or_default()) {
        (_, "") | (OutcomeKind::Exit(_), _) => kind,
        (_, message) => format!("{kind}: {message}"),
    }
}
