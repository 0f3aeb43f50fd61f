//! Errors of trace files, each with what to do about it.

use crate::{Inconsistent, Section};
use std::{io, path::PathBuf};

/// The reason why bytes are not a trace. Each message continues a sentence that starts with the name of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Not a trace file.
    #[error("is not an unsnarl trace; `unsnarl record` and `unsnarl explore` make traces")]
    NotATrace,
    /// Compressed by gzip.
    #[error("is compressed; unpack it first: gunzip")]
    Compressed,
    /// A format newer than this version supports.
    #[error("was written by a newer unsnarl (format {found}, this one reads up to {newest}); update unsnarl")]
    Newer {
        /// The file's format.
        found: u32,
        /// The newest format that can be read.
        newest: u32,
    },
    /// A format that is no longer supported.
    #[error(
        "was written by an older unsnarl (format {found}, this one reads from {oldest}); record it again"
    )]
    Older {
        /// The file's format.
        found: u32,
        /// The oldest format that can be read.
        oldest: u32,
    },
    /// The end of the file is missing.
    #[error("is cut short in its {section}; copy it again, or record it again")]
    Truncated {
        /// The section in which it ends.
        section: Section,
    },
    /// Damaged contents.
    #[error("is damaged in its {section}: {reason}; copy it again, or record it again")]
    Corrupt {
        /// The damaged section.
        section: Section,
        /// The damage.
        reason: &'static str,
    },
    /// The bytes could not be read.
    #[error("cannot be read: {0}")]
    Io(#[source] io::Error),
}

/// The reason why a trace file could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No such file, no permission …
    #[error("cannot open {}: {reason}; check the path", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// The file exists but is not a usable trace.
    #[error("{} {reason}", path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: DecodeError,
    },
}

/// The reason why a trace could not be saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The path does not name a file.
    #[error("{} is not the name of a file; give one that ends in .snarl", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The trace is inconsistent, so the file would be refused when it is loaded.
    #[error("not saving {}: {reason}; this is a mistake in unsnarl, please report it", path.display())]
    Inconsistent {
        /// The file.
        path: PathBuf,
        /// The inconsistency.
        reason: Inconsistent,
    },
    /// The system reported an error.
    #[error("cannot write {}: {reason}; check its directory and the space left", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
}
