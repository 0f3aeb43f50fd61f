//! A launch configuration for VS Code.

use super::{GdbClient, Session};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{fs, io::Write, path::Path};
use unsnarl_model::Trace;

const FILE: &str = ".vscode/launch.json";

/// Writes the configuration, unless the file exists: then it is printed, to be added by hand.
pub(crate) fn launch_json(trace: &Path, recorded: &Trace) -> Result<()> {
    let session = Session::new(trace, recorded, GdbClient::FrontEnd)?;
    let text = format!("{:#}\n", configuration(trace, &session));
    fs::create_dir_all(".vscode").context("cannot make the directory .vscode")?;
    match fs::File::create_new(FILE) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).with_context(|| format!("cannot write {FILE}"))?;
            eprintln!("wrote {FILE}: choose `{}` in Run and Debug", name(trace));
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            crate::output::print(&text);
            eprintln!("{FILE} exists and was left unchanged: add the configuration above to it");
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {FILE}")),
    }
    Ok(())
}

fn name(trace: &Path) -> String {
    let file = trace.file_name().unwrap_or(trace.as_os_str());
    format!("unsnarl replay {}", file.to_string_lossy())
}

/// Returns the configuration for the C/C++ extension (ms-vscode.cpptools).
fn configuration(trace: &Path, session: &Session) -> Value {
    let setup = session.setup.iter().map(|command| json!({ "text": command, "ignoreFailures": false }));
    json!({
        "version": "0.2.0",
        "configurations": [{
            "name": name(trace),
            "type": "cppdbg",
            "request": "launch",
            "MIMode": "gdb",
            "program": session.program,
            "cwd": session.cwd,
            "stopAtEntry": false,
            "externalConsole": false,
            "setupCommands": setup.collect::<Vec<_>>(),
        }],
    })
}
