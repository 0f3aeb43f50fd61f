//! A slice as JSON.

use super::{SliceReport, SourceLine};
use crate::Names;
use serde_json::{Value, json};
use unsnarl_model::{ThreadIx, Trace};

/// Returns the slice as JSON.
pub fn slice_json(report: &SliceReport, trace: &Trace, names: &mut dyn Names) -> Value {
    let thread = |thread: ThreadIx| trace.thread_id(thread).to_string();
    let place = |line: &SourceLine, consumer: ThreadIx| json!({ "file": line.file, "line": line.line, "thread": thread(consumer) });
    let lines: Vec<Value> = report
        .lines
        .iter()
        .map(|line| {
            let threads: Vec<String> = line.threads.iter().map(|&t| thread(t)).collect();
            json!({
                "file": line.line.file, "line": line.line.line, "function": line.function,
                "threads": threads, "instances": line.instances, "criterion": line.criterion, "meeting": line.is_shared, "why": line.reasons,
                "text": names.source_line(&line.line.file, line.line.line),
            })
        })
        .collect();
    let races: Vec<Value> = report
        .races
        .iter()
        .map(|race| {
            json!({
                "kind": race.kind, "object": race.object, "by_lock": race.by_lock,
                "from": place(&race.from.0, race.from.1), "to": place(&race.to.0, race.to.1),
            })
        })
        .collect();
    let unknown: Vec<Value> = report
        .unknown
        .iter()
        .map(|unknown| {
            let (file, line) = unknown.line.as_ref().map(|l| (&l.file, l.line)).unzip();
            json!({ "function": unknown.function, "file": file, "line": line, "calls": unknown.calls })
        })
        .collect();
    let dependences = report.counts.map(|counts| {
        json!({
            "raw_within": counts.raw_within, "raw_between": counts.raw_between, "before": counts.before,
            "consecutive": { "waw": counts.consecutive[0], "war": counts.consecutive[1] },
            "unordered": { "waw": counts.unordered[0], "war": counts.unordered[1] },
        })
    });
    let criterion: Vec<Value> =
        report.criterion.iter().map(|(line, consumer)| place(line, *consumer)).collect();
    json!({
        "criterion": criterion.first().cloned().unwrap_or_else(|| json!({})), "criteria": criterion,
        "lines": lines, "race_edges": races, "executed_lines": report.executed_lines,
        "instructions": report.instructions, "instructions_without_line": report.without_line,
        "unknown": unknown, "dependences": dependences,
    })
}
