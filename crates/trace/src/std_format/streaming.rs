//! Import of STD text that is too long for memory: it is read twice, and its events are stored by thread in a
//! temporary file.

use super::{
    Note, StdError,
    import::{ImportOutcome, Importer, Sink},
    text::{StdText, each_line},
};
use crate::{EventWriter, Lanes};
use std::{
    fmt,
    io::{self, BufRead, Read, Seek, Write},
};
use unsnarl_model::{Event, Schedule, Stats, StatsCounter, Trace};
use unsnarl_semantics::preemption::{ExecutionFacts, PreemptionMarker};

/// The maximum number of notes kept.
const MAX_NOTES: usize = 1000;

/// An imported trace whose events are not held in memory.
pub struct StreamedImport<F> {
    /// The trace without its events.
    pub trace: Trace,
    /// The first irregularities, which were kept as they are.
    pub notes: Vec<Note>,
    /// The number of notes.
    pub odd: u64,
    spill: SpillFile<F>,
    events: u64,
}

impl<F> fmt::Debug for StreamedImport<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LongImport").field("events", &self.events).finish_non_exhaustive()
    }
}

/// Events by thread, and the order of the threads.
struct SpillFile<F> {
    lanes: Lanes<F>,
    schedule: Schedule,
    executed: ExecutionFacts,
}

impl<F: Read + Write + Seek> Sink for SpillFile<F> {
    fn put(&mut self, event: Event, _: u64) -> io::Result<()> {
        self.schedule.push(event.thread);
        self.executed.note(&event);
        self.lanes.put(event)
    }
}

/// Reads a trace like [`import`](super::import), but keeps only the context switches in memory. `open` is
/// called twice and must return the same text; `scratch` is an empty temporary file.
pub fn import_streaming<R: BufRead, F: Read + Write + Seek>(
    open: impl Fn() -> io::Result<R>,
    scratch: F,
) -> Result<StreamedImport<F>, StdError> {
    let unreadable = |reason| StdError::Io { line: 0, reason };
    let mut text = StdText::default();
    each_line(open().map_err(unreadable)?, |line, parsed| {
        text.note(line, parsed);
        Ok(())
    })?;
    let lanes = Lanes::new(scratch, text.most_threads()).map_err(StdError::SpillFile)?;
    let spill = SpillFile { lanes, schedule: Schedule::default(), executed: ExecutionFacts::default() };
    let mut import = Importer::new(&text, MAX_NOTES, spill);
    let mut index = 0;
    each_line(open().map_err(unreadable)?, |line, parsed| {
        import.entry(index, &text.find_entry(line, parsed).ok_or(StdError::Changed)?)?;
        index += 1;
        Ok(())
    })?;
    if index != text.entries() {
        return Err(StdError::Changed);
    }
    let ImportOutcome { trace, notes, odd, count, events, .. } = import.finish()?;
    Ok(StreamedImport { trace, notes, odd, spill: events, events: count })
}

impl<F: Read + Write + Seek> StreamedImport<F> {
    /// Writes the trace's file and returns its statistics.
    ///
    /// # Errors If it cannot be written, or the temporary file cannot be read.
    pub fn write(self, out: impl Write) -> io::Result<Stats> {
        let SpillFile { mut lanes, schedule, executed } = self.spill;
        let mut writer = EventWriter::new(&self.trace, self.events, out)?;
        let mut marking = PreemptionMarker::new(executed, &[]);
        let mut count = StatsCounter::default();
        let mut running = None;
        for segment in &schedule.segments {
            for at in 0..segment.points {
                let left = running.filter(|_| at == 0);
                let upcoming = left.map_or(Ok(None), |thread| lanes.peek(thread))?;
                let event = lanes.take(segment.thread)?.ok_or(io::ErrorKind::UnexpectedEof)?;
                let event = marking.marked(event, upcoming.as_ref());
                count.add(&event);
                writer.push(event)?;
            }
            running = Some(segment.thread);
        }
        writer.finish()?;
        Ok(count.stats)
    }
}
