//! `unsnarl doctor`: what this machine and a program support.

use crate::verdict::Verdict;
use anyhow::Result;
use std::{ffi::OsString, fs, path::Path, process::Command};
use unsnarl_exec::{Executor, Settings};
use unsnarl_model::{Plan, Program};

/// What this machine and a program support
#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// A program to look at
    program: Option<OsString>,
}

/// A finding: what was looked at, whether it is well, and what to say of it.
struct Finding {
    what: &'static str,
    well: bool,
    told: String,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<Verdict> {
        let mut findings = vec![kernel(), processor(), runtime(), controlled_run(), compiler()];
        findings.extend(self.program.as_ref().map(look_at).into_iter().flatten());
        let mut usable = true;
        for Finding { what, well, told } in findings {
            println!("{} {what:<11} {told}", if well { "ok      " } else { "PROBLEM " });
            usable &= well || what == "compiler";
        }
        Ok(if usable { Verdict::Fine } else { Verdict::Unusable })
    }
}

fn kernel() -> Finding {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let well = version >= (5, 9);
    let told =
        if well { format!("Linux {release}") } else { format!("Linux {release}: 5.9 or later is needed") };
    Finding { what: "kernel", well, told }
}

fn processor() -> Finding {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let well = flags.split_whitespace().any(|flag| flag == "fsgsbase");
    let told = if well {
        "switches fibers by fsgsbase".into()
    } else {
        "it lacks fsgsbase (Ivy Bridge or later, and not hidden by a virtual machine)".into()
    };
    Finding { what: "processor", well, told }
}

fn runtime() -> Finding {
    match unsnarl_exec::runtime_directory() {
        Ok(directory) => Finding { what: "runtime", well: true, told: directory.display().to_string() },
        Err(error) => Finding { what: "runtime", well: false, told: format!("{error} (set XDG_CACHE_HOME)") },
    }
}

/// The proof of the pudding: a program of the system, run under control.
fn controlled_run() -> Finding {
    let run = || -> Result<u64> {
        let path = unsnarl_exec::find("true".as_ref())?;
        let program = Program {
            path: path.to_string_lossy().into_owned(),
            args: vec![b"true".to_vec()],
            cwd: "/".into(),
            ..Program::default()
        };
        Ok(Executor::new(program, Settings::default())?.run(&Plan::default())?.events())
    };
    match run() {
        Ok(events) => Finding {
            what: "control",
            well: true,
            told: format!("`true` ran under control ({events} events)"),
        },
        Err(error) => Finding { what: "control", well: false, told: format!("{error:#}") },
    }
}

fn compiler() -> Finding {
    let version = |compiler: &str| {
        let output = Command::new(compiler).arg("--version").output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
    };
    match version("gcc") {
        Some(told) => Finding { what: "compiler", well: true, told },
        None => {
            let told = "no gcc: `unsnarl cc` needs one (apt-get install gcc g++), or set UNSNARL_CC".into();
            Finding { what: "compiler", well: false, told }
        }
    }
}

fn look_at(name: &OsString) -> Vec<Finding> {
    let checked =
        unsnarl_exec::find(name).and_then(|path| unsnarl_exec::check(&path).map(|binary| (path, binary)));
    let (path, binary) = match checked {
        Ok(found) => found,
        Err(error) => return vec![Finding { what: "program", well: false, told: error.to_string() }],
    };
    let accesses = if binary.instrumented {
        "instrumented: plain accesses can be schedule points"
    } else {
        "not instrumented: only synchronisation is seen (build with `unsnarl cc` for accesses and atomics)"
    };
    let lines = if binary.debug_info {
        "has line numbers"
    } else {
        "no debug information: functions and offsets only (build with -g)"
    };
    vec![
        Finding {
            what: "program",
            well: true,
            told: format!("{} can be controlled", Path::new(&path).display()),
        },
        Finding { what: "accesses", well: true, told: accesses.into() },
        Finding { what: "lines", well: true, told: lines.into() },
    ]
}
