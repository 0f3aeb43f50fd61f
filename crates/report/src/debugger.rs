//! A trace as JSON for the debugger that follows its replay.

use crate::{
    Names, RenderOptions, describe,
    interleaving::{SwitchReason, Switches, columns, place_of_event},
    objects::ObjectNames,
    outcome_text, paths, stats_text,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use unsnarl_model::{OutcomeKind, Trace};

/// Returns what `crates/cli/src/gdb/unsnarl.py` needs of a trace: its threads by number, the operation and place of
/// each event, the reasons for context switches, and the outcome.
#[must_use]
pub fn debugger_json(trace: &Trace, names: &mut dyn Names) -> Value {
    let objects = ObjectNames::of(trace, names);
    let switches = Switches::of(trace);
    let mut texts: Vec<String> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut number_of = |text: String| {
        *known.entry(text).or_insert_with_key(|text| {
            texts.push(text.clone());
            texts.len() - 1
        })
    };
    let mut events = Vec::with_capacity(trace.events.len());
    for (number, event) in trace.events.iter().enumerate() {
        let (place, source) = place_of_event(names, trace, event);
        let place = match place.file {
            Some(file) => format!("{}:{}", paths::base(&file), place.rest),
            None => place.rest,
        };
        let before = number.checked_sub(1);
        let switch = before.and_then(|before| switches.between(trace, &objects, before, number));
        let reason = switch.map(|(from, reason)| match reason {
            SwitchReason::Preempts(stopped_thread) => format!("preempts {stopped_thread}"),
            SwitchReason::Stopped(reason) => format!("{} {reason}", describe::id(trace, from)),
        });
        // Thread, operation, place, its source line, and the reason for the context switch if there was one.
        events.push(json!([
            event.thread.0,
            number_of(describe::event(trace, &objects, number)),
            number_of(place),
            number_of(source),
            reason.map(&mut number_of),
        ]));
    }
    let mut threads: Vec<String> = trace.threads.iter().map(|thread| thread.id.to_string()).collect();
    for column in columns(trace, names) {
        let function = if column.thread.0 == 0 { "main" } else { column.function.as_str() };
        threads[column.thread.index()] = format!("{} {function}", column.title).trim_end().to_owned();
    }
    let status = if let OutcomeKind::Exit(status) = trace.outcome.kind { Some(status) } else { None };
    json!({
        "program": trace.program.path, "threads": threads, "events": events, "texts": texts,
        "stats": stats_text(&trace.stats()), "kind": trace.outcome.kind.name(), "status": status,
        "outcome": outcome_text(trace, names, &RenderOptions { colour: false, ..RenderOptions::default() }),
    })
}
