//! From a trace to the bytes of its file.

use crate::{
    CHUNK, FORMAT, MAGIC, Section,
    bytes::{Coded, put_length},
    chunk,
    section::SectionWriter,
};
use std::io::{self, Write};
use unsnarl_model::Trace;

/// The bytes of a trace's file.
///
/// A trace whose parts do not fit together is written all the same, and refused by
/// [`decode`](crate::decode).
#[must_use]
pub fn encode(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(trace, &mut bytes).expect("memory takes all bytes");
    bytes
}

/// Writes the bytes of a trace's file, without holding all of them at once.
pub fn write(trace: &Trace, mut out: impl Write) -> io::Result<()> {
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
    put_length(trace.events.len(), &mut bytes);
    sections.write(Section::Threads, &bytes)?;

    bytes.clear();
    trace.outcome.put(&mut bytes);
    trace.warnings.put(&mut bytes);
    trace.races.put(&mut bytes);
    trace.needs.put(&mut bytes);
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

    for events in trace.events.chunks(CHUNK) {
        bytes.clear();
        chunk::put(events, &mut bytes);
        sections.write(Section::Events, &bytes)?;
    }

    bytes.clear();
    put_length(trace.events.len(), &mut bytes);
    sections.write(Section::End, &bytes)?;
    sections.finish()
}
