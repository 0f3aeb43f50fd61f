//! The program to run, and everything that its run depends on.

use crate::{
    options::{Follow, Target},
    verdict::UsageError,
};
use anyhow::{Context, Result};
use std::{
    env, fs,
    io::{IsTerminal, Read},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::FileTypeExt,
    },
    path::{Path, PathBuf},
    sync::mpsc::RecvTimeoutError,
    time::Duration,
};
use unsnarl_exec::Launcher;
use unsnarl_model::Program;

/// Finds and checks the program, and records its arguments, environment, directory and input.
pub(crate) fn program(target: &Target) -> Result<Program> {
    let path = unsnarl_exec::find(&target.program[0])?;
    unsnarl_exec::check(&path)?;
    with_environment(target, path)
}

fn with_environment(target: &Target, path: PathBuf) -> Result<Program> {
    let text = |label: &'static str, path: std::path::PathBuf| {
        path.into_os_string()
            .into_string()
            .map_err(|p| anyhow::anyhow!(UsageError(format!("{label} {} is not UTF-8", p.display()))))
    };
    Ok(Program {
        path: text("the program's path", path)?,
        args: target.program.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
        env: environment(),
        cwd: text("the directory", env::current_dir().context("cannot determine the current directory")?)?,
        stdin: standard_input(target)?,
    })
}

/// Returns the program, or, with `--follow`, the one that it starts, together with the waiting launcher.
pub(crate) fn program_to_control(target: &Target, follow: &Follow) -> Result<(Program, Option<Launcher>)> {
    let Some(name) = &follow.follow else { return Ok((program(target)?, None)) };
    let path = unsnarl_exec::find(&target.program[0])?;
    let (found, launcher) = unsnarl_exec::follow(&with_environment(target, path)?, name.as_deref())?;
    unsnarl_exec::check(Path::new(&found.path))?;
    let words: Vec<_> = found.args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
    eprintln!("unsnarl: follows {}", words.join(" "));
    Ok((found, Some(launcher)))
}

/// Returns our environment in a fixed order.
pub(crate) fn environment() -> Vec<Vec<u8>> {
    let mut entries: Vec<Vec<u8>> = env::vars_os()
        .map(|(name, value)| {
            let mut entry = name.into_vec();
            entry.push(b'=');
            entry.extend(value.into_vec());
            entry
        })
        .collect();
    entries.sort();
    entries
}

/// Reads all of the program's standard input in advance, so that every run gets the same.
fn standard_input(target: &Target) -> Result<Vec<u8>> {
    if let Some(path) = &target.stdin {
        return fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    }
    let stdin = std::io::stdin();
    let from_device = fs::metadata("/proc/self/fd/0").is_ok_and(|m| m.file_type().is_char_device());
    if stdin.is_terminal() || from_device {
        return Ok(Vec::new());
    }
    // The hint is printed if reading takes longer than two seconds.
    let (done, reading) = std::sync::mpsc::channel::<()>();
    // Without a thread there is no hint.
    let _ = std::thread::Builder::new().spawn(move || {
        if reading.recv_timeout(Duration::from_secs(2)) == Err(RecvTimeoutError::Timeout) {
            eprintln!(
                "unsnarl: reading all of standard input first (give < /dev/null if the program needs none)"
            );
        }
    });
    let mut bytes = Vec::new();
    let read = stdin.lock().read_to_end(&mut bytes);
    drop(done);
    // A closed standard input counts as empty.
    read.or_else(|error| if error.raw_os_error() == Some(9) { Ok(0) } else { Err(error) })
        .context("cannot read standard input")?;
    Ok(bytes)
}
