//! What can keep a run from happening.

use std::{io, path::PathBuf};

/// Why there is no run. Messages say what to do where something can be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such program.
    #[error("no program {0}: give a path, or a name on PATH")]
    NoSuchProgram(PathBuf),
    /// It is there but cannot be run under control.
    #[error("{program} cannot be controlled: {reason}")]
    Unusable {
        /// Which program.
        program: PathBuf,
        /// The reason, with what to do.
        reason: String,
    },
    /// A trace does not belong to the files that are there now.
    #[error("{0}")]
    NotThisBuild(String),
    /// The runtime found out that it cannot control the program.
    #[error("the program cannot be controlled: {0}")]
    Refused(String),
    /// The program started but the runtime was not in it.
    #[error("the program ran without the runtime in it ({status}): {output}")]
    NotAttached {
        /// How the program ended.
        status: String,
        /// What it said.
        output: String,
    },
    /// The program ended while it was loaded.
    #[error("the program ended before it began: see what it says without unsnarl")]
    NotServing,
    /// The program's directory is gone.
    #[error("cannot start the program in {directory}: {cause}")]
    Directory {
        /// Which.
        directory: String,
        /// The system's answer.
        cause: io::Error,
    },
    /// The system refused something.
    #[error("{action}: {cause}{}", hint(cause))]
    System {
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        cause: io::Error,
    },
    /// The user wants no more.
    #[error("interrupted")]
    Interrupted,
    /// The runtime has a bug.
    #[error("internal error in the runtime: {0}")]
    Internal(String),
}

/// What the user can do about an answer of the system.
fn hint(cause: &io::Error) -> &'static str {
    match cause.raw_os_error() {
        Some(libc::ENOMEM) => "; is address space limited (`ulimit -v`)? raise it",
        Some(libc::EAGAIN) => "; is the number of processes limited (`ulimit -u`)? raise it, or use -j 1",
        Some(libc::EBADF | libc::EMFILE) => "; raise the limit on open files to 256 (`ulimit -n 256`)",
        Some(libc::EFBIG) => "; raise the limit on the size of files (`ulimit -f unlimited`)",
        Some(libc::EPERM | libc::ENOSYS) => {
            "; a container or sandbox forbids it: allow it (docker run --security-opt seccomp=unconfined)"
        }
        _ => "",
    }
}
