//! `cargo xtask bench determinism`: thousands of replays of a program that hashes uninitialised memory after each of
//! many operations. A replay must find the same as its recording; otherwise the table names the operation and the
//! memory.

use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Default number of replays over all modes.
const RUNS: usize = 10_000;
/// Recordings of each mode.
const SEEDS: usize = 10;

/// The build of the program.
#[derive(Clone, Copy)]
enum Build {
    Plain,
    Instrumented,
    Cpp,
}

/// The way in which traces are made and replayed.
struct Mode {
    name: &'static str,
    build: Build,
    threads: &'static str,
    /// glibc tunables: the instructions that it must not use.
    tunables: Option<&'static str>,
    is_busy: bool,
    /// Kinds of memory that may differ, according to docs/limits.md.
    without: &'static [&'static str],
    how: RecordingSource,
}

/// The source of the recording.
#[derive(Clone, Copy, PartialEq)]
enum RecordingSource {
    Record,
    /// A search, whose runs are forked or rewound processes.
    Explore,
}

const NORMAL: Mode = Mode {
    name: "plain",
    build: Build::Plain,
    threads: "fibers",
    tunables: None,
    is_busy: false,
    without: &["XSAVE header"],
    how: RecordingSource::Record,
};

const MODES: [Mode; 11] = [
    NORMAL,
    Mode { name: "plain, busy machine", is_busy: true, ..NORMAL },
    Mode { name: "instrumented", build: Build::Instrumented, ..NORMAL },
    Mode { name: "instrumented, busy machine", build: Build::Instrumented, is_busy: true, ..NORMAL },
    Mode { name: "C++", build: Build::Cpp, ..NORMAL },
    Mode {
        name: "without AVX-512",
        tunables: Some("glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ"),
        ..NORMAL
    },
    Mode {
        name: "without AVX2 and AVX-512",
        tunables: Some("glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2_Usable,-AVX2,-AVX"),
        ..NORMAL
    },
    Mode { name: "without ERMS", tunables: Some("glibc.cpu.hwcaps=-ERMS,-FSRM"), ..NORMAL },
    Mode { name: "kernel threads", threads: "kernel", without: &["tid", "XSAVE header"], ..NORMAL },
    Mode {
        name: "kernel threads, busy machine",
        threads: "kernel",
        is_busy: true,
        without: &["tid", "XSAVE header"],
        ..NORMAL
    },
    Mode {
        name: "found by explore",
        how: RecordingSource::Explore,
        without: &["stack", "heap", "XSAVE header"],
        ..NORMAL
    },
];

pub(crate) fn bench(runs: Option<usize>) -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    eprintln!("building unsnarl");
    let unsnarl = workspace.build_unsnarl()?;
    let directory = workspace.scratch("bench-determinism")?;
    let source = workspace.root.join("programs/determinism/probes.c");
    let bench = Bench { unsnarl, directory };
    for build in [Build::Plain, Build::Instrumented, Build::Cpp] {
        bench.compile(build, &source)?;
    }
    let replays = runs.unwrap_or(RUNS).div_ceil(MODES.len());
    println!("{:<30} {:>8} {:>10} {:>8}", "mode", "replays", "identical", "probes");
    let mut differing = 0;
    for mode in &MODES {
        let busy = mode.is_busy.then(Busy::begin);
        let result = bench.run(mode, replays).with_context(|| mode.name)?;
        drop(busy);
        println!("{:<30} {:>8} {:>10} {:>8}", mode.name, result.replays, result.identical, result.probes);
        for (probe, times) in &result.different {
            println!("    {probe}: differs in {times}");
        }
        differing += usize::from(result.identical < result.replays || !result.different.is_empty());
    }
    if differing > 0 {
        bail!("replays differ from their recordings in {differing} of {} modes", MODES.len());
    }
    println!("every replay found what its recording found");
    Ok(())
}

/// Result of a mode.
#[derive(Default)]
struct Outcome {
    replays: usize,
    identical: usize,
    probes: usize,
    different: BTreeMap<String, usize>,
}

struct Bench {
    unsnarl: PathBuf,
    directory: PathBuf,
}

impl Bench {
    fn compile(&self, build: Build, source: &Path) -> Result<()> {
        let mut command = match build {
            Build::Plain => Command::new("gcc"),
            Build::Instrumented => {
                let mut command = Command::new(&self.unsnarl);
                command.arg("cc");
                command
            }
            Build::Cpp => {
                let mut command = Command::new(&self.unsnarl);
                command.args(["c++", "-x", "c++"]);
                command
            }
        };
        command.args(["-O1", "-g", "-pthread", "-w", "-o", build.program()]).arg(source);
        output(command.current_dir(&self.directory), "the compiler")?;
        Ok(())
    }

    fn run(&self, mode: &Mode, replays: usize) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        for seed in 1..=SEEDS {
            let recorded = self.record(mode, seed)?;
            outcome.probes = recorded.len();
            for _ in 0..replays.div_ceil(SEEDS) {
                let report = self.replay(mode)?;
                ensure!(report["reproduced"] == true, "not reproduced: {report}");
                outcome.replays += 1;
                outcome.identical += usize::from(report["identical"] == true);
                for probe in differences(&recorded, &self.probes()?) {
                    *outcome.different.entry(probe).or_default() += 1;
                }
            }
        }
        Ok(outcome)
    }

    /// Makes a trace and returns the results of the probes.
    fn record(&self, mode: &Mode, seed: usize) -> Result<BTreeMap<String, String>> {
        let mut command = Command::new(&self.unsnarl);
        let seed = seed.to_string();
        match mode.how {
            RecordingSource::Record => {
                command.args(["record", "--threads", mode.threads, "--seed", &seed, "-o", "t.snarl", "--"]);
            }
            // One run at a time, because they share the file.
            RecordingSource::Explore => {
                command.args(["explore", "--json", "--strategy", "random", "--runs", "1000", "-j", "1"]);
                command.args(["--seed", &seed, "--"]);
            }
        }
        command.arg(format!("./{}", mode.build.program())).arg("probes.txt");
        command.args((mode.how == RecordingSource::Explore).then_some("fail"));
        command.args(mode.without.iter().flat_map(|memory| ["without", memory]));
        if let Some(tunables) = mode.tunables {
            command.env("GLIBC_TUNABLES", tunables);
        }
        let made = command.current_dir(&self.directory).stdin(Stdio::null()).output()?;
        if mode.how == RecordingSource::Record {
            let said = String::from_utf8_lossy(&made.stderr);
            ensure!(made.status.success(), "the recording failed: {said}");
        } else {
            let report: Value = serde_json::from_slice(&made.stdout).context("explore prints JSON")?;
            let trace = report["failures"][0]["trace"].as_str().context("a search that finds the failure")?;
            fs::copy(self.directory.join(trace), self.directory.join("t.snarl"))?;
        }
        self.probes()
    }

    fn replay(&self, mode: &Mode) -> Result<Value> {
        let mut command = Command::new(&self.unsnarl);
        command.args(["replay", "--json", "--threads", mode.threads, "t.snarl"]);
        let replayed = command.current_dir(&self.directory).stdin(Stdio::null()).output()?;
        serde_json::from_slice(&replayed.stdout)
            .with_context(|| String::from_utf8_lossy(&replayed.stderr).into_owned())
    }

    /// Returns the probes of the last run by name; those of the same name are numbered.
    fn probes(&self) -> Result<BTreeMap<String, String>> {
        let text = fs::read_to_string(self.directory.join("probes.txt"))?;
        let mut count = BTreeMap::new();
        let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        Ok(lines
            .map(|(name, hash)| {
                let nth: &mut usize = count.entry(name).or_default();
                *nth += 1;
                (format!("{name} ({nth})"), hash.to_owned())
            })
            .collect())
    }
}

impl Build {
    const fn program(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Instrumented => "instrumented",
            Self::Cpp => "cpp",
        }
    }
}

/// Returns the probes that differ or are missing on one side.
fn differences(recorded: &BTreeMap<String, String>, replayed: &BTreeMap<String, String>) -> BTreeSet<String> {
    let names = recorded.keys().chain(replayed.keys());
    names.filter(|&name| recorded.get(name) != replayed.get(name)).cloned().collect()
}

/// Loops that keep all processors busy until dropped.
struct Busy(Vec<thread::JoinHandle<()>>);

static IS_OVER: AtomicBool = AtomicBool::new(false);

impl Busy {
    fn begin() -> Self {
        IS_OVER.store(false, Ordering::Relaxed);
        let loops = thread::available_parallelism().map_or(2, usize::from);
        let spin = || {
            while !IS_OVER.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        Self((0..loops).map(|_| thread::spawn(spin)).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        IS_OVER.store(true, Ordering::Relaxed);
        for spinning in self.0.drain(..) {
            // A loop that panicked has ended, too.
            let _ = spinning.join();
        }
    }
}
