//! JSON for other programs.

use crate::{
    Names, describe,
    objects::ObjectNames,
    paths,
    waits::{self, taken_at},
};
use serde_json::{Map, Value, json};
use unsnarl_model::{OutcomeKind, Site, Stats, Trace, signal_name};
use unsnarl_symbols::Frame;

/// Returns the outcome as JSON. It always has `kind`, `message` and `threads`. It has `status`, `signal`, `limit`,
/// `site`, `file`, `line`, `function`, `thread` and `backtrace` if they exist.
#[must_use]
pub fn outcome_json(trace: &Trace, names: &mut dyn Names) -> Value {
    let outcome = &trace.outcome;
    let mut object = Map::new();
    object.insert("kind".into(), outcome.kind.name().into());
    match outcome.kind {
        OutcomeKind::Exit(status) => {
            object.insert("status".into(), status.into());
        }
        OutcomeKind::Signal(signal) => {
            object.insert("signal".into(), signal_name(signal).into());
            object.insert("signal_number".into(), signal.into());
        }
        OutcomeKind::Undecided(limit) => {
            object.insert("limit".into(), limit.name().into());
        }
        _ => {}
    }
    if let Some(site) = outcome.site {
        let place = names.place(site);
        object.insert("site".into(), site_text(trace, &place).into());
        insert_place(&mut object, &place);
    }
    object.insert("message".into(), outcome.message.as_str().into());
    if let Some(thread) = outcome.thread {
        object.insert("thread".into(), describe::id(trace, thread).into());
    }
    object.insert("threads".into(), waits(trace, names).into());
    if !outcome.backtraces.is_empty() {
        // The failing thread's stack has its own field; another field holds all stacks.
        let failing = outcome.backtraces.iter().find(|b| Some(b.thread) == outcome.thread);
        let frames = failing.unwrap_or(&outcome.backtraces[0]).frames.as_slice();
        object.insert("backtrace".into(), backtrace(names, frames));
        let all = outcome.backtraces.iter().map(
            |b| json!({ "thread": describe::id(trace, b.thread), "frames": backtrace(names, &b.frames) }),
        );
        let all: Vec<Value> = all.collect();
        object.insert("backtraces".into(), all.into());
    }
    object.into()
}

/// Returns the size and the context switches.
#[must_use]
pub fn stats_json(stats: &Stats) -> Value {
    json!({
        "events": stats.events,
        "threads": stats.threads,
        "context_switches": stats.context_switches,
        "preemptive": stats.preemptive,
        "non_preemptive": stats.non_preemptive(),
    })
}

/// Returns the problems that did not end the run.
#[must_use]
pub fn warnings_json(trace: &Trace, names: &mut dyn Names) -> Value {
    let objects = ObjectNames::of(trace, names);
    let warnings = trace.warnings.iter().map(|warning| {
        let mut object = Map::new();
        let thread = describe::id(trace, warning.thread);
        let text = format!("thread {thread} {}", warning.misuse.description());
        object.insert("kind".into(), format!("{:?}", warning.misuse).into());
        object.insert("text".into(), text.into());
        object.insert("thread".into(), thread.into());
        object.insert("event".into(), warning.at.into());
        object.insert("detail".into(), warning.detail.as_str().into());
        if let Some(name) = objects.of_warning(warning, names) {
            object.insert("object".into(), name.into());
            object.extend(
                objects.block_json(warning.addr, warning.at).map(|block| ("block".to_owned(), block)),
            );
        }
        insert_place(&mut object, &names.place(warning.site));
        Value::from(object)
    });
    let mut warnings: Vec<Value> = warnings.collect();
    warnings.extend(trace.program_warnings.iter().map(|text| json!({ "kind": "Program", "text": text })));
    warnings.into()
}

/// Returns the threads that cannot continue, and why.
fn waits(trace: &Trace, names: &mut dyn Names) -> Vec<Value> {
    let objects = ObjectNames::of(trace, names);
    let waits = waits::waits(trace, names);
    let waits = waits.iter().map(|waiting| {
        let wait = &waiting.wait;
        let mut object = Map::new();
        object.insert("thread".into(), describe::id(trace, wait.thread).into());
        object.insert("op".into(), wait.op.name().into());
        let holders: Vec<String> = wait.holders.iter().map(|&holder| describe::id(trace, holder)).collect();
        // A join waits for a thread, everything else for an object.
        let waits_for = objects.for_op(wait.op, wait.addr).or_else(|| holders.first().cloned());
        object.insert("waits_for".into(), waits_for.into());
        let held_since: Vec<Option<String>> = wait
            .holders
            .iter()
            .map(|&holder| Some(site_text(trace, &names.place(taken_at(trace, wait, holder)?))))
            .collect();
        object.insert("holders".into(), holders.into());
        object.insert("held_since".into(), held_since.into());
        object.insert("inside".into(), waiting.inside.clone().into());
        object.insert("site".into(), site_text(trace, &waiting.place).into());
        insert_place(&mut object, &waiting.place);
        Value::from(object)
    });
    waits.collect()
}

fn backtrace(names: &mut dyn Names, frames: &[Site]) -> Value {
    let frames = frames.iter().flat_map(|&site| names.frames(site)).map(|frame| {
        let mut object = Map::new();
        insert_place(&mut object, &frame);
        object.insert("system".into(), frame.system.into());
        Value::from(object)
    });
    let frames: Vec<Value> = frames.collect();
    frames.into()
}

/// Returns `file:line`, with the file relative to the program's directory; the function if there is no file.
pub(crate) fn site_text(trace: &Trace, frame: &Frame) -> String {
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{}:{line}", paths::relative(file, &trace.program.cwd)),
        _ => frame.function.clone().unwrap_or_default(),
    }
}

pub(crate) fn insert_place(object: &mut Map<String, Value>, frame: &Frame) {
    object.insert("file".into(), frame.file.clone().into());
    object.insert("line".into(), frame.line.into());
    object.insert("function".into(), frame.function.clone().into());
}
