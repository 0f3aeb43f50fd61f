//! `cargo xtask bench slice`: the cost of an instruction trace, and of slicing it.
//!
//! Times of the traced run come from `unsnarl slice --json`. Start-up, which all methods have, is measured by a run of
//! no rounds and subtracted. The trace that Valgrind's lackey prints is discarded.
//!
//! Each figure is given twice: as elapsed time, and as processor time, which other load on the machine affects less.
//! While a program is traced, unsnarl compresses the trace on another processor; the second figure includes both.

use super::BenchEffort;
use super::measure::Measurement;
use super::table::{RatioTarget, Table, Unit};
use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The parts of the benchmark.
const PARTS: [&str; 5] = ["native", "stepping", "lackey", "slices", "reductions"];

pub(crate) fn bench(effort: BenchEffort, part: Option<&str>) -> Result<()> {
    if let Some(part) = part {
        ensure!(PARTS.contains(&part), "there is no part {part}; there are {}", PARTS.join(", "));
    }
    let selected = |name: &str| part.is_none_or(|part| part == name);
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    eprintln!("building unsnarl");
    let unsnarl = workspace.build_unsnarl()?;
    let directory = workspace.scratch("bench-slice")?;
    let program = directory.join("traced");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-o"]).arg(&program).arg(workspace.root.join("xtask/bench/traced.c"));
    output(&mut gcc, "compiling traced.c")?;
    let bench = Bench { unsnarl, directory, program };

    let mut table = Table::new();
    if selected("native") {
        bench.against_native(effort, &mut table)?;
    }
    if selected("stepping") {
        bench.against_stepping(effort, &mut table)?;
    }
    if selected("lackey") {
        tools::require(tools::VALGRIND)?;
        bench.against_lackey(effort, &mut table)?;
    }
    if ["native", "stepping", "lackey"].into_iter().any(selected) {
        println!("{table}");
    }
    if selected("slices") {
        bench.slices(effort)?;
    }
    if selected("reductions") {
        bench.reductions(&workspace, effort)?;
    }
    Ok(())
}

/// Elapsed seconds and processor seconds.
type TimeCost = [f64; 2];

/// Names of the two costs.
const COSTS: [&str; 2] = ["time", "processors"];

/// Adds rows with the traced instructions per second, compared with another tool.
fn put_speeds(table: &mut Table, peer: &str, pairs: &[Measurement]) {
    for (pair, cost) in pairs.iter().zip(COSTS) {
        let what = format!("instructions traced: translated / {peer}, {cost}");
        table.row(&what, Unit::PerSecond, pair, RatioTarget::AtLeast(100.0));
    }
}

/// Returns the cost of the additional rounds.
fn beyond(more: TimeCost, fewer: TimeCost) -> TimeCost {
    std::array::from_fn(|at| more[at] - fewer[at])
}

struct Bench {
    unsnarl: PathBuf,
    directory: PathBuf,
    program: PathBuf,
}

impl Bench {
    fn against_native(&self, effort: BenchEffort, table: &mut Table) -> Result<()> {
        /// Factor of rounds for the program by itself, which is so fast that fewer could not be measured.
        const MORE: u32 = 20;
        for (work, rounds, target) in [("own", 1000, 20.0), ("library", 50, 10.0)] {
            eprintln!("translated against native: {work}");
            let trace = self.record(work, rounds)?;
            let none = self.record(work, 0)?;
            let pairs = Measurement::measure_each(
                effort.repetitions(),
                || Ok(beyond(self.traced(&trace, &[])?, self.traced(&none, &[])?).map(|cost| cost * 1e9)),
                || {
                    let native = beyond(self.native(work, MORE * rounds)?, self.native(work, 0)?);
                    Ok(native.map(|cost| cost * 1e9 / f64::from(MORE)))
                },
                |ours, theirs| ours / theirs,
            )?;
            for (pair, cost) in pairs.iter().zip(COSTS) {
                let what = format!("{work}: traced / native, {cost}");
                table.row(&what, Unit::Nanoseconds, pair, RatioTarget::AtMost(target));
            }
        }
        Ok(())
    }

    fn against_stepping(&self, effort: BenchEffort, table: &mut Table) -> Result<()> {
        eprintln!("translated against stepping");
        let (many, few) = (self.record("own", 100)?, self.record("own", 1)?);
        let (many_instructions, few_instructions) = (self.instructions(&many)?, self.instructions(&few)?);
        let pairs = Measurement::measure_each(
            effort.repetitions().min(3),
            || Ok(self.traced(&many, &[])?.map(|cost| many_instructions / cost)),
            || Ok(self.traced(&few, &["--step"])?.map(|cost| few_instructions / cost)),
            |ours, theirs| ours / theirs,
        )?;
        put_speeds(table, "stepping", &pairs);
        Ok(())
    }

    fn against_lackey(&self, effort: BenchEffort, table: &mut Table) -> Result<()> {
        /// Factor of rounds for our trace. Lackey takes a second for a few million instructions, which are too few for
        /// ours to be measured.
        const MORE: u32 = 10;
        const ROUNDS: u32 = 100;
        eprintln!("translated against lackey");
        let (trace, none) = (self.record("own", MORE * ROUNDS)?, self.record("own", 0)?);
        let instructions = self.instructions(&trace)? - self.instructions(&none)?;
        let pairs = Measurement::measure_each(
            effort.repetitions().min(5),
            || Ok(beyond(self.traced(&trace, &[])?, self.traced(&none, &[])?).map(|cost| instructions / cost)),
            || {
                let lackey = beyond(self.lackey(ROUNDS)?, self.lackey(0)?);
                Ok(lackey.map(|cost| instructions / f64::from(MORE) / cost))
            },
            |ours, theirs| ours / theirs,
        )?;
        put_speeds(table, "lackey", &pairs);
        Ok(())
    }

    fn slices(&self, effort: BenchEffort) -> Result<()> {
        println!("slices");
        let sizes: &[u32] = match effort {
            BenchEffort::Quick => &[300],
            BenchEffort::Full => &[300, 3000],
        };
        for rounds in sizes {
            let report = self.slice(&self.record("own", *rounds)?, &[])?;
            let instructions = report["instructions"].as_f64().context("no instructions")?;
            let seconds = |part: &str| report["seconds"][part].as_f64().unwrap_or(f64::NAN);
            println!(
                "  {:.1} million instructions: {:.2} bytes each, {:.2} compressed; traced in {:.2} s, read in {:.2} s, \
                 reduced in {:.2} s, closure {:.2} s, races {:.2} s, counts {:.2} s",
                instructions / 1e6,
                report["trace_bytes"].as_f64().context("no bytes")? / instructions,
                report["kept_bytes"].as_f64().context("no bytes")? / instructions,
                seconds("trace"),
                seconds("read"),
                seconds("reduce"),
                seconds("closure"),
                seconds("races"),
                seconds("counts"),
            );
        }
        Ok(())
    }

    /// Records this many thousand rounds and returns the trace.
    fn record(&self, work: &str, rounds: u32) -> Result<PathBuf> {
        let trace = self.directory.join(format!("{work}-{rounds}.snarl"));
        let mut command = Command::new(&self.unsnarl);
        command.args(["record", "--points", "sync", "--json", "-o"]).arg(&trace).arg("--").arg(&self.program);
        command
            .args([work, &rounds.to_string()])
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        // It ends with a failure status on purpose, so that there is something to slice.
        command.status().context("unsnarl record")?;
        Ok(trace)
    }

    fn slice(&self, trace: &Path, args: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.unsnarl);
        command.arg("slice").arg(trace).arg("--json").args(args).current_dir(&self.directory);
        let printed = output(&mut command, "unsnarl slice")?.stdout;
        serde_json::from_slice(&printed).context("unsnarl slice prints no JSON")
    }

    /// Prints what execution reduction leaves of a run, and what each reduction leaves of the dependences: the paper's
    /// tables 2 and 3.
    fn reductions(&self, workspace: &Workspace, effort: BenchEffort) -> Result<()> {
        let program = self.directory.join("served");
        let mut cc = Command::new(&self.unsnarl);
        cc.args(["cc", "-O1", "-g", "-pthread", "-o"]).arg(&program);
        output(cc.arg(workspace.root.join("xtask/bench/served.c")), "compiling served.c")?;
        println!("reductions");
        let sizes: &[&str] = match effort {
            BenchEffort::Quick => &["2000"],
            BenchEffort::Full => &["2000", "200000"],
        };
        for rounds in sizes {
            let trace = self.directory.join(format!("served-{rounds}.snarl"));
            let mut explore = Command::new(&self.unsnarl);
            explore.args(["explore", "--points", "races", "--runs", "2000", "--seed", "1", "-o"]).arg(&trace);
            explore.arg("--").arg(&program).arg(rounds).current_dir(&self.directory);
            // It fails on purpose.
            explore.stdin(Stdio::null()).stdout(Stdio::null()).status().context("unsnarl explore")?;
            for reduce in ["never", "always"] {
                let report = self.slice(&trace, &["--reduce", reduce])?;
                let [before, after] = ["before", "after"].map(|when| {
                    let extent = &report["reduction"][when];
                    format!(
                        "{} threads, {} segments, {} instructions",
                        extent["threads"], extent["segments"], extent["instructions"]
                    )
                });
                let dependences = &report["dependences"];
                println!("  served {rounds}, reduced {reduce}: {before}; can have had a part: {after}");
                println!(
                    "    {} reads within threads, {} between; writes after accesses of others: {}, consecutive {}, \
                     unordered {}",
                    dependences["raw_within"],
                    dependences["raw_between"],
                    dependences["before"],
                    dependences["consecutive"],
                    dependences["unordered"],
                );
            }
        }
        Ok(())
    }

    /// Returns the cost of the traced run.
    fn traced(&self, trace: &Path, args: &[&str]) -> Result<TimeCost> {
        let report = self.slice(trace, args)?;
        let cost = |of: &str| report[of]["trace"].as_f64().context("no cost of tracing");
        Ok([cost("seconds")?, cost("processor_seconds")?])
    }

    fn instructions(&self, trace: &Path) -> Result<f64> {
        self.slice(trace, &[])?["instructions"].as_f64().context("no instructions")
    }

    /// Returns the cost of a run by itself.
    fn native(&self, work: &str, rounds: u32) -> Result<TimeCost> {
        self.cost(Command::new(&self.program).args([work, &rounds.to_string()]))
    }

    /// Returns the cost of a run under valgrind's lackey.
    fn lackey(&self, rounds: u32) -> Result<TimeCost> {
        let mut command = Command::new("valgrind");
        command.args(["--tool=lackey", "--trace-mem=yes", "--log-file=/dev/null"]).arg(&self.program);
        self.cost(command.args(["own", &rounds.to_string()]))
    }

    fn cost(&self, command: &mut Command) -> Result<TimeCost> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let (begin, used) = (Instant::now(), of_children()?);
        command.status().with_context(|| format!("cannot run {command:?}"))?;
        Ok([begin.elapsed().as_secs_f64(), of_children()? - used])
    }
}

/// Returns the processor seconds of all children that were waited for.
fn of_children() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}
