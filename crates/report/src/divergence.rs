//! Descriptions of divergences: where a run left its plan.

use crate::{
    Names,
    json::{insert_place, site_text},
};
use serde_json::{Map, Value, json};
use unsnarl_model::{Action, Divergence, Event, ModuleIx, Site, Trace};
use unsnarl_symbols::Frame;

/// Describes a divergence in a few lines. `trace` is that of the diverged run.
#[must_use]
pub fn divergence_text(divergence: &Divergence, trace: &Trace, names: &mut dyn Names) -> String {
    let Divergence { point, thread, expected, actual } = divergence;
    let mut describe_action = |action: &(Action, String)| {
        let place = place(trace, names, action);
        let text = place
            .line
            .and_then(|line| names.source_line(place.file.as_deref()?, line))
            .map(|text| format!("\n    {}", text.trim()))
            .unwrap_or_default();
        format!("{} at {}{text}", action.0.op.name(), site_text(trace, &place))
    };
    let expected = expected.as_ref().map_or_else(|| "the end of the run".to_owned(), &mut describe_action);
    let actual = actual
        .as_ref()
        .map_or_else(|| "nothing: it could not run, or the run had ended".to_owned(), describe_action);
    format!(
        "the run left its schedule at point {point}, in thread {thread}\n  expected: {expected}\n  got: {actual}\n  \
         It depends on something that is not controlled: a file, the network, another process, memory that\n  \
         was never initialised.\n"
    )
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
    let describe_action = |trace: &Trace| match event(trace, *point) {
        Some(event) => format!(
            "value {:#x}, {} bytes at {:#x}, flags {:#x}",
            event.value, event.size, event.addr, event.flags.0
        ),
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
