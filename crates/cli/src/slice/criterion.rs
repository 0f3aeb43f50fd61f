//! What to explain: the failure, or what the user names.

use super::code;
use crate::verdict::WrongUsage;
use anyhow::{Result, bail};
use unsnarl_model::{ThreadIx, Trace};
use unsnarl_report::{Names, on_line};
use unsnarl_slice::{Criterion, History, Place, x86::Recording};

/// A line, which of its executions, and perhaps a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At {
    file: String,
    line: u32,
    variable: Option<String>,
    instance: Option<u64>,
}

impl std::str::FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "a line is written like queue.c:42, its third execution like queue.c:42#3, a variable as it was after it \
             like queue.c:42:count"
                .to_owned()
        };
        let (place, instance) = match text.split_once('#') {
            Some((place, instance)) => {
                (place, Some(instance.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?))
            }
            None => (text, None),
        };
        let (before, last) = place.rsplit_once(':').ok_or_else(wrong)?;
        let (file, line, variable) = match last.parse() {
            Ok(line) => (before, line, None),
            Err(_) => {
                let (file, line) = before.rsplit_once(':').ok_or_else(wrong)?;
                (file, line.parse().map_err(|_| wrong())?, Some(last.to_owned()))
            }
        };
        if file.is_empty() || variable.as_ref().is_some_and(String::is_empty) {
            return Err(wrong());
        }
        Ok(Self { file: file.to_owned(), line, variable, instance })
    }
}

/// What is to be explained, as steps of the trace.
pub(super) fn find(
    at: Option<&At>,
    recorded: &Trace,
    modules: &[String],
    recording: &Recording<'_>,
    names: &mut dyn Names,
) -> Result<Criterion> {
    let Some(at) = at else {
        let criterion = recording.failure(recorded);
        if criterion.latest().is_none() {
            bail!("the failure is in code that was not traced; say what to explain by --at FILE:LINE");
        }
        return Ok(criterion);
    };
    let places = on_line(recorded, recording, names, &at.file, at.line);
    if places.is_empty() {
        bail!(WrongUsage(format!(
            "--at: {}:{} was not executed, or the program is built without -g",
            at.file, at.line
        )));
    }
    let (steps, count) = recording.visit(&|place| places.contains(&place), at.instance);
    if steps.is_empty() {
        bail!(WrongUsage(format!("--at: {}:{} was executed {count} times only", at.file, at.line)));
    }
    let Some(variable) = &at.variable else { return Ok(Criterion { steps, ..Criterion::default() }) };
    let spans = code::variables(recorded, modules, variable);
    if spans.is_empty() {
        bail!(WrongUsage(format!(
            "--at: there is no global or static variable `{variable}` in the traced code; for what a line uses of \
             others, give the line alone: {}:{}",
            at.file, at.line
        )));
    }
    let after = steps.iter().copied().max().unwrap_or(0);
    Ok(Criterion { bytes: spans.into_iter().map(|span| (after, span)).collect(), ..Criterion::default() })
}

/// The instructions of a criterion, and who executed them.
pub(super) fn places(recording: &Recording<'_>, criterion: &Criterion) -> Vec<(Place, ThreadIx)> {
    let wanted = criterion.all_steps();
    let mut places = Vec::new();
    let first = wanted.iter().copied().min().unwrap_or(0);
    let Some(latest) = criterion.latest() else { return places };
    recording.backwards(latest, &mut |step| {
        if wanted.contains(&step.number) {
            places.push((step.place, step.thread));
        }
        step.number > first
    });
    places.sort();
    places.dedup();
    places
}
