//! `cargo xtask bench runtime`: the cost of running a program under control.
//!
//! Programs time themselves by the processor's counter, because all other clocks are virtual under control, and write
//! the figure to a file.

use super::BenchEffort;
use super::measure::Measurement;
use super::table::{RatioTarget, Table, Unit};
use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const KERNELS: [&str; 3] = ["matrix", "sort", "hash"];

pub(crate) fn bench(effort: BenchEffort) -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    tools::require(tools::CLANG)?;
    eprintln!("building unsnarl");
    let unsnarl = workspace.build_unsnarl()?;
    let bench = Bench {
        unsnarl,
        sources: workspace.root.join("xtask/bench"),
        directory: workspace.scratch("bench")?,
    };
    let repetitions = effort.repetitions();

    let calibrate = bench.gcc("calibrate", &[])?;
    let handover = bench.gcc("handover", &[])?;
    let yielding = bench.gcc("yield", &[])?;
    let three = bench.gcc("three", &[])?;
    let kernels = bench.gcc("kernels", &[])?;
    let kernels_tsan = bench.gcc("kernels", &["-fsanitize=thread"])?;
    let kernels_ours = bench.compile(Command::new(&bench.unsnarl).arg("cc"), "kernels", "ours", &[])?;
    let ticks_per_ns = bench.native(&calibrate, &[])?;
    let ns = |ticks: Result<f64>| ticks.map(|ticks| ticks / ticks_per_ns);

    let mut table = Table::new();
    let cost = |ours: f64, theirs: f64| ours / theirs;

    eprintln!("switches");
    let pair = Measurement::measure(
        repetitions,
        || ns(bench.controlled(&yielding, &["200000"], "sync")),
        || ns(bench.native(&handover, &["100000"])),
        |ours, theirs| theirs / ours,
    )?;
    table.row(
        "times that a futex hand-over costs a switch, event logged",
        Unit::Nanoseconds,
        &pair,
        RatioTarget::AtLeast(30.0),
    );

    eprintln!("whole runs");
    let pair = Measurement::measure(
        repetitions,
        || bench.controlled_runs(&three, 200).map(|seconds| seconds * 1e9),
        || bench.plain_runs(&three, 200).map(|seconds| seconds * 1e9),
        cost,
    )?;
    table.row("controlled run / plain exec", Unit::Nanoseconds, &pair, RatioTarget::AtMost(2.0));

    eprintln!("start-up");
    let clang = PathBuf::from("/usr/bin/clang");
    let starts: [(&str, &Path, &[&str]); 2] =
        [("a small C program", &three, &[]), ("clang --version", &clang, &["--version"])];
    for (name, program, args) in starts {
        let variants = [
            ("", None),
            (", bound lazily", Some(("UNSNARL_BINDING", "lazy"))),
            (", own layout", Some(("UNSNARL_LAYOUT", "own"))),
        ];
        for (variant, setting) in variants {
            let pair = Measurement::measure(
                repetitions,
                || bench.started(program, args, setting, 20).map(|seconds| seconds * 1e9),
                || bench.plain_starts(program, args, 20).map(|seconds| seconds * 1e9),
                cost,
            )?;
            table.row(
                &format!("start-up of {name}{variant} / native"),
                Unit::Nanoseconds,
                &pair,
                RatioTarget::None,
            );
        }
    }

    for kernel in KERNELS {
        eprintln!("uninstrumented {kernel}");
        let pair = Measurement::measure(
            repetitions,
            || ns(fastest_of(3, || bench.controlled(&kernels, &[kernel, "500"], "sync"))),
            || ns(fastest_of(3, || bench.native(&kernels, &[kernel, "500"]))),
            cost,
        )?;
        let what = format!("uninstrumented {kernel} / native");
        table.row(&what, Unit::Nanoseconds, &pair, RatioTarget::AtMost(1.02));
    }

    for (points, times) in [("sync", "50"), ("all", "5")] {
        for kernel in KERNELS {
            eprintln!("instrumented {kernel}, points {points}");
            let pair = Measurement::measure(
                repetitions,
                || ns(fastest_of(3, || bench.controlled(&kernels_ours, &[kernel, times], points))),
                || ns(fastest_of(3, || bench.native(&kernels_tsan, &[kernel, times]))),
                cost,
            )?;
            let what = format!("instrumented {kernel}, --points {points} / gcc's TSan");
            table.row(&what, Unit::Nanoseconds, &pair, RatioTarget::AtMost(1.0));
        }
    }

    eprintln!("exploration");
    let pair = Measurement::measure(
        repetitions,
        || bench.explored_runs_per_second(&three, 300),
        || bench.plain_runs(&three, 300).map(|seconds| 1.0 / seconds),
        cost,
    )?;
    table.row("explore, runs per second / plain exec", Unit::PerSecond, &pair, RatioTarget::None);

    println!("{repetitions} turns each, medians; a ratio's quartiles are those of the turns' ratios");
    print!("{table}");
    Ok(())
}

/// Returns the smallest of some measurements: other load on the same core can only slow a process down.
fn fastest_of(times: usize, mut measure: impl FnMut() -> Result<f64>) -> Result<f64> {
    (0..times).try_fold(f64::INFINITY, |fastest, _| Ok(fastest.min(measure()?)))
}

struct Bench {
    unsnarl: PathBuf,
    sources: PathBuf,
    directory: PathBuf,
}

impl Bench {
    fn gcc(&self, source: &str, flags: &[&str]) -> Result<PathBuf> {
        let suffix = if flags.is_empty() { "plain" } else { "tsan" };
        self.compile(&mut Command::new("gcc"), source, suffix, flags)
    }

    fn compile(&self, compiler: &mut Command, source: &str, suffix: &str, flags: &[&str]) -> Result<PathBuf> {
        let program = self.directory.join(format!("{source}-{suffix}"));
        compiler.args(["-O2", "-g", "-pthread"]).args(flags);
        compiler.arg(self.sources.join(format!("{source}.c"))).arg("-o").arg(&program);
        output(compiler, &format!("compiling {source}.c"))?;
        Ok(program)
    }

    fn figure(&self) -> PathBuf {
        self.directory.join("figure")
    }

    /// Returns the program's own measurement without control.
    fn native(&self, program: &Path, args: &[&str]) -> Result<f64> {
        let name = program.display().to_string();
        self.take_figure(&name, || {
            output(Command::new(program).arg(self.figure()).args(args), &name).map(drop)
        })
    }

    /// Returns the program's own measurement under control.
    fn controlled(&self, program: &Path, args: &[&str], points: &str) -> Result<f64> {
        self.take_figure(&program.display().to_string(), || {
            let mut command = Command::new(&self.unsnarl);
            // The last of a few runs leaves the figure: by then the log's memory is mapped, as in a search.
            command.args(["bench-run", "--runs", "3", "--points", points, "--"]);
            self.json(command.arg(program).arg(self.figure()).args(args)).map(drop)
        })
    }

    fn take_figure(&self, name: &str, run: impl FnOnce() -> Result<()>) -> Result<f64> {
        // Otherwise a program that fails silently would leave the previous figure.
        let _ = std::fs::remove_file(self.figure());
        run()?;
        let text =
            std::fs::read_to_string(self.figure()).with_context(|| format!("{name} left no figure"))?;
        text.trim().parse().with_context(|| format!("{name} left no number"))
    }

    /// Returns the seconds per run for `runs` controlled runs in one process.
    fn controlled_runs(&self, program: &Path, runs: u32) -> Result<f64> {
        self.started(program, &[], None, runs)
    }

    /// As `controlled_runs`, with arguments and an environment variable.
    fn started(
        &self,
        program: &Path,
        args: &[&str],
        setting: Option<(&str, &str)>,
        runs: u32,
    ) -> Result<f64> {
        let mut command = Command::new(&self.unsnarl);
        command.args(["bench-run", "--runs", &runs.to_string(), "--points", "sync", "--"]);
        command.arg(program).args(args).envs(setting);
        let elapsed =
            self.json(&mut command)?["elapsed_s"].as_f64().context("bench-run prints no elapsed_s")?;
        Ok(elapsed / f64::from(runs))
    }

    /// Returns the seconds per run for `runs` plain runs started by this process.
    fn plain_runs(&self, program: &Path, runs: u32) -> Result<f64> {
        self.plain_starts(program, &[], runs)
    }

    /// As `plain_runs`, with arguments.
    fn plain_starts(&self, program: &Path, args: &[&str], runs: u32) -> Result<f64> {
        let start = Instant::now();
        for _ in 0..runs {
            let status =
                Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
            ensure!(status.success(), "{} failed", program.display());
        }
        Ok(start.elapsed().as_secs_f64() / f64::from(runs))
    }

    fn explored_runs_per_second(&self, program: &Path, runs: u32) -> Result<f64> {
        let mut command = Command::new(&self.unsnarl);
        command
            .args(["explore", "--strategy", "random", "--runs", &runs.to_string(), "--json", "--"])
            .arg(program);
        let found = self.json(&mut command)?;
        let (runs, elapsed) = (found["runs"].as_f64(), found["elapsed_s"].as_f64());
        Ok(runs.context("explore prints no runs")? / elapsed.context("explore prints no elapsed_s")?)
    }

    fn json(&self, command: &mut Command) -> Result<Value> {
        let name = format!("{command:?}");
        let printed = output(command.current_dir(&self.directory), &name)?.stdout;
        serde_json::from_slice(&printed).with_context(|| format!("{name} prints no JSON"))
    }
}
