//! `unsnarl cc`, `unsnarl c++` and `unsnarl cargo`: run the user's own compiler with flags that make the code report
//! memory accesses to unsnarl's runtime.
//!
//! All of them use the compilers' stock thread-sanitizer instrumentation, and link `libunsnarl_rt.so` in place of the
//! sanitizer's own runtime. The built programs also run outside unsnarl; the runtime then does nothing.

mod allocations;
pub(crate) mod built;
mod builtins;
pub(crate) mod cargo;
mod cc;

pub(crate) use cc::{Language, cc};

use anyhow::{Context, Result};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// The runtime's name on a linker's command line.
const RUNTIME: &str = "unsnarl_rt";

/// The functions that allocate and free memory: without them a reused block would look like the one before.
const ALLOCATIONS: [&str; 13] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "_Znwm",
    "_Znam",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
];

/// Runs the command to its end and returns its exit status, in the shell's encoding.
fn run(command: &mut Command) -> Result<i32> {
    let program = command.get_program().to_owned();
    let status = command
        .status()
        .with_context(|| format!("cannot run {}: install it, or name another", program.to_string_lossy()))?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}
