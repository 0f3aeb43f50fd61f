//! One sequence of events per thread, in a temporary file.
//!
//! An order of events that keeps each thread's program order takes the next event of some thread at each
//! step. For a trace that is too long for memory, the events of each thread are therefore stored separately
//! and read back one by one.

use std::{
    collections::VecDeque,
    fmt,
    io::{self, Read, Seek, SeekFrom, Write},
};
use unsnarl_model::{Event, Flags, Op, Order, SiteIx, ThreadIx};

/// The number of events buffered in memory over all threads; the same again while they are read back.
const MAX_BUFFERED: usize = 1 << 20;

/// The maximum and minimum number of events written at once.
const MAX_SPILL: usize = 1 << 16;
const MIN_SPILL: usize = 16;

/// The size of an event whose thread is known, in bytes.
const EVENT: usize = 36;

/// Events by thread, returned in the order in which they were added.
pub struct Lanes<F> {
    file: F,
    end: u64,
    lanes: Vec<Lane>,
    /// The number of events of a thread that are written at once.
    at_once: usize,
    packer: zstd::bulk::Compressor<'static>,
    unpacker: zstd::bulk::Decompressor<'static>,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Lane {
    /// The written blocks: position, number of bytes, number of events.
    spill: VecDeque<(u64, usize, usize)>,
    /// Events added since the last block.
    rest: Vec<Event>,
    /// The events to return next, from index `taken` on.
    next: Vec<Event>,
    taken: usize,
}

impl<F> fmt::Debug for Lanes<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").field("threads", &self.lanes.len()).finish_non_exhaustive()
    }
}

impl<F: Read + Write + Seek> Lanes<F> {
    /// Creates lanes for `threads` threads in an empty file.
    ///
    /// # Errors If there is no memory for the compressor.
    pub fn new(file: F, threads: usize) -> io::Result<Self> {
        Ok(Self {
            file,
            end: 0,
            lanes: (0..threads).map(|_| Lane::default()).collect(),
            at_once: (MAX_BUFFERED / threads.max(1)).clamp(MIN_SPILL, MAX_SPILL),
            packer: zstd::bulk::Compressor::new(1)?,
            unpacker: zstd::bulk::Decompressor::new()?,
            bytes: Vec::new(),
        })
    }

    /// Appends an event to its thread.
    ///
    /// # Errors
    /// If the file cannot be written, or there is no such thread.
    pub fn put(&mut self, event: Event) -> io::Result<()> {
        let lane = self.lanes.get_mut(event.thread.index()).ok_or_else(unknown)?;
        lane.rest.push(event);
        if lane.rest.len() < self.at_once {
            return Ok(());
        }
        self.bytes.clear();
        lane.rest.iter().for_each(|event| put(event, &mut self.bytes));
        let packed = self.packer.compress(&self.bytes)?;
        // Nothing is taken before everything is put, so the file ends here.
        self.file.write_all(&packed)?;
        lane.spill.push_back((self.end, packed.len(), lane.rest.len()));
        lane.rest.clear();
        self.end += packed.len() as u64;
        Ok(())
    }

    /// Returns the next event of a thread without removing it; `None` after the last.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn peek(&mut self, thread: ThreadIx) -> io::Result<Option<Event>> {
        let lane = self.lanes.get_mut(thread.index()).ok_or_else(unknown)?;
        if lane.taken == lane.next.len() {
            (lane.next, lane.taken) = match lane.spill.pop_front() {
                None => (std::mem::take(&mut lane.rest), 0),
                Some((at, length, count)) => {
                    self.bytes.resize(length, 0);
                    self.file.seek(SeekFrom::Start(at))?;
                    self.file.read_exact(&mut self.bytes)?;
                    let unpacked = self.unpacker.decompress(&self.bytes, count * EVENT)?;
                    let events = unpacked.chunks_exact(EVENT).map(|bytes| take(thread, bytes));
                    let mut next = std::mem::take(&mut lane.next);
                    next.clear();
                    for event in events {
                        next.push(event.ok_or_else(unknown)?);
                    }
                    (next, 0)
                }
            };
        }
        Ok(lane.next.get(lane.taken).copied())
    }

    /// Removes and returns the next event of a thread; `None` after the last.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn take(&mut self, thread: ThreadIx) -> io::Result<Option<Event>> {
        let event = self.peek(thread)?;
        self.lanes[thread.index()].taken += usize::from(event.is_some());
        Ok(event)
    }
}

fn unknown() -> io::Error {
    io::Error::other("the file of events by thread does not hold what was written to it")
}

fn put(event: &Event, out: &mut Vec<u8>) {
    out.extend_from_slice(&[event.op as u8, event.order as u8]);
    out.extend_from_slice(&event.flags.0.to_le_bytes());
    out.extend_from_slice(&event.site.0.to_le_bytes());
    out.extend_from_slice(&event.context.to_le_bytes());
    out.extend_from_slice(&event.size.to_le_bytes());
    out.extend_from_slice(&event.addr.to_le_bytes());
    out.extend_from_slice(&event.value.to_le_bytes());
}

fn take(thread: ThreadIx, bytes: &[u8]) -> Option<Event> {
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    Some(Event {
        thread,
        op: Op::from_number(*bytes.first()?)?,
        order: Order::from_number(*bytes.get(1)?)?,
        flags: Flags(bytes.get(2..4)?.try_into().ok().map(u16::from_le_bytes)?),
        site: SiteIx(word(4)?),
        context: word(8)?,
        size: long(12)?,
        addr: long(20)?,
        value: long(28)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn lanes_return_events_in_thread_order() {
        let events: Vec<Event> = (0..200_000u64)
            .map(|n| Event {
                thread: ThreadIx((n * n % 7 % 3) as u16),
                op: Op::ALL[n as usize % Op::ALL.len()],
                flags: Flags(n as u16),
                order: Order::SeqCst,
                site: SiteIx(n as u32),
                context: !n as u32,
                size: !n,
                addr: n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                value: !n,
            })
            .collect();
        for at_once in [MIN_SPILL, 1000, MAX_SPILL, 1 << 20] {
            let mut lanes = Lanes::new(Cursor::new(Vec::new()), 3).expect("memory");
            lanes.at_once = at_once;
            events.iter().for_each(|&event| lanes.put(event).expect("memory is writable"));
            for thread in (0..3).rev().map(ThreadIx) {
                for &event in events.iter().filter(|event| event.thread == thread) {
                    assert_eq!(lanes.peek(thread).expect("memory is readable"), Some(event));
                    assert_eq!(lanes.take(thread).expect("memory is readable"), Some(event));
                }
                assert_eq!(lanes.take(thread).expect("memory is readable"), None);
            }
        }
        assert!(Lanes::new(Cursor::new(Vec::new()), 0).expect("memory").put(events[0]).is_err());
    }
}
