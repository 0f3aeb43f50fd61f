//! Writing: from a trace to the bytes of its file.

use crate::{
    CHUNK, FORMAT, MAGIC, Section,
    bytes::{Codec, put_length},
    chunk,
    section::SectionWriter,
};
use std::{
    fmt,
    io::{self, Write},
};
use unsnarl_model::{Event, Trace};

/// Encodes a trace as the bytes of its file.
///
/// An inconsistent trace is written as well, and rejected by [`decode`](crate::decode).
#[must_use]
pub fn encode(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(trace, &mut bytes).expect("memory takes all bytes");
    bytes
}

/// Writes the bytes of a trace's file, without holding all of them at once.
pub fn write(trace: &Trace, out: impl Write) -> io::Result<()> {
    let mut writer = EventWriter::new(trace, trace.events.len() as u64, out)?;
    for events in trace.events.chunks(CHUNK) {
        writer.write_chunk(events)?;
    }
    writer.finish()
}

/// Writes a trace file front to back: everything but the events at once, then the events one by one.
pub struct EventWriter<W> {
    sections: SectionWriter<W>,
    events: u64,
    written: u64,
    chunk: Vec<Event>,
    bytes: Vec<u8>,
}

impl<W> fmt::Debug for EventWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventWriter").field("written", &self.written).finish_non_exhaustive()
    }
}

impl<W: Write> EventWriter<W> {
    /// Writes everything up to the events and declares their number; the trace's own events are ignored.
    pub fn new(trace: &Trace, events: u64, mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        out.write_all(&FORMAT.to_le_bytes())?;
        let mut sections = SectionWriter::new(out)?;
        let mut bytes = Vec::new();

        trace.program.put(&mut bytes);
        trace.modules.put(&mut bytes);
        sections.write(Section::Program, &bytes)?;

        bytes.clear();
        trace.plan.put(&mut bytes);
        sections.write(Section::Plan, &bytes)?;

        bytes.clear();
        trace.threads.put(&mut bytes);
        trace.sites.put(&mut bytes);
        trace.names.put(&mut bytes);
        bytes.extend_from_slice(&events.to_le_bytes());
        sections.write(Section::Threads, &bytes)?;

        bytes.clear();
        trace.outcome.put(&mut bytes);
        trace.warnings.put(&mut bytes);
        trace.races.put(&mut bytes);
        trace.counterfactuals.put(&mut bytes);
        sections.write(Section::Outcome, &bytes)?;

        bytes.clear();
        trace.output.put(&mut bytes);
        sections.write(Section::Output, &bytes)?;

        bytes.clear();
        trace.plan.inputs.is_some().put(&mut bytes);
        match &trace.plan.inputs {
            Some(inputs) => inputs.put(&mut bytes),
            None => put_length(0, &mut bytes),
        }
        sections.write(Section::Inputs, &bytes)?;

        bytes.clear();
        trace.callers.put(&mut bytes);
        sections.write(Section::Callers, &bytes)?;

        bytes.clear();
        trace.program_warnings.put(&mut bytes);
        sections.write(Section::ProgramWarnings, &bytes)?;

        bytes.clear();
        trace.native.put(&mut bytes);
        sections.write(Section::Recording, &bytes)?;

        bytes.clear();
        trace.plan.timeouts.put(&mut bytes);
        sections.write(Section::Timeouts, &bytes)?;

        bytes.clear();
        trace.plan.continuations.put(&mut bytes);
        sections.write(Section::Continuations, &bytes)?;

        bytes.clear();
        trace.contexts.put(&mut bytes);
        sections.write(Section::Contexts, &bytes)?;
        Ok(Self { sections, events, written: 0, chunk: Vec::new(), bytes })
    }

    /// Appends an event.
    pub fn push(&mut self, event: Event) -> io::Result<()> {
        self.chunk.push(event);
        if self.chunk.len() == CHUNK { self.write_buffered() } else { Ok(()) }
    }

    /// Finishes the file.
    ///
    /// # Errors If the number of events is not the declared one, or writing fails.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.chunk.is_empty() {
            self.write_buffered()?;
        }
        if self.written != self.events {
            return Err(io::Error::other("there are other events than were announced"));
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(&self.events.to_le_bytes());
        self.sections.write(Section::End, &self.bytes)?;
        self.sections.finish()
    }

    fn write_buffered(&mut self) -> io::Result<()> {
        let mut chunk = std::mem::take(&mut self.chunk);
        self.write_chunk(&chunk)?;
        chunk.clear();
        self.chunk = chunk;
        Ok(())
    }

    /// Writes one full chunk, or the last events.
    fn write_chunk(&mut self, events: &[Event]) -> io::Result<()> {
        self.bytes.clear();
        chunk::put(events, &mut self.bytes);
        self.written += events.len() as u64;
        self.sections.write(Section::Events, &self.bytes)
    }
}
