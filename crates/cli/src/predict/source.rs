//! The source of the events: a trace in memory, one too large for that, or another tool's text.

use crate::{traces, verdict::InconsistentTrace};
use anyhow::{Context, Result};
use std::{
    borrow::Cow,
    cell::RefCell,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
};
use unsnarl_model::{Event, ThreadIx, Trace};
use unsnarl_predict::{PredictOptions, Prediction, Predictor, TraceInconsistency, WindowProgress};
use unsnarl_report::{Names, ProgramNames};
use unsnarl_symbols::Symbols;
use unsnarl_trace::{EventReader, std_format};

/// Traces with at least this many events are read window by window.
const LARGE: u64 = 4_000_000;

/// The trace to analyse.
pub(super) struct Source {
    path: PathBuf,
    /// Without its events if it is read window by window.
    trace: Trace,
    events: u64,
    names: std_format::StdNames,
    streamed: Option<PathBuf>,
    /// For each event the line of the text, if the source is text.
    lines: Vec<u64>,
}

impl Source {
    /// Opens a trace; `at_hand` asks for all its events in memory.
    pub(super) fn open(requested: &Path, at_hand: bool) -> Result<Self> {
        let path = traces::find(requested);
        if path.extension().is_some_and(|ending| ending == "std") {
            return Self::text(&path);
        }
        let names = std_format::StdNames::default();
        if !at_hand
            && let Some(reader) =
                File::open(&path).ok().and_then(|file| EventReader::new(BufReader::new(file)).ok())
            && reader.events() > LARGE
        {
            let (trace, events) = (reader.header().clone(), reader.events());
            let streamed = Some(path.clone());
            return Ok(Self { path, trace, events, names, streamed, lines: Vec::new() });
        }
        let trace = traces::load(requested)?;
        let events = trace.events.len() as u64;
        Ok(Self { path, events, trace, names, streamed: None, lines: Vec::new() })
    }

    fn text(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let std_format::ImportedTrace { trace, names, lines, .. } =
            std_format::import(BufReader::new(file)).with_context(|| path.display().to_string())?;
        let (path, events) = (path.to_owned(), trace.events.len() as u64);
        Ok(Self { path, events, trace, names, streamed: None, lines })
    }

    /// Returns the trace, perhaps without its events.
    pub(super) const fn header(&self) -> &Trace {
        &self.trace
    }

    /// Returns the trace, which was opened with its events.
    pub(super) const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns the number of events.
    pub(super) const fn count(&self) -> u64 {
        self.events
    }

    /// Returns the events from this one on, if they are in memory.
    pub(super) fn events_from(&self, first: u64) -> Option<&[Event]> {
        self.streamed.is_none().then(|| &self.trace.events[first as usize..])
    }

    /// Returns another tool's name of a lock or variable; `None` for a trace of a program.
    pub(super) fn name(&self, addr: u64) -> Option<Cow<'_, str>> {
        if !self.trace.program.path.is_empty() {
            return None;
        }
        let recorded_name =
            self.trace.names.iter().find(|(at, _)| *at == addr).map(|(_, name)| name.as_str().into());
        Some(recorded_name.unwrap_or_else(|| self.names.of(addr)))
    }

    /// Returns the name of a lock or variable, for a trace of any tool.
    pub(super) fn object(&self, addr: u64, names: &mut ProgramNames<'_>) -> String {
        let foreign = self.name(addr).map(Cow::into_owned);
        foreign.or_else(|| names.variable(addr)).unwrap_or_else(|| format!("{addr:#x}"))
    }

    pub(super) fn predict(
        &mut self,
        options: PredictOptions,
        watch: &mut dyn FnMut(WindowProgress),
    ) -> Result<Prediction> {
        let mut predictor = Predictor::new(options);
        match &self.streamed {
            None => predictor
                .push(&self.trace.events, watch)
                .map_err(|inconsistency| self.locate_inconsistency(inconsistency))?,
            Some(path) => {
                let mut reader = EventReader::new(BufReader::new(File::open(path)?))?;
                while let Some(chunk) = reader.next_chunk()? {
                    predictor
                        .push(chunk, watch)
                        .map_err(|inconsistency| self.locate_inconsistency(inconsistency))?;
                }
            }
        }
        predictor.finish(watch).map_err(|inconsistency| self.locate_inconsistency(inconsistency))
    }

    /// Adds the location to an inconsistency: a line of text, or an event and its site.
    pub(super) fn locate_inconsistency(&self, inconsistency: TraceInconsistency) -> anyhow::Error {
        let mut symbols = Symbols::new();
        let names = RefCell::new(ProgramNames::new(&self.trace.modules, &mut symbols));
        let lock = |addr| self.object(addr, &mut names.borrow_mut());
        let report = inconsistency.describe(&lock, &|thread| self.thread(thread));
        let because = "nothing can be predicted from that";
        let report = match (
            self.lines.get(inconsistency.event as usize),
            self.trace.events.get(inconsistency.event as usize),
        ) {
            (Some(line), _) => format!("line {line}: {report}; {because}: correct the text"),
            (None, Some(event)) if !self.trace.program.path.is_empty() => {
                let place = names.borrow_mut().place(self.trace.site(event));
                let place = place.place().unwrap_or_else(|| place.to_string());
                format!(
                    "event {}: {report}, at {place}; {because}: fix it, and record again",
                    inconsistency.event
                )
            }
            _ => format!("event {}: {report}; {because}: record again", inconsistency.event),
        };
        anyhow::Error::new(InconsistentTrace(report)).context(self.path.display().to_string())
    }

    /// Returns a thread's name: the other tool's own, or the path of creation.
    pub(super) fn thread(&self, thread: ThreadIx) -> String {
        match self.trace.threads.get(thread.index()) {
            Some(known) if self.trace.program.path.is_empty() && !known.name.is_empty() => known.name.clone(),
            Some(known) => format!("thread {}", known.id),
            None => format!("thread number {}", thread.0),
        }
    }
}
