//! What can go wrong with a trace file, and what to do about it.

use crate::{Inconsistent, Section};
use std::{io, path::PathBuf};

/// Why bytes are not a trace. The messages go on from the name of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Something else altogether.
    #[error("is not an unsnarl trace; `unsnarl record` and `unsnarl explore` make traces")]
    NotATrace,
    /// Whatever it is, packed by gzip.
    #[error("is compressed; unpack it first: gunzip")]
    Compressed,
    /// A format that this version does not know.
    #[error("was written by a newer unsnarl (format {found}, this one reads up to {newest}); update unsnarl")]
    Newer {
        /// The file's format.
        found: u32,
        /// The newest format that can be read.
        newest: u32,
    },
    /// A format that is no longer read.
    #[error(
        "was written by an older unsnarl (format {found}, this one reads from {oldest}); record it again"
    )]
    Older {
        /// The file's format.
        found: u32,
        /// The oldest format that can be read.
        oldest: u32,
    },
    /// Its end is missing.
    #[error("is cut short in its {section}; copy it again, or record it again")]
    Truncated {
        /// Where it ends.
        section: Section,
    },
    /// Not what was written.
    #[error("is damaged in its {section}: {reason}; copy it again, or record it again")]
    Corrupt {
        /// Where.
        section: Section,
        /// What does not fit.
        reason: &'static str,
    },
    /// The bytes could not be had.
    #[error("cannot be read: {0}")]
    Io(#[source] io::Error),
}

/// Why a trace file could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No such file, no permission …
    #[error("cannot open {}: {reason}; check the path", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// The system's words.
        reason: io::Error,
    },
    /// It is there, but it is not a trace that can be used.
    #[error("{} {reason}", path.display())]
    Decode {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: DecodeError,
    },
}

/// Why a trace could not be saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The path does not name a file.
    #[error("{} is not the name of a file; give one that ends in .snarl", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file would be refused when it is loaded.
    #[error("not saving {}: {reason}; this is a mistake in unsnarl, please report it", path.display())]
    Inconsistent {
        /// Which file.
        path: PathBuf,
        /// What does not fit.
        reason: Inconsistent,
    },
    /// The system refused.
    #[error("cannot write {}: {reason}; check its directory and the space left", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// The system's words.
        reason: io::Error,
    },
}
