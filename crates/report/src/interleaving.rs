//! The interleaving: one column per thread, one row per event, in the style of Lincheck, with the source line of each
//! event and the reason for each context switch.

mod abridge;
mod switch;
mod table;
mod unobservable;

use crate::{
    Names, RenderOptions, counterfactuals_text, describe, functions,
    objects::ObjectNames,
    operations::{OperationGroup, operations},
    outcome, outcome_text, paths,
    stack::Stack,
    stats_text,
};
use abridge::{Item, abridge};
use std::collections::HashMap;
pub(crate) use switch::{SwitchReason, Switches};
use table::{Column, Row, Table};
use unobservable::unobservable;
use unsnarl_model::{Event, Op, OutcomeKind, Site, ThreadIx, Trace};
use unsnarl_symbols::Frame;

/// Renders the interleaving and the outcome.
///
/// Narrow terminals and many threads get one line per event with the thread's id in front instead of columns.
#[must_use]
pub fn interleaving(trace: &Trace, names: &mut dyn Names, options: &RenderOptions) -> String {
    let parts = [
        interleaving_table(trace, names, options),
        counterfactuals_text(trace, names),
        outcome_text(trace, names, options),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Renders the interleaving.
#[must_use]
pub fn interleaving_table(trace: &Trace, names: &mut dyn Names, options: &RenderOptions) -> String {
    let objects = ObjectNames::of(trace, names);
    let switches = Switches::of(trace);
    let unobservable =
        if options.full { vec![false; trace.events.len()] } else { unobservable(trace, names) };
    let observable: Vec<usize> = (0..trace.events.len()).filter(|&number| !unobservable[number]).collect();
    let groups = if options.full {
        observable.iter().map(|&number| OperationGroup { events: vec![number], words: None }).collect()
    } else {
        operations(trace, &objects, &observable, names)
    };
    let folded = observable.len() - groups.len();
    // Each group is shown in the row of its first event.
    let candidates: Vec<usize> = groups.iter().map(|group| group.events[0]).collect();
    let mut group_of: HashMap<usize, OperationGroup> =
        groups.into_iter().map(|group| (group.events[0], group)).collect();
    let items = if options.full {
        candidates.iter().map(|&number| Item::Event(number)).collect()
    } else {
        abridge(&trace.events, &candidates, most_rows(trace))
    };
    let columns = columns(trace, names);
    let at = |thread: ThreadIx| columns.iter().position(|c| c.thread == thread).unwrap_or(0);

    let mut rows = Vec::new();
    let mut before = None;
    for item in items {
        match item {
            Item::Event(number) => {
                let event = &trace.events[number];
                let switch = before.and_then(|before| switches.between(trace, &objects, before, number));
                if let Some((from, reason)) = switch {
                    rows.push(Row::Switch { at: number, from: at(from), to: at(event.thread), reason });
                }
                let group = group_of.remove(&number);
                let last = group.as_ref().and_then(|group| group.events.last().copied()).unwrap_or(number);
                let words = group.and_then(|group| group.words);
                let words = words.unwrap_or_else(|| describe::event(trace, &objects, number));
                let (location, source) = place_of_event(names, trace, event);
                rows.push(Row::Event { number, column: at(event.thread), words, location, source });
                before = Some(last);
            }
            Item::LeftOut { from, events, switches, thread } => {
                rows.push(Row::LeftOut { at: from, column: thread.map(at), events, switches });
                let last = candidates.get(candidates.partition_point(|&c| c < from) + events - 1);
                before = last.map(|last| {
                    group_of.get(last).map_or(*last, |group| group.events[group.events.len() - 1])
                });
            }
        }
    }
    for ending in outcome::endings(trace, &objects, names) {
        let (location, source) = ending.place.map(|place| locate(names, place)).unwrap_or_default();
        let (column, words) = (at(ending.thread), format!("✗ {}", ending.words));
        rows.push(Row::End { at: trace.events.len(), column, words, location, source });
    }
    shorten_files(&mut rows);

    let table = Table::new(&columns, &rows, options).render();
    let left_out = rows.iter().any(|row| matches!(row, Row::LeftOut { .. }));
    let parts = [stats_text(&trace.stats()) + "\n", table, footnote(left_out, &unobservable, folded)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns the maximum number of readable rows. Threads in a loop need fewer.
fn most_rows(trace: &Trace) -> usize {
    match trace.outcome.kind {
        OutcomeKind::Livelock | OutcomeKind::Undecided(_) => 40,
        _ => 400,
    }
}

/// Describes what is not shown.
fn footnote(left_out: bool, unobservable: &[bool], folded: usize) -> String {
    let mut text = match unobservable.iter().filter(|&&is| is).count() {
        0 => String::new(),
        1 => "1 access that does not affect other threads is hidden (--all shows it).\n".to_owned(),
        n => format!("{n} accesses that do not affect other threads are hidden (--all shows them).\n"),
    };
    text += &match folded {
        0 => String::new(),
        1 => "1 event inside of a library call is folded into it (--all shows it).\n".to_owned(),
        n => format!("{n} events inside of library calls are folded into them (--all shows them).\n"),
    };
    if left_out {
        text += "Long stretches are abridged; --all shows every event.\n";
    }
    text
}

/// Returns a column for each thread that has events or is waiting at the end.
pub(crate) fn columns(trace: &Trace, names: &mut dyn Names) -> Vec<Column> {
    let mut columns = Vec::new();
    let waits_at_end = |thread| {
        trace.outcome.thread == Some(thread) || trace.outcome.waits.iter().any(|wait| wait.thread == thread)
    };
    let mut spans = vec![None; trace.threads.len()];
    for (number, event) in trace.events.iter().enumerate() {
        if let Some(span) = spans.get_mut(event.thread.index()) {
            *span = Some((span.map_or(number, |(first, _)| first), number));
        }
    }
    for (ix, (thread, span)) in (0..).zip(trace.threads.iter().zip(spans)) {
        let ix = ThreadIx(ix);
        let span = match span {
            Some((first, last)) if matches!(trace.events[last].op, Op::End | Op::Exit) => (first, last),
            Some((first, _)) => (first, trace.events.len()),
            None if waits_at_end(ix) => (trace.events.len(), trace.events.len()),
            None => continue,
        };
        let function = match ix {
            ThreadIx::MAIN => Some("main".to_owned()),
            _ => runs(trace, ix, names),
        };
        columns.push(Column {
            thread: ix,
            title: format!("{} {}", thread.id, thread.name).trim_end().to_owned(),
            function: function.filter(|f| *f != thread.name).unwrap_or_default(),
            alive: span,
        });
    }
    columns
}

/// Returns the function that a thread runs. If the language's library starts the thread, it is the user's outermost
/// function on the stack at the end or, failing that, one in which an event occurred.
fn runs(trace: &Trace, thread: ThreadIx, names: &mut dyn Names) -> Option<String> {
    let start = names.place(trace.threads.get(thread.index())?.start);
    if !start.system {
        return start.function.as_deref().map(functions::of_user);
    }
    let stack = Stack::at_end(trace, thread, names);
    if let Some(outermost) = stack.users().next_back() {
        return outermost.function.as_deref().map(functions::of_user);
    }
    let events = trace.events.iter().filter(|event| event.thread == thread).take(MANY);
    let seen = events.map(|event| names.place(trace.user_site(event))).find(|place| !place.system)?;
    Some(format!("in {}", functions::of_user(&seen.function?)))
}

/// Number of events that are searched for the name of a function.
const MANY: usize = 10_000;

/// The source location of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) file: Option<String>,
    /// The line, or the whole text if there is no file.
    pub(crate) rest: String,
}

impl Location {
    fn text(&self) -> String {
        match &self.file {
            Some(file) => format!("{file}:{}", self.rest),
            None => self.rest.clone(),
        }
    }
}

/// Returns the location of an event and its source line.
pub(crate) fn place_of_event(names: &mut dyn Names, trace: &Trace, event: &Event) -> (Location, String) {
    let place = names.place(trace.user_site(event));
    let start = trace.threads.get(event.thread.index()).map_or_else(Site::default, |thread| thread.start);
    match event.op {
        // The start and end of a thread belong to no code.
        Op::End => Default::default(),
        Op::Start if place.system || place.file.is_none() => Default::default(),
        // Rust's atomics are library functions, whose names say no more than the operation.
        op if op.is_atomic() && place.system => Default::default(),
        // A return from main: the site is main's own.
        Op::Exit if trace.site(event) == start => Default::default(),
        _ => locate(names, place),
    }
}

fn locate(names: &mut dyn Names, place: Frame) -> (Location, String) {
    match place {
        // Inside a library the function says more than the file.
        Frame { function: Some(function), system: true, .. } => {
            (Location { file: None, rest: format!("in {}", functions::short(&function)) }, String::new())
        }
        Frame { file: Some(file), line: Some(line), .. } => {
            let mut line_of = |line| Some(names.source_line(&file, line)?.trim().to_owned());
            let source = match line_of(line) {
                // For the head of a function with the brace on its own line.
                Some(brace) if brace == "{" && line > 1 => line_of(line - 1),
                source => source,
            };
            (Location { file: Some(file), rest: line.to_string() }, source.unwrap_or_default())
        }
        frame => (Location { file: None, rest: frame.function.unwrap_or_default() }, String::new()),
    }
}

fn shorten_files(rows: &mut [Row]) {
    let short = paths::shortest(rows.iter().filter_map(|row| row.location()?.file.as_deref()));
    for row in rows {
        if let Some(file) = row.location_mut().and_then(|location| location.file.as_mut())
            && let Some(short) = short.get(file)
        {
            file.clone_from(short);
        }
    }
}
