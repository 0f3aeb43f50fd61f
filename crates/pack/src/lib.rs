//! Packs: a trace with everything that its replay needs in one file: the program, its libraries, the loader,
//! its inputs, the sources.
//!
//! A pack is a tar archive, compressed by zstd, so that standard tools can inspect it. `MANIFEST.json`
//! records the origin of each file. Unpacked files are checked against it; nothing that is not in it is
//! written anywhere.

#![forbid(unsafe_code)]

mod archive;
mod gather;
mod loader;
mod manifest;
mod place;

pub use archive::{Pack, is_pack};
pub use gather::{PackOptions, gather};
pub use manifest::{PackEntry, Role};
pub use place::{UnpackedPack, unpack};

use std::{io, path::PathBuf};

/// The reason why there is no pack, or why a pack cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file for the pack cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// The system refused to write.
    #[error("cannot write {}: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// A file that cannot be placed where the program looks for it.
    #[error("{} lies outside of {cwd}, where the program runs; a pack can only have files inside of it", path.display())]
    Outside {
        /// The file.
        path: PathBuf,
        /// The program's working directory.
        cwd: String,
    },
    /// Another kind of file, or a truncated or changed one.
    #[error("{0}; copy it again, or pack it again")]
    Damaged(String),
    /// A format newer than this version supports.
    #[error("the pack was written by a newer unsnarl (format {0}, this one reads {current}); update unsnarl", current = manifest::FORMAT)]
    Newer(u64),
    /// The trace inside the pack cannot be read.
    #[error("the pack's trace {0}")]
    Trace(unsnarl_trace::DecodeError),
}
