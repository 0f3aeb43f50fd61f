//! Errors that prevent a run.

use std::{io, path::PathBuf};

/// The reason why a run could not be made. Messages say what the user can do, if anything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such program.
    #[error("no program {0}: give a path, or a name on PATH")]
    NoSuchProgram(PathBuf),
    /// The program exists but cannot be run under control.
    #[error("{program} cannot be controlled: {reason}")]
    Unusable {
        /// The program.
        program: PathBuf,
        /// The reason, and what the user can do.
        reason: String,
    },
    /// The trace was recorded with other versions of the program's files.
    #[error("{0}")]
    NotThisBuild(String),
    /// The runtime cannot control the program.
    #[error("the program cannot be controlled: {0}")]
    Refused(String),
    /// The program started, but the runtime was not loaded into it.
    #[error("the program ran without the runtime in it ({status}): {output}")]
    NotAttached {
        /// The exit status or the signal that ended the program.
        status: String,
        /// The program's standard error.
        output: String,
    },
    /// The program ended while it was being loaded.
    #[error("the program ended before main: run it without unsnarl to see why")]
    NotServing,
    /// The program's working directory no longer exists.
    #[error("cannot start the program in {directory}: {cause}")]
    Directory {
        /// The directory.
        directory: String,
        /// The system's error.
        cause: io::Error,
    },
    /// A system call failed.
    #[error("{action}: {cause}{}", hint(cause))]
    System {
        /// The action that failed.
        action: &'static str,
        /// The system's error.
        cause: io::Error,
    },
    /// The limit on open files is too low, and cannot be raised.
    #[error("at most {0} files may be open here (`ulimit -n`), and unsnarl needs 256: raise the limit")]
    Descriptors(u64),
    /// The limit on data is too low.
    #[error(
        "at most {0} KiB of data are allowed here (`ulimit -d`), and unsnarl needs 65536: raise the limit (`ulimit -d unlimited`)"
    )]
    Data(u64),
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
    /// The runtime has a bug.
    #[error("internal error in the runtime: {0}")]
    Internal(String),
}

/// Returns what the user can do about a system error.
fn hint(cause: &io::Error) -> &'static str {
    match cause.raw_os_error() {
        Some(libc::ENOMEM) => "; is address space or data limited (`ulimit -v`, `ulimit -d`)? raise it",
        Some(libc::EAGAIN) => "; is the number of processes limited (`ulimit -u`)? raise it, or use -j 1",
        Some(libc::EBADF | libc::EMFILE) => "; raise the limit on open files to 256 (`ulimit -n 256`)",
        Some(libc::EFBIG) => "; raise the limit on the size of files (`ulimit -f unlimited`)",
        Some(libc::EPERM | libc::ENOSYS) => {
            "; a container or sandbox forbids it: allow it (docker run --security-opt seccomp=unconfined)"
        }
        _ => "",
    }
}
