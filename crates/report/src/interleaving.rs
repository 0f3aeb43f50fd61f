//! The interleaving: one column per thread, one row per event, as Lincheck made popular, with the
//! source line of each event and the reason for each context switch.

mod abridge;
mod switch;
mod table;

use crate::{Look, Names, objects::ObjectNames, outcome, outcome_text, paths, stats_text, words};
use abridge::{Item, abridge};
use switch::Switches;
use table::{Column, Row, Table};
use unsnarl_model::{Site, ThreadIx, Trace};
use unsnarl_symbols::Frame;

/// Who did what in which order, and how it ended.
///
/// Narrow terminals and many threads get one line per event with the thread's id in front instead
/// of columns.
#[must_use]
pub fn interleaving(trace: &Trace, names: &mut dyn Names, look: &Look) -> String {
    let objects = ObjectNames::of(trace, names);
    let switches = Switches::of(trace);
    let items = abridge(&trace.events, look.full);
    let columns = columns(trace, names);
    let at = |thread: ThreadIx| columns.iter().position(|c| c.thread == thread).unwrap_or(0);

    let mut rows = Vec::new();
    for item in items {
        match item {
            Item::Event(number) => {
                let event = &trace.events[number];
                if let Some((from, why)) = switches.before(trace, &objects, number) {
                    rows.push(Row::Switch { at: number, from: at(from), to: at(event.thread), why });
                }
                let words = words::event(trace, &objects, number);
                let (location, source) = place(names, trace.site(event));
                rows.push(Row::Event { number, column: at(event.thread), words, location, source });
            }
            Item::LeftOut { from, events, switches, thread } => {
                rows.push(Row::LeftOut { at: from, column: thread.map(at), events, switches });
            }
        }
    }
    for ending in outcome::endings(trace, &objects) {
        let (location, source) = ending.site.map(|site| place(names, site)).unwrap_or_default();
        let (column, words) = (at(ending.thread), format!("✗ {}", ending.words));
        rows.push(Row::End { at: trace.events.len(), column, words, location, source });
    }
    shorten_files(&mut rows);

    let left_out = rows.iter().any(|row| matches!(row, Row::LeftOut { .. }));
    let table = Table::new(&columns, &rows, look).render();
    let hint = if left_out { "Long stretches are abridged; --all shows every event.\n" } else { "" };
    [stats_text(&trace.stats()) + "\n", table, hint.to_owned(), outcome_text(trace, names, look)]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

/// A column for each thread that did something or waits to.
fn columns(trace: &Trace, names: &mut dyn Names) -> Vec<Column> {
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
            Some((first, _)) if waits_at_end(ix) => (first, trace.events.len()),
            Some(span) => span,
            None if waits_at_end(ix) => (trace.events.len(), trace.events.len()),
            None => continue,
        };
        let start = names.place(thread.start);
        let function = match start.function {
            _ if ix == ThreadIx::MAIN => Some("main".to_owned()),
            Some(function) if !start.system => Some(function),
            _ => None,
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

/// Where a row is in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Location {
    file: Option<String>,
    /// The line, or all there is to say without a file.
    rest: String,
}

impl Location {
    fn text(&self) -> String {
        match &self.file {
            Some(file) => format!("{file}:{}", self.rest),
            None => self.rest.clone(),
        }
    }
}

fn place(names: &mut dyn Names, site: Site) -> (Location, String) {
    match names.place(site) {
        Frame { file: Some(file), line: Some(line), .. } => {
            let source = names.source_line(&file, line).unwrap_or_default().trim().to_owned();
            (Location { file: Some(file), rest: line.to_string() }, source)
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
