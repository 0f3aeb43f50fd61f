//! `unsnarl cc`, `unsnarl c++` and `unsnarl cargo`: the user's own compiler, told to report memory
//! accesses to unsnarl's runtime.
//!
//! All of them use the compilers' stock thread-sanitizer instrumentation and link
//! `libunsnarl_rt.so` where the sanitizer's own runtime would go. What they build also runs outside
//! unsnarl: the runtime then does nothing.

mod cargo;
mod cc;

pub(crate) use cargo::cargo;
pub(crate) use cc::{Language, cc};

use anyhow::{Context, Result};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// The runtime's name on a linker's command line.
const RUNTIME: &str = "unsnarl_rt";

/// Runs the command to its end and returns the status to exit with, as a shell would give it.
fn run(command: &mut Command) -> Result<i32> {
    let program = command.get_program().to_owned();
    let status = command
        .status()
        .with_context(|| format!("cannot run {}: install it, or name another", program.to_string_lossy()))?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}
