//! Reading: from the bytes of a file to its trace, all at once or chunk by chunk.

use crate::{
    CALLERS, CHUNK, CONTEXT_CALLS, CONTEXTS, DecodeError, FORMAT, GZIP, INPUTS, LIMITS, MAGIC, OLDEST,
    PROGRAM_WARNINGS, Section,
    bytes::{ByteCursor, Codec, CodecError},
    check, chunk,
    section::{SectionReader, most_in},
    upgrade::{Upgrade, upgrade_outcome},
};
use std::{io::Read, sync::Arc};
use unsnarl_model::{Counterfactual, Event, Input, Outcome, Plan, Timeouts, Trace};

/// Decodes the bytes of a trace file.
pub fn decode(bytes: &[u8]) -> Result<Trace, DecodeError> {
    EventReader::new(bytes)?.into_trace(bytes.len() as u64)
}

/// Reads a trace file front to back: everything but the events at once, then the events chunk by chunk.
///
/// ```
/// # fn count(file: &[u8]) -> Result<u64, unsnarl_trace::DecodeError> {
/// let mut reader = unsnarl_trace::EventReader::new(file)?;
/// println!("{} threads", reader.header().threads.len());
/// let mut events = 0;
/// while let Some(chunk) = reader.next_chunk()? {
///     events += chunk.len() as u64;
/// }
/// # Ok(events)
/// # }
/// ```
#[derive(Debug)]
pub struct EventReader<R> {
    format: u32,
    sections: SectionReader<R>,
    header: Trace,
    events: u64,
    left: u64,
    ended: bool,
    chunk: Vec<Event>,
    /// Translates the events of an older format.
    upgrade: Option<Upgrade>,
}

impl<R: Read> EventReader<R> {
    /// Reads everything up to the events. The input should be buffered.
    pub fn new(mut input: R) -> Result<Self, DecodeError> {
        let format = first_bytes(&mut input)?;
        let mut sections = SectionReader::new(input)?;
        let (program, modules) = section(&mut sections, Section::Program)?;
        let mut plan: Plan = section(&mut sections, Section::Plan)?;
        let (threads, (sites, (names, Fixed(count)))) = section(&mut sections, Section::Threads)?;
        let (mut outcome, (warnings, (races, mut counterfactuals))): (
            Outcome,
            (_, (_, Vec<Counterfactual>)),
        ) = section(&mut sections, Section::Outcome)?;
        if format < LIMITS {
            upgrade_outcome(&mut outcome.kind, &outcome.message);
            counterfactuals.iter_mut().for_each(|without| {
                upgrade_outcome(&mut without.outcome_without, &without.message);
            });
        }
        let output = section(&mut sections, Section::Output)?;
        if format >= INPUTS {
            let (known, inputs): (bool, Vec<Input>) = section(&mut sections, Section::Inputs)?;
            plan.inputs = known.then(|| Arc::new(inputs));
        }
        let callers = if format >= CALLERS { section(&mut sections, Section::Callers)? } else { Vec::new() };
        let program_warnings = if format >= PROGRAM_WARNINGS {
            section(&mut sections, Section::ProgramWarnings)?
        } else {
            Vec::new()
        };
        let native = format >= CONTEXTS && section(&mut sections, Section::Recording)?;
        // Before there were rules, every time-out could expire at any moment.
        plan.timeouts =
            if format >= LIMITS { section(&mut sections, Section::Timeouts)? } else { Timeouts::Eager };
        plan.continuations = format >= LIMITS && section(&mut sections, Section::Continuations)?;
        let contexts =
            if format >= CONTEXT_CALLS { section(&mut sections, Section::Contexts)? } else { Vec::new() };
        let events = Vec::new();
        let header = Trace {
            program,
            modules,
            plan,
            threads,
            sites,
            callers,
            contexts,
            events,
            outcome,
            warnings,
            program_warnings,
            native,
            races,
            counterfactuals,
            names,
            output,
        };
        check::metadata(&header).map_err(|inconsistent| DecodeError::Corrupt {
            section: inconsistent.section,
            reason: inconsistent.reason,
        })?;
        let upgrade = Upgrade::from(format);
        let chunk = Vec::new();
        Ok(Self { format, sections, header, events: count, left: count, ended: false, chunk, upgrade })
    }

    /// Returns the trace without its events.
    pub const fn header(&self) -> &Trace {
        &self.header
    }

    /// Returns the number of events that the file declares. If it has another number, reading them fails.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Returns the next events; `None` after the last, once the end of the file has been checked as well.
    pub fn next_chunk(&mut self) -> Result<Option<&[Event]>, DecodeError> {
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.clear();
        let more = self.append_chunk(&mut chunk)?;
        self.chunk = chunk;
        Ok(more.then_some(&self.chunk))
    }

    /// Returns the whole trace, if no chunk has been read yet. `size` is the file's size or any upper bound:
    /// it limits the initial allocation for the events.
    pub(crate) fn into_trace(mut self, size: u64) -> Result<Trace, DecodeError> {
        let most = most_in(size, chunk::LEAST as u64).min(self.events);
        let mut events = Vec::with_capacity(usize::try_from(most).unwrap_or(0));
        while self.append_chunk(&mut events)? {}
        Ok(Trace { events, ..self.header })
    }

    fn append_chunk(&mut self, events: &mut Vec<Event>) -> Result<bool, DecodeError> {
        if self.left == 0 {
            if !self.ended {
                let Fixed(events) = section(&mut self.sections, Section::End)?;
                if events != self.events {
                    let reason = "it counts other events than there are";
                    return Err(DecodeError::Corrupt { section: Section::End, reason });
                }
                self.sections.finish()?;
                self.ended = true;
            }
            return Ok(false);
        }
        let count = self.left.min(CHUNK as u64);
        let corrupt = |reason| DecodeError::Corrupt { section: Section::Events, reason };
        let bytes = self.sections.read(Section::Events)?;
        if bytes.len() > chunk::MAX_IN_CHUNK {
            return Err(corrupt("a chunk is too long"));
        }
        let limits = (self.header.threads.len(), self.header.sites.len());
        let first = events.len();
        chunk::take(self.format, count as usize, limits, bytes, events).map_err(corrupt)?;
        if let Some(upgrade) = &mut self.upgrade {
            events[first..].iter_mut().for_each(|event| upgrade.upgrade(event));
        }
        self.left -= count;
        Ok(true)
    }
}

/// Returns the file's format.
fn first_bytes(input: &mut impl Read) -> Result<u32, DecodeError> {
    let mut start = Vec::new();
    let length = MAGIC.len() + size_of::<u32>();
    input.take(length as u64).read_to_end(&mut start).map_err(DecodeError::Io)?;
    if start.starts_with(&GZIP) {
        return Err(DecodeError::Compressed);
    }
    let common = start.len().min(MAGIC.len());
    if start.is_empty() || start[..common] != MAGIC[..common] {
        return Err(DecodeError::NotATrace);
    }
    let Some(&format) = start.last_chunk().filter(|_| start.len() == length) else {
        return Err(DecodeError::Truncated { section: Section::Start });
    };
    match u32::from_le_bytes(format) {
        known @ OLDEST..=FORMAT => Ok(known),
        found if found > FORMAT => Err(DecodeError::Newer { found, newest: FORMAT }),
        found @ 1..OLDEST => Err(DecodeError::Older { found, oldest: OLDEST }),
        _ => Err(DecodeError::Corrupt { section: Section::Start, reason: "there was no such format" }),
    }
}

/// Reads a section that holds exactly one value.
fn section<T: Codec>(sections: &mut SectionReader<impl Read>, section: Section) -> Result<T, DecodeError> {
    let mut cursor = ByteCursor::new(sections.read(section)?);
    T::take(&mut cursor)
        .and_then(|value| cursor.finish().map(|()| value))
        .map_err(|reason| DecodeError::Corrupt { section, reason })
}

/// A number in eight bytes.
struct Fixed(u64);

impl Codec for Fixed {
    const LEAST: usize = size_of::<u64>();

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        from.array().map(u64::from_le_bytes).map(Self)
    }
}

impl<A: Codec, B: Codec> Codec for (A, B) {
    const LEAST: usize = A::LEAST + B::LEAST;

    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        Ok((A::take(from)?, B::take(from)?))
    }
}
