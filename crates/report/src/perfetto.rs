//! The interleaving as a trace for Perfetto and Chrome's viewer: a track for each thread with its operations, held
//! locks below it, arrows for preemptions and races. One event takes one microsecond: the scale is an order, not a
//! time.

use crate::{
    Names,
    counterfactuals::outcome_without,
    describe,
    facts::{self, holds, races},
    interleaving::columns,
    objects::ObjectNames,
    outcome::kind_text,
    paths,
};
use serde_json::{Map, Value, json};
use unsnarl_model::{Flags, ThreadIx, Trace};

const PROCESS: u32 = 1;

/// Returns the trace viewer's JSON.
#[must_use]
pub fn perfetto(trace: &Trace, names: &mut dyn Names) -> Value {
    let objects = ObjectNames::of(trace, names);
    let track = |thread: ThreadIx| u32::from(thread.0) + 1;
    let mut events = vec![metadata("process_name", 0, json!({ "name": paths::base(&trace.program.path) }))];
    for column in columns(trace, names) {
        let name = format!("{} {}", column.title, column.function).trim_end().to_owned();
        events.push(metadata("thread_name", track(column.thread), json!({ "name": name })));
        events.push(metadata(
            "thread_sort_index",
            track(column.thread),
            json!({ "sort_index": track(column.thread) }),
        ));
    }
    let stay = |first: usize, last: usize| json!({ "ts": first, "dur": (last - first).max(1) });
    let mut number = 0;
    for segment in trace.schedule().segments {
        let end = number + segment.points as usize;
        let preempts = number > 0 && trace.events[number].flags.has(Flags::PREEMPTS);
        let counterfactual = trace
            .counterfactuals
            .iter()
            .find(|counterfactual| counterfactual.event == number as u64)
            .map(outcome_without);
        let mut args = Map::new();
        args.insert("events".into(), segment.points.into());
        if preempts {
            args.insert("preempts".into(), describe::id(trace, trace.events[number - 1].thread).into());
        }
        if let Some(counterfactual) = counterfactual {
            args.insert("without this preemption".into(), counterfactual.into());
        }
        let name = if preempts { "runs (preempts)" } else { "runs" };
        events.push(slice("segment", name, track(segment.thread), stay(number, end), args.into()));
        for at in number..end {
            let event = &trace.events[at];
            let mut args = Map::new();
            args.insert("event".into(), at.into());
            if let Some((file, line, function)) = facts::place(trace.user_site(event), names) {
                args.insert(
                    "at".into(),
                    format!("{}:{line}", paths::relative(&file, &trace.program.cwd)).into(),
                );
                args.insert("function".into(), function.into());
            }
            let text = describe::event(trace, &objects, at);
            events.push(slice("operation", &text, track(segment.thread), stay(at, at + 1), args.into()));
        }
        number = end;
    }
    // Locks overlap in any way, which only asynchronous events support.
    for (id, hold) in holds(&trace.events).into_iter().enumerate() {
        let name = format!("{} holds {}", describe::id(trace, hold.thread), objects.held(trace, hold));
        for (phase, at) in [("b", hold.first), ("e", hold.last)] {
            events.push(json!({
                "ph": phase, "cat": "lock", "name": name, "id": id, "pid": PROCESS, "tid": track(hold.thread), "ts": at,
            }));
        }
    }
    let preempting = (1..trace.events.len()).filter(|&at| trace.events[at].flags.has(Flags::PREEMPTS));
    let preemptions = preempting.map(|at| ("preemption", at - 1, at));
    let races = races(trace).into_iter().map(|(one, other)| ("race", one, other));
    for (id, (kind, from, to)) in preemptions.chain(races).enumerate() {
        for (phase, at) in [("s", from), ("f", to)] {
            let mut arrow = json!({
                "ph": phase, "cat": kind, "name": kind, "id": id, "pid": PROCESS,
                "tid": track(trace.events[at].thread), "ts": at,
            });
            if phase == "f" {
                // The arrow binds to the enclosing slice, not to the next one.
                arrow["bp"] = "e".into();
            }
            events.push(arrow);
        }
    }
    if let Some(thread) = trace.outcome.thread.filter(|_| trace.outcome.is_failure()) {
        events.push(json!({
            "ph": "i", "s": "t", "cat": "failure", "name": kind_text(trace.outcome.kind), "pid": PROCESS,
            "tid": track(thread), "ts": trace.events.len(), "args": { "message": trace.outcome.message },
        }));
    }
    json!({
        "displayTimeUnit": "ns", "traceEvents": events,
        "otherData": { "tool": "unsnarl", "note": "one microsecond is one event: an order, not a time" },
    })
}

fn metadata(name: &str, track: u32, args: Value) -> Value {
    json!({ "ph": "M", "name": name, "pid": PROCESS, "tid": track, "args": args })
}

fn slice(kind: &str, name: &str, track: u32, when: Value, args: Value) -> Value {
    let mut slice =
        json!({ "ph": "X", "cat": kind, "name": name, "pid": PROCESS, "tid": track, "args": args });
    slice["ts"] = when["ts"].clone();
    slice["dur"] = when["dur"].clone();
    slice
}
