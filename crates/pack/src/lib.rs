//! A trace with all that its replay needs, in one file: the program, its libraries, the loader, its inputs, the sources.
//!
//! A pack is a tar archive, compressed by zstd, so that everybody can look into it. `MANIFEST.json` says where each
//! file came from. What is unpacked is checked against it; nothing that is not in it is written anywhere.

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

/// Why there is no pack, or why a pack cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something that belongs into the pack cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// The system's words.
        reason: io::Error,
    },
    /// The system refused to write.
    #[error("cannot write {}: {reason}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// The system's words.
        reason: io::Error,
    },
    /// A file that cannot be where the program looks for it.
    #[error("{} lies outside of {cwd}, where the program runs; a pack can only have files inside of it", path.display())]
    Outside {
        /// Which file.
        path: PathBuf,
        /// Where the program ran.
        cwd: String,
    },
    /// Another kind of file, or one that was cut short or changed.
    #[error("{0}; copy it again, or pack it again")]
    Damaged(String),
    /// A format that this version does not know.
    #[error("the pack was written by a newer unsnarl (format {0}, this one reads {current}); update unsnarl", current = manifest::FORMAT)]
    Newer(u64),
    /// The trace inside of the pack.
    #[error("the pack's trace {0}")]
    Trace(unsnarl_trace::DecodeError),
}
