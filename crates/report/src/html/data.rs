//! The data of a trace for the page.

use crate::{
    Names,
    cause::{Rank, cause},
    counterfactuals::outcome_without,
    describe,
    facts::{HoldInterval, holds, races},
    interleaving::{Chart, SwitchReason, Switches, columns, place_of_event},
    objects::ObjectNames,
    outcome, paths, stats_text,
};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use unsnarl_model::{ThreadIx, Trace};

/// Source files of the page, by number.
#[derive(Default)]
pub(super) struct Sources {
    numbers: HashMap<String, usize>,
    paths: Vec<String>,
}

/// Maximum number of embedded lines per file.
const MAX_LINES: u32 = 20_000;

impl Sources {
    fn number(&mut self, path: &str) -> usize {
        *self.numbers.entry(path.to_owned()).or_insert_with(|| {
            self.paths.push(path.to_owned());
            self.paths.len() - 1
        })
    }

    /// Returns the files with all of their lines, as far as they can be read.
    pub(super) fn files(&self, names: &mut dyn Names) -> Value {
        let file = |path: &String| {
            let lines: Vec<String> =
                (1..=MAX_LINES).map_while(|line| names.source_line(path, line)).collect();
            json!({ "path": path, "lines": lines })
        };
        self.paths.iter().map(file).collect()
    }
}

/// Interned texts, by number.
#[derive(Default)]
struct Texts {
    numbers: HashMap<String, usize>,
    all: Vec<String>,
}

impl Texts {
    fn number(&mut self, text: String) -> usize {
        if let Some(&number) = self.numbers.get(&text) {
            return number;
        }
        self.all.push(text.clone());
        self.numbers.insert(text, self.all.len() - 1);
        self.all.len() - 1
    }
}

pub(super) fn trace(trace: &Trace, title: &str, names: &mut dyn Names, sources: &mut Sources) -> Value {
    let stats = trace.stats();
    let Chart { story, .. } = Chart::of(trace, names, false);
    let trace = &story.trace;
    let numbers: Vec<Option<usize>> = (0..story.end).map(|step| story.number(step)).collect();
    let objects = ObjectNames::of(trace, names);
    let switches = Switches::of(trace);
    let columns = columns(trace, names);
    let lane = |thread: ThreadIx| columns.iter().position(|column| column.thread == thread).unwrap_or(0);
    let mut texts = Texts::default();
    let mut events = Vec::with_capacity(trace.events.len());
    let mut switched = Map::new();
    for (number, event) in trace.events.iter().enumerate() {
        let (place, _) = place_of_event(names, trace, event);
        let file = place.file.as_deref().map(|file| sources.number(file));
        let line = place.file.as_ref().and_then(|_| place.rest.parse::<u32>().ok());
        // Lane, operation, file, line.
        events.push(json!([
            lane(event.thread),
            texts.number(describe::step(&story, &objects, number)),
            file,
            line
        ]));
        let before =
            number.checked_sub(1).and_then(|before| switches.between(trace, &objects, before, number));
        if let Some((from, causes)) = before {
            let counterfactual = trace
                .counterfactuals
                .iter()
                .find(|counterfactual| counterfactual.event == number as u64)
                .map(outcome_without);
            let (preempts, causes) = match causes {
                SwitchReason::Preempts(stopped_thread) => (1, format!("preempts {stopped_thread}")),
                SwitchReason::Stopped(causes) => (0, causes),
            };
            // Previous lane, whether it preempts, reason, and the outcome without it.
            let mut values = vec![json!(lane(from)), json!(preempts), json!(texts.number(causes))];
            values.extend(counterfactual.map(Value::from));
            switched.insert(number.to_string(), values.into());
        }
    }
    let lanes = columns.iter().map(|column| {
        json!({ "title": column.title, "function": column.function, "from": column.alive.0, "to": column.alive.1 })
    });
    json!({
        "title": title, "stats": stats_text(&stats), "numbers": numbers, "lanes": lanes.collect::<Vec<_>>(), "events": events,
        "texts": texts.all, "switches": switched, "holds": held(trace, &objects, &lane), "races": races(trace),
        "ends": ends(trace, &objects, names, &lane, sources),
    })
}

/// Returns the endings of threads, with their lanes and places.
fn ends(
    trace: &Trace,
    objects: &ObjectNames,
    names: &mut dyn Names,
    lane: &impl Fn(ThreadIx) -> usize,
    sources: &mut Sources,
) -> Vec<Value> {
    let values = outcome::endings(trace, objects, names).into_iter().map(|ending| {
        let place = ending.place.filter(|frame| !frame.system).and_then(|frame| frame.file.zip(frame.line));
        let (file, line) = place.unzip();
        let shown = file.as_deref().zip(line).map(|(file, line)| format!("{}:{line}", paths::base(file)));
        let file = file.map(|file| sources.number(&file));
        json!({ "lane": lane(ending.thread), "words": ending.words, "where": shown, "file": file, "line": line })
    });
    values.collect()
}

/// Returns the explanation of the failure, sentence by sentence.
pub(super) fn causes(trace: &Trace, names: &mut dyn Names) -> Vec<Value> {
    let values = cause(trace, names).into_iter().map(|sentence| {
        let kind = match sentence.rank {
            Rank::Head => "",
            Rank::Code => "code",
            Rank::More => "more",
        };
        json!({ "kind": kind, "text": sentence.text, "event": sentence.event })
    });
    values.collect()
}

/// Returns the held locks: lane, lock, first event, last event.
fn held(trace: &Trace, objects: &ObjectNames, lane: &impl Fn(ThreadIx) -> usize) -> Vec<Value> {
    let values =
        |hold: HoldInterval| json!([lane(hold.thread), objects.held(trace, hold), hold.first, hold.last]);
    holds(&trace.events).into_iter().map(values).collect()
}
