//! The trace file, and the formats of other tools.
//!
//! A `.snarl` file holds one whole [`Trace`](unsnarl_model::Trace). A file may be incomplete, truncated,
//! damaged or forged: reading it yields a consistent trace or an error that says what to do, and memory use
//! stays in proportion to the file (see `section::UnpackBudget`).
//!
//! ```text
//! file    = "unsnarl\0"  format: u32  section*
//! section = tag: [u8; 4]  unpacked: u64  packed: u64  crc of packed: u32  crc of the above: u32
//!           packed bytes (zstd)
//! ```
//!
//! All numbers are little-endian. Sections come in a fixed order: program, plan, threads, outcome, output,
//! then events in chunks of [`CHUNK`], then the end; padding may precede any of them. Everything but the
//! events comes first, so that [`EventReader`] can show it before it reads on.

#![forbid(unsafe_code)]

mod bytes;
mod check;
mod chunk;
mod error;
mod file;
mod lanes;
mod meta;
mod read;
mod section;
pub mod std_format;
mod upgrade;
mod write;

pub use check::Inconsistent;
pub use chunk::CHUNK;
pub use error::{DecodeError, LoadError, SaveError};
pub use file::{check_writable, load, open, save, save_new, scratch, write_atomically};
pub use lanes::Lanes;
pub use read::{EventReader, decode};
pub use section::Section;
pub use write::{EventWriter, encode, write};

/// The first bytes of every trace file.
const MAGIC: [u8; 8] = *b"unsnarl\0";
/// The first bytes of files compressed by gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The format that this version writes, and the newest that it reads.
///
/// Bump it whenever the written bytes change, also by a change of the numbers of the model's enums.
pub const FORMAT: u32 = 12;

/// The first format with inputs from outside the program.
const INPUTS: u32 = 6;
/// The first format with the callers of sites in libraries.
const CALLERS: u32 = 7;
/// The first format with warnings about the whole program.
const PROGRAM_WARNINGS: u32 = 8;

/// The first format with calling contexts, sixteen flags, sizes beyond four gigabytes, and how a run was recorded.
const CONTEXTS: u32 = 10;

/// The first format with the rule for time-outs, and in which a run that was stopped is undecided, with the limit that
/// stopped it. It also says whether a schedule point follows a thread creation.
const LIMITS: u32 = 11;

/// The first format with the calls of which calling contexts consist.
const CONTEXT_CALLS: u32 = 12;

/// The oldest format that this version reads.
const OLDEST: u32 = 5;
