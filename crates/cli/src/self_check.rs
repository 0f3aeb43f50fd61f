//! `unsnarl self-check`: searches a known program, to see that unsnarl works on this machine. It needs no compiler.

use crate::{output, verdict::Verdict};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Number of replays.
const REPLAYS: u32 = 10;

/// Search a small built-in program, replay its failure and simplify it, to see that unsnarl works here
#[derive(clap::Args)]
pub(crate) struct SelfCheck {}

impl SelfCheck {
    pub(crate) fn run(self) -> Result<Verdict> {
        let directory = TemporaryDirectory::create()?;
        let steps = Steps { unsnarl: std::env::current_exe()?, directory: directory.path() };
        match steps.run() {
            Ok(()) => {
                output::print("unsnarl works on this machine\n");
                Ok(Verdict::Fine)
            }
            Err(error) => {
                eprintln!("error: {error:#}\nunsnarl does not work here; `unsnarl doctor` says what is missing");
                Ok(Verdict::Unusable)
            }
        }
    }
}

/// The steps of the check. Each is a command as a user would run it, in a process of its own.
struct Steps<'a> {
    unsnarl: PathBuf,
    directory: &'a Path,
}

impl Steps<'_> {
    fn run(&self) -> Result<()> {
        let unsnarl = self.unsnarl.as_os_str();
        let program: [&OsStr; 3] = ["--".as_ref(), unsnarl, "self-check-program".as_ref()];
        let found = self.json(&["explore", "--time", "30s", "--seed", "1", "-o", "found.snarl"], &program, 100)?;
        output::print(&format!("found a failing schedule in run {}\n", found["runs"]));

        for _ in 0..REPLAYS {
            let replay = self.json(&["replay", "found.snarl"], &[], 100)?;
            ensure!(replay["identical"] == true, "a replay differs from the recording: {replay}");
        }
        output::print(&format!("replayed it {REPLAYS} times, identically\n"));

        let simplified = self.json(&["simplify", "found.snarl", "-o", "simplified.snarl"], &[], 0)?;
        let switches = |when: &str| simplified[when]["context_switches"].clone();
        output::print(&format!("simplified it: {} context switches, now {}\n", switches("before"), switches("after")));
        Ok(())
    }

    /// Runs a command and returns its JSON.
    fn json(&self, command: &[&str], program: &[&OsStr], expected: i32) -> Result<Value> {
        let (name, options) = command.split_first().context("no command")?;
        let output = Command::new(&self.unsnarl)
            .arg(name)
            .arg("--json")
            .args(options)
            .args(program)
            .current_dir(self.directory)
            .output()
            .with_context(|| format!("cannot run {}", self.unsnarl.display()))?;
        let messages = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(expected),
            "`unsnarl {}` ended with {}, not with status {expected}\n{}{}",
            command.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            messages.trim_end()
        );
        serde_json::from_slice(&output.stdout).with_context(|| format!("`unsnarl {name}` printed no JSON"))
    }
}

/// The program of the check, which fails in some schedules: the main thread sleeps instead of joining its thread.
#[derive(clap::Args)]
pub(crate) struct SelfCheckProgram {}

impl SelfCheckProgram {
    pub(crate) fn run(self) -> Result<Verdict> {
        static IS_READY: AtomicBool = AtomicBool::new(false);
        let worker = std::thread::spawn(|| IS_READY.store(true, Ordering::SeqCst));
        std::thread::sleep(Duration::from_millis(1));
        assert!(IS_READY.load(Ordering::SeqCst), "the thread has not run yet");
        let _ = worker.join();
        Ok(Verdict::Fine)
    }
}

/// A new directory for temporary files, deleted on drop.
struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    fn create() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("unsnarl-self-check-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
