//! Replays a trace in gdb, with additional commands.
//!
//! gdb starts `unsnarl debuggee`, which becomes the program with a prepared plan. So gdb, or a front end that drives
//! it, can restart the program at will. The gdb script gets its information about the trace from `unsnarl
//! debugger-info`. The script is embedded in this binary.

mod debuggee;
mod vscode;

pub(crate) use debuggee::{Debuggee, DebuggerInfo};
pub(crate) use vscode::launch_json;

use crate::{
    replay, traces,
    verdict::{UsageError, Verdict},
};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::{
    env,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};
use unsnarl_model::Trace;

const SCRIPT: &str = include_str!("unsnarl.py");

/// The gdb setup for the replay of a trace.
pub(crate) struct Session {
    /// The program to debug.
    pub(crate) program: String,
    /// Its working directory.
    pub(crate) cwd: String,
    /// Initial gdb commands: they load our commands and the trace.
    pub(crate) setup: Vec<String>,
}

/// The user of gdb.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GdbClient {
    Person,
    FrontEnd,
}

impl Session {
    /// Prepares debugging the replay of a trace.
    pub(crate) fn new(trace: &Path, recorded: &Trace, client: GdbClient) -> Result<Self> {
        replay::check(recorded)?;
        let script = unsnarl_exec::install_file("gdb.py", SCRIPT.as_bytes())?;
        let unsnarl = env::current_exe().context("cannot find the path of unsnarl itself")?;
        let trace = traces::find(trace);
        let trace = trace.canonicalize().with_context(|| format!("cannot find {}", trace.display()))?;
        let front_end = if client == GdbClient::FrontEnd { ", front_end=True" } else { "" };
        let setup = vec![
            format!("source {}", text(script)?),
            // A JSON string is a valid Python string.
            format!("python unsnarl_load({}, {}{front_end})", json!(text(unsnarl)?), json!(text(trace)?)),
        ];
        Ok(Self { program: recorded.program.path.clone(), cwd: recorded.program.cwd.clone(), setup })
    }
}

fn text(path: PathBuf) -> Result<String> {
    path.into_os_string()
        .into_string()
        .map_err(|path| anyhow::anyhow!(UsageError(format!("{} is not UTF-8", path.display()))))
}

/// Replaces this process with gdb. `arguments` are passed to it; its commands come after ours.
pub(crate) fn debug(trace: &Path, recorded: &Trace, arguments: &[OsString]) -> Result<Verdict> {
    let session = Session::new(trace, recorded, GdbClient::Person)?;
    let gdb = env::var_os("UNSNARL_GDB").unwrap_or_else(|| "gdb".into());
    check_gdb(&gdb)?;
    if unsnarl_exec::layout() == unsnarl_exec::Layout::Own {
        eprintln!(
            "note: address randomisation cannot be switched off here, so addresses differ from one gdb session to the next"
        );
    }
    let mut command = Command::new(&gdb);
    command.arg("-q");
    for line in &session.setup {
        command.arg("-ex").arg(line);
    }
    command.arg("-ex").arg("unsnarl start");
    let error = command.args(arguments).arg(&session.program).exec();
    Err(error).with_context(|| format!("cannot start {}", gdb.display()))
}

/// Checks that gdb exists and supports our commands.
fn check_gdb(gdb: &OsString) -> Result<()> {
    let configuration = match Command::new(gdb).args(["-nx", "--configuration"]).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(io::Error::new(
            io::ErrorKind::NotFound,
            format!(
                "there is no {}: install it (apt-get install gdb), or name another by UNSNARL_GDB",
                gdb.display()
            ),
        )),
        Err(error) => return Err(error).with_context(|| format!("cannot start {}", gdb.display())),
    };
    if configuration.contains("--without-python") {
        bail!(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "{} is built without Python, which the commands of unsnarl need (apt-get install gdb)",
                gdb.display()
            ),
        ));
    }
    Ok(())
}
