//! `cargo xtask bench slice`: what an instruction trace costs, and a slice of it.
//!
//! Times of the traced run are those that `unsnarl slice --json` tells; start-up, which all ways have, is measured by a
//! run of no rounds and taken off. Valgrind's lackey prints its trace, which is thrown away.

use super::Effort;
use super::measure::Pair;
use super::table::{Table, Target, Unit};
use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

pub(crate) fn bench(effort: Effort) -> Result<()> {
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
    let repetitions = effort.repetitions();

    let mut table = Table::new();
    for (work, rounds, target) in [("own", "1000", 20.0), ("library", "50", 10.0)] {
        eprintln!("translated against native: {work}");
        let trace = bench.record(work, rounds)?;
        let none = bench.record(work, "0")?;
        let pair = Pair::measure(
            repetitions,
            || Ok((bench.traced(&trace, &[])? - bench.traced(&none, &[])?) * 1e9),
            || Ok((bench.native(work, rounds)? - bench.native(work, "0")?) * 1e9),
            |ours, theirs| ours / theirs,
        )?;
        table.row(&format!("{work}: traced / native"), Unit::Nanoseconds, &pair, Target::AtMost(target));
    }

    eprintln!("translated against stepping");
    let (many, few) = (bench.record("own", "100")?, bench.record("own", "1")?);
    let (many_instructions, few_instructions) = (bench.instructions(&many)?, bench.instructions(&few)?);
    let pair = Pair::measure(
        effort.repetitions().min(3),
        || Ok(many_instructions / bench.traced(&many, &[])?),
        || Ok(few_instructions / bench.traced(&few, &["--step"])?),
        |ours, theirs| ours / theirs,
    )?;
    table.row("instructions traced: translated / stepping", Unit::PerSecond, &pair, Target::AtLeast(100.0));

    if bench.has_lackey() {
        eprintln!("translated against lackey");
        let (trace, none) = (bench.record("own", "100")?, bench.record("own", "0")?);
        let instructions = bench.instructions(&trace)? - bench.instructions(&none)?;
        let pair = Pair::measure(
            effort.repetitions().min(3),
            || Ok(instructions / (bench.traced(&trace, &[])? - bench.traced(&none, &[])?)),
            || Ok(instructions / (bench.lackey("100")? - bench.lackey("0")?)),
            |ours, theirs| ours / theirs,
        )?;
        table.row("instructions traced: translated / lackey", Unit::PerSecond, &pair, Target::AtLeast(100.0));
    } else {
        eprintln!("valgrind is not installed: no comparison with lackey");
    }
    println!("{table}");

    println!("slices");
    let sizes: &[&str] = match effort {
        Effort::Quick => &["300"],
        Effort::Full => &["300", "3000"],
    };
    for rounds in sizes {
        let told = bench.slice(&bench.record("own", rounds)?, &[])?;
        let instructions = told["instructions"].as_f64().context("no instructions")?;
        let seconds = |part: &str| told["seconds"][part].as_f64().unwrap_or(f64::NAN);
        println!(
            "  {:.1} million instructions: {:.2} bytes each, {:.2} compressed; traced in {:.2} s, read in {:.2} s, \
             reduced in {:.2} s, closure {:.2} s, races {:.2} s, counts {:.2} s",
            instructions / 1e6,
            told["trace_bytes"].as_f64().context("no bytes")? / instructions,
            told["kept_bytes"].as_f64().context("no bytes")? / instructions,
            seconds("trace"),
            seconds("read"),
            seconds("reduce"),
            seconds("closure"),
            seconds("races"),
            seconds("counts"),
        );
    }
    bench.reductions(&workspace, effort)
}

struct Bench {
    unsnarl: PathBuf,
    directory: PathBuf,
    program: PathBuf,
}

impl Bench {
    /// Records so many thousand rounds; the trace.
    fn record(&self, work: &str, rounds: &str) -> Result<PathBuf> {
        let trace = self.directory.join(format!("{work}-{rounds}.snarl"));
        let mut command = Command::new(&self.unsnarl);
        command.args(["record", "--points", "sync", "--json", "-o"]).arg(&trace).arg("--").arg(&self.program);
        command.args([work, rounds]).current_dir(&self.directory).stdin(Stdio::null()).stdout(Stdio::null());
        // It ends with a status that counts as a failure, which is to be sliced.
        command.status().context("unsnarl record")?;
        Ok(trace)
    }

    fn slice(&self, trace: &Path, args: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.unsnarl);
        command.arg("slice").arg(trace).arg("--json").args(args).current_dir(&self.directory);
        let printed = output(&mut command, "unsnarl slice")?.stdout;
        serde_json::from_slice(&printed).context("unsnarl slice prints no JSON")
    }

    /// What execution reduction leaves of a run, and what each reduction leaves of the dependences: the paper's tables
    /// 2 and 3.
    fn reductions(&self, workspace: &Workspace, effort: Effort) -> Result<()> {
        let program = self.directory.join("served");
        let mut cc = Command::new(&self.unsnarl);
        cc.args(["cc", "-O1", "-g", "-pthread", "-o"]).arg(&program);
        output(cc.arg(workspace.root.join("xtask/bench/served.c")), "compiling served.c")?;
        println!("reductions");
        let sizes: &[&str] = match effort {
            Effort::Quick => &["2000"],
            Effort::Full => &["2000", "200000"],
        };
        for rounds in sizes {
            let trace = self.directory.join(format!("served-{rounds}.snarl"));
            let mut explore = Command::new(&self.unsnarl);
            explore.args(["explore", "--points", "races", "--runs", "2000", "--seed", "1", "-o"]).arg(&trace);
            explore.arg("--").arg(&program).arg(rounds).current_dir(&self.directory);
            // It fails, as it should.
            explore.stdin(Stdio::null()).stdout(Stdio::null()).status().context("unsnarl explore")?;
            for reduce in ["never", "always"] {
                let told = self.slice(&trace, &["--reduce", reduce])?;
                let [before, after] = ["before", "after"].map(|when| {
                    let extent = &told["reduction"][when];
                    format!(
                        "{} threads, {} segments, {} instructions",
                        extent["threads"], extent["segments"], extent["instructions"]
                    )
                });
                let dependences = &told["dependences"];
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

    /// Seconds of the traced run.
    fn traced(&self, trace: &Path, args: &[&str]) -> Result<f64> {
        self.slice(trace, args)?["seconds"]["trace"].as_f64().context("no time of tracing")
    }

    fn instructions(&self, trace: &Path) -> Result<f64> {
        self.slice(trace, &[])?["instructions"].as_f64().context("no instructions")
    }

    /// Seconds of a run by itself.
    fn native(&self, work: &str, rounds: &str) -> Result<f64> {
        self.time(Command::new(&self.program).args([work, rounds]))
    }

    fn has_lackey(&self) -> bool {
        let mut command = Command::new("valgrind");
        command.args(["--tool=lackey", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// Seconds of a run under valgrind's lackey.
    fn lackey(&self, rounds: &str) -> Result<f64> {
        let mut command = Command::new("valgrind");
        command.args(["--tool=lackey", "--trace-mem=yes", "--log-file=/dev/null"]).arg(&self.program);
        self.time(command.args(["own", rounds]))
    }

    fn time(&self, command: &mut Command) -> Result<f64> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let begin = Instant::now();
        command.status().with_context(|| format!("cannot run {command:?}"))?;
        Ok(begin.elapsed().as_secs_f64())
    }
}
