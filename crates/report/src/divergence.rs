//! Descriptions of divergences: where a run left its plan.

use crate::{
    Names,
    json::{insert_place, site_text},
};
use serde_json::{Map, Value, json};
use unsnarl_model::{Action, Divergence, Event, Flags, ModuleIx, Op, Site, ThreadId, Trace};
use unsnarl_semantics::OpResult;
use unsnarl_symbols::Frame;

/// Describes a divergence of a run from its recording in a few lines, and what may cause it.
#[must_use]
pub fn divergence_text(
    divergence: &Divergence,
    recorded: &Trace,
    replayed: &Trace,
    names: &mut dyn Names,
) -> String {
    divergence_place_text(divergence, recorded, replayed, names)
        + "  It depends on something that is not controlled: a file, the network, another process, memory that\n  \
           was never initialised.\n"
}

/// Describes where a run leaves its schedule, and what it does there. If it does the same at the same line, the text
/// names what differs.
#[must_use]
pub fn divergence_place_text(
    divergence: &Divergence,
    recorded: &Trace,
    replayed: &Trace,
    names: &mut dyn Names,
) -> String {
    let Divergence { point, thread, expected, actual } = divergence;
    let line = |names: &mut dyn Names, action: &(Action, String)| {
        (action.0.op, site_text(recorded, &place(recorded, names, action)))
    };
    let looks_same = match (expected, actual) {
        (Some(expected), Some(actual)) => line(names, expected) == line(names, actual),
        _ => false,
    };
    let [of_expected, of_actual] =
        if looks_same { what_differs(divergence, recorded, replayed) } else { Default::default() };
    let mut describe_action = |action: &(Action, String), difference: &str| {
        let place = place(recorded, names, action);
        let text = place
            .line
            .and_then(|line| names.source_line(place.file.as_deref()?, line))
            .map(|text| format!("\n    {}", text.trim()))
            .unwrap_or_default();
        format!("{} at {}{difference}{text}", action.0.op.name(), site_text(recorded, &place))
    };
    let expected = match expected {
        Some(action) => describe_action(action, &of_expected),
        None => "the end of the run".to_owned(),
    };
    let actual = match actual {
        Some(action) => describe_action(action, &of_actual),
        None => "nothing (the thread was blocked, or the run had ended)".to_owned(),
    };
    format!(
        "the run left its schedule at point {point}, in thread {thread}\n  expected: {expected}\n  got: {actual}\n"
    )
}

/// Returns what differs between two actions that are the same operation at the same line, for each of them.
fn what_differs(divergence: &Divergence, recorded: &Trace, replayed: &Trace) -> [String; 2] {
    let actions = [&divergence.expected, &divergence.actual];
    let offsets = actions.map(|action| action.as_ref().map(|(action, module)| (action.site.offset, module)));
    if offsets[0] != offsets[1] {
        return offsets.map(|place| {
            place.map_or_else(String::new, |(offset, module)| {
                format!(" ({}+{offset:#x})", module.rsplit('/').next().unwrap_or_default())
            })
        });
    }
    let events = [recorded, replayed].map(|trace| Some((trace, event(trace, divergence.point)?)));
    let [Some((_, a)), Some((_, b))] = events else { return Default::default() };
    let threads = [recorded.thread_id(a.thread), replayed.thread_id(b.thread)];
    let describe = |event: &Event, thread: &ThreadId| {
        let mut parts = Vec::new();
        if threads[0] != threads[1] {
            parts.push(format!("in thread {thread}"));
        }
        match event.op {
            Op::Exit if a.value != b.value => parts.push(format!("status {}", event.value as i32)),
            _ if a.value != b.value => parts.push(format!("value {:#x}", event.value)),
            _ => {}
        }
        if (a.size, a.addr) != (b.size, b.addr) {
            parts.push(format!("{} bytes at {:#x}", event.size, event.addr));
        }
        if a.flags.without(Flags::OF_CALL) != b.flags.without(Flags::OF_CALL) {
            parts.push(circumstances(event));
        }
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
    };
    [describe(a, threads[0]), describe(b, threads[1])]
}

/// Describes how an operation ended and under which circumstances.
fn circumstances(event: &Event) -> String {
    let result = match OpResult::of(event) {
        OpResult::Done => "done",
        OpResult::Spurious => "woken spuriously",
        OpResult::Failed => "failed",
        OpResult::Interrupted => "interrupted by a signal",
        OpResult::TimedOut => "timed out",
        OpResult::Cancelled => "cancelled",
    };
    let facts = [
        (Flags::PREEMPTS, ", after a preemption"),
        (Flags::BLOCKED, ", after it had to wait"),
        (Flags::OWN_STACK, ", on its own stack"),
        (Flags::FOREIGN, ", of a variable that uninstrumented code may have changed"),
    ];
    let facts = facts.iter().filter(|(flag, _)| event.flags.has(*flag)).map(|(_, text)| *text);
    facts.fold(result.to_owned(), |text, fact| text + fact)
}

/// Returns a divergence as JSON. `trace` is that of the diverged run.
#[must_use]
pub fn divergence_json(divergence: &Divergence, trace: &Trace, names: &mut dyn Names) -> Value {
    let mut describe_action = |action: &(Action, String)| {
        let mut object = Map::new();
        object.insert("op".into(), action.0.op.name().into());
        object.insert("module".into(), action.1.as_str().into());
        object.insert("offset".into(), action.0.site.offset.into());
        insert_place(&mut object, &place(trace, names, action));
        Value::from(object)
    };
    json!({
        "point": divergence.point,
        "thread": divergence.thread.to_string(),
        "expected": divergence.expected.as_ref().map(&mut describe_action),
        "got": divergence.actual.as_ref().map(describe_action),
    })
}

/// Describes, in a few lines, the first event of a run that differs from the recording although its schedule is the
/// same.
#[must_use]
pub fn difference_text(
    difference: &Divergence,
    recorded: &Trace,
    replayed: &Trace,
    names: &mut dyn Names,
) -> String {
    let Divergence { point, thread, expected, .. } = difference;
    let expected_text = expected.as_ref().map_or_else(String::new, |action| {
        format!(": {} at {}", action.0.op.name(), site_text(recorded, &place(recorded, names, action)))
    });
    let ids_and_actions = |trace: &Trace| {
        event(trace, *point).map(|event| (trace.thread_id(event.thread).clone(), trace.action(event).op))
    };
    let same_step = ids_and_actions(recorded) == ids_and_actions(replayed);
    let describe_action = |trace: &Trace| match event(trace, *point) {
        Some(event) => {
            // The line above names the recording's thread and operation.
            let step = if same_step {
                String::new()
            } else {
                format!("{} in thread {}, ", event.op.name(), trace.thread_id(event.thread))
            };
            format!(
                "{step}value {:#x}, {} bytes at {:#x}, {}",
                event.value,
                event.size,
                event.addr,
                circumstances(event)
            )
        }
        None => "the end of the run".to_owned(),
    };
    format!(
        "the first difference is event {point}, in thread {thread}{expected_text}\n  recorded: {}\n  replayed: {}\n",
        describe_action(recorded),
        describe_action(replayed)
    )
}

/// Returns the same as JSON.
#[must_use]
pub fn difference_json(
    difference: &Divergence,
    recorded: &Trace,
    replayed: &Trace,
    names: &mut dyn Names,
) -> Value {
    let describe_action = |trace: &Trace| {
        event(trace, difference.point).map(|event| {
            json!({"value": event.value, "size": event.size, "addr": event.addr, "flags": event.flags.0})
        })
    };
    let mut json = divergence_json(difference, recorded, names);
    if let Some(object) = json.as_object_mut() {
        object.insert("recorded".into(), describe_action(recorded).into());
        object.insert("replayed".into(), describe_action(replayed).into());
    }
    json
}

fn event(trace: &Trace, point: u64) -> Option<&Event> {
    trace.events.get(usize::try_from(point).ok()?)
}

/// Returns the place of an action. Its module is found by path, because the numbers may be those of another run.
fn place(trace: &Trace, names: &mut dyn Names, (action, module): &(Action, String)) -> Frame {
    let ix = trace.modules.iter().position(|m| m.path == *module).and_then(|ix| u16::try_from(ix).ok());
    match ix {
        Some(ix) => names.place(Site { module: ModuleIx(ix), offset: action.site.offset }),
        None => {
            let name = module.rsplit('/').next().unwrap_or_default();
            Frame { function: Some(format!("{name}+{:#x}", action.site.offset)), ..Frame::default() }
        }
    }
}
