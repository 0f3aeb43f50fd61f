//! The sections of the file: framed, checksummed, compressed.

use crate::DecodeError;
use std::{
    fmt,
    io::{self, Read, Write},
};

/// A part of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The first bytes: magic and format.
    Start,
    /// The program that was run, and its modules.
    Program,
    /// The plan of the run.
    Plan,
    /// Threads, sites, and the number of events.
    Threads,
    /// The outcome and warnings.
    Outcome,
    /// The program's output.
    Output,
    /// Inputs from outside the program; not in format 5.
    Inputs,
    /// The callers of sites in libraries; not before format 7.
    Callers,
    /// Warnings about the whole program; not before format 8.
    ProgramWarnings,
    /// The way the run was recorded; not before format 10.
    Recording,
    /// The rule for time-outs; not before format 11.
    Timeouts,
    /// The rule for schedule points after thread creations; not before format 11.
    Continuations,
    /// The calling contexts of events; not before format 12.
    Contexts,
    /// A chunk of events.
    Events,
    /// Marks that nothing is missing.
    End,
    /// Meaningless bytes, so that the file is not too small for its unpacked size.
    Padding,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "first bytes",
            Self::Program => "program section",
            Self::Plan => "plan section",
            Self::Threads => "threads section",
            Self::Outcome => "outcome section",
            Self::Output => "output section",
            Self::Inputs => "inputs section",
            Self::Callers => "callers section",
            Self::ProgramWarnings => "program warnings section",
            Self::Recording => "recording section",
            Self::Timeouts => "time-outs section",
            Self::Continuations => "continuations section",
            Self::Contexts => "contexts section",
            Self::Events => "events section",
            Self::End => "last section",
            Self::Padding => "padding",
        })
    }
}

impl Section {
    const fn tag(self) -> [u8; 4] {
        *match self {
            Self::Start => b"strt",
            Self::Program => b"prog",
            Self::Plan => b"plan",
            Self::Threads => b"thrd",
            Self::Outcome => b"outc",
            Self::Output => b"outp",
            Self::Inputs => b"inpt",
            Self::Callers => b"call",
            Self::ProgramWarnings => b"pwrn",
            Self::Recording => b"recd",
            Self::Timeouts => b"tout",
            Self::Continuations => b"cont",
            Self::Contexts => b"ctxt",
            Self::Events => b"evnt",
            Self::End => b"end.",
            Self::Padding => b"pad.",
        }
    }
}

/// The limit on the unpacked size of a file.
///
/// Loops compress by factors of thousands, so a small file could demand any amount of memory. The format
/// forbids it: all sections so far unpack to at most `FREE + RATIO ×` their packed bytes. A writer that
/// compresses better than that adds padding: none up to half a million events, then enough for about half a
/// byte per event of the most repetitive loop.
///
/// In memory, an unpacked byte becomes six at most (see the test in `meta`), while one section's bytes are
/// buffered. So a file of n bytes never makes a reader allocate more than 32 MiB + 128 n, which
/// `tests/memory.rs` verifies. That does not include zstd's own state, which has constant size: a section is
/// unpacked at once into its buffer, without a window.
#[derive(Debug, Default)]
struct UnpackBudget {
    unpacked: u64,
    packed: u64,
}

impl UnpackBudget {
    const FREE: u64 = 4 << 20;
    const RATIO: u64 = 16;

    /// Returns the padding needed before a section of these sizes.
    const fn missing(&self, unpacked: u64, packed: u64) -> u64 {
        let all = self.unpacked.saturating_add(unpacked);
        all.saturating_sub(Self::FREE)
            .div_ceil(Self::RATIO)
            .saturating_sub(self.packed.saturating_add(packed))
    }

    const fn spend(&mut self, unpacked: u64, packed: u64) {
        self.unpacked = self.unpacked.saturating_add(unpacked);
        self.packed = self.packed.saturating_add(packed);
    }
}

/// Returns the maximum number of events in a file of this size, if each takes `least` unpacked bytes.
pub(crate) const fn most_in(file: u64, least: u64) -> u64 {
    UnpackBudget::FREE.saturating_add(file.saturating_mul(UnpackBudget::RATIO)) / least
}

const HEADER: usize = 28;

/// The header before the packed bytes.
struct SectionHeader {
    tag: [u8; 4],
    unpacked: u64,
    packed: u64,
    checksum: u32,
}

impl SectionHeader {
    fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&self.tag);
        bytes[4..12].copy_from_slice(&self.unpacked.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.packed.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.checksum.to_le_bytes());
        let own = crc32fast::hash(&bytes[..24]);
        bytes[24..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// Returns `None` if the header's own checksum is wrong.
    fn parse(bytes: [u8; HEADER]) -> Option<Self> {
        let mut cursor = crate::bytes::ByteCursor::new(&bytes);
        let header = Self {
            tag: cursor.array().ok()?,
            unpacked: u64::from_le_bytes(cursor.array().ok()?),
            packed: u64::from_le_bytes(cursor.array().ok()?),
            checksum: u32::from_le_bytes(cursor.array().ok()?),
        };
        (header.bytes() == bytes).then_some(header)
    }
}

/// Writes sections in sequence.
pub(crate) struct SectionWriter<W> {
    out: W,
    budget: UnpackBudget,
    packer: zstd::bulk::Compressor<'static>,
}

impl<W: Write> SectionWriter<W> {
    /// A fast level; on columns of events the slower levels save hardly anything.
    const LEVEL: i32 = 3;

    pub(crate) fn new(out: W) -> io::Result<Self> {
        Ok(Self { out, budget: UnpackBudget::default(), packer: zstd::bulk::Compressor::new(Self::LEVEL)? })
    }

    pub(crate) fn write(&mut self, section: Section, bytes: &[u8]) -> io::Result<()> {
        let packed = self.packer.compress(bytes)?;
        let missing = self.budget.missing(bytes.len() as u64, packed.len() as u64);
        if missing > 0 {
            self.frame(Section::Padding, 0, &vec![0; missing as usize])?;
        }
        self.frame(section, bytes.len() as u64, &packed)
    }

    fn frame(&mut self, section: Section, unpacked: u64, packed: &[u8]) -> io::Result<()> {
        let header = SectionHeader {
            tag: section.tag(),
            unpacked,
            packed: packed.len() as u64,
            checksum: crc32fast::hash(packed),
        };
        self.budget.spend(unpacked, header.packed);
        self.out.write_all(&header.bytes())?;
        self.out.write_all(packed)
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Reads sections in sequence.
pub(crate) struct SectionReader<R> {
    input: R,
    budget: UnpackBudget,
    unpacker: zstd::bulk::Decompressor<'static>,
    packed: Vec<u8>,
    unpacked: Vec<u8>,
}

impl<R> fmt::Debug for SectionReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SectionReader").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl<R: Read> SectionReader<R> {
    pub(crate) fn new(input: R) -> Result<Self, DecodeError> {
        let unpacker = zstd::bulk::Decompressor::new().map_err(DecodeError::Io)?;
        Ok(Self {
            input,
            budget: UnpackBudget::default(),
            unpacker,
            packed: Vec::new(),
            unpacked: Vec::new(),
        })
    }

    /// Returns the bytes of the next section, which must be `section`.
    pub(crate) fn read(&mut self, section: Section) -> Result<&[u8], DecodeError> {
        let corrupt = |reason| DecodeError::Corrupt { section, reason };
        loop {
            let mut bytes = [0; HEADER];
            self.fill(section, &mut bytes)?;
            let header =
                SectionHeader::parse(bytes).ok_or(corrupt("the checksum of its header does not match"))?;
            let padding = header.tag == Section::Padding.tag();
            if header.tag != section.tag() && !padding {
                return Err(corrupt("another section is in its place"));
            }
            if padding && header.unpacked != 0 || self.budget.missing(header.unpacked, header.packed) > 0 {
                return Err(corrupt("it claims to unpack to more than it can"));
            }
            // The buffer grows with the bytes actually read, whatever the header says.
            self.packed.clear();
            (&mut self.input).take(header.packed).read_to_end(&mut self.packed).map_err(DecodeError::Io)?;
            if (self.packed.len() as u64) < header.packed {
                return Err(DecodeError::Truncated { section });
            }
            if crc32fast::hash(&self.packed) != header.checksum {
                return Err(corrupt("its checksum does not match"));
            }
            self.budget.spend(header.unpacked, header.packed);
            if padding {
                continue;
            }
            let length = usize::try_from(header.unpacked).map_err(|_| corrupt("it is too large"))?;
            self.unpacked.clear();
            self.unpacked.reserve_exact(length);
            match self.unpacker.decompress_to_buffer(&self.packed, &mut self.unpacked) {
                Ok(unpacked) if unpacked == length => return Ok(&self.unpacked),
                _ => return Err(corrupt("it does not unpack to the recorded size")),
            }
        }
    }

    /// Checks that nothing follows the last section.
    pub(crate) fn finish(&mut self) -> Result<(), DecodeError> {
        let mut more = [0];
        loop {
            match self.input.read(&mut more) {
                Ok(0) => return Ok(()),
                Ok(_) => {
                    return Err(DecodeError::Corrupt {
                        section: Section::End,
                        reason: "more bytes follow it",
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(DecodeError::Io(error)),
            }
        }
    }

    fn fill(&mut self, section: Section, bytes: &mut [u8]) -> Result<(), DecodeError> {
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => DecodeError::Truncated { section },
            _ => DecodeError::Io(error),
        })
    }
}
