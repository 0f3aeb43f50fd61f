//! `cargo xtask bench search`: how many schedules it takes to find the classical bugs, and how many runs per second a
//! search makes.

mod clean;
mod failures;
mod speed;

use super::BenchEffort;
use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// All strategies. Except for the part `speed`, their figures do not depend on the load of the machine.
const STRATEGIES: [&str; 7] = ["portfolio", "race", "chess", "novelty", "pct:3", "pos", "random"];

/// The parts of the benchmark.
pub(crate) const PARTS: [&str; 5] = ["failures", "hard", "clean", "memory", "speed"];

pub(crate) fn bench(effort: BenchEffort, only: Option<&str>) -> Result<()> {
    ensure!(only.is_none_or(|only| PARTS.contains(&only)), "no such part: there are {}", PARTS.join(", "));
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    tools::require(tools::VALGRIND)?;
    eprintln!("building unsnarl");
    let directory = workspace
        .scratch(&format!("bench-search{}", only.map(|only| format!("-{only}")).unwrap_or_default()))?;
    // A copy, so that builds in the meantime do not affect the measurement.
    let unsnarl = directory.join("unsnarl");
    std::fs::copy(workspace.build_unsnarl()?, &unsnarl)?;
    let bench = Bench {
        unsnarl,
        programs: workspace.root.join("programs/c"),
        sources: workspace.root.join("xtask/bench"),
        directory,
    };
    for part in PARTS.into_iter().filter(|&part| only.is_none_or(|only| only == part)) {
        let begin = Instant::now();
        match part {
            "failures" => bench.schedules_to_failure(effort)?,
            "hard" => bench.hard(effort)?,
            "clean" => bench.clean(effort)?,
            "memory" => bench.memory()?,
            _ => bench.speed(effort)?,
        }
        eprintln!("{part}: {:.0} s", begin.elapsed().as_secs_f64());
    }
    Ok(())
}

struct Bench {
    unsnarl: PathBuf,
    programs: PathBuf,
    sources: PathBuf,
    directory: PathBuf,
}

impl Bench {
    /// Compiles a program as its expectation says.
    fn program(&self, name: &str) -> Result<PathBuf> {
        let program = self.directory.join(name);
        let mut command = if self.expectation(name, "instrument")? == "no" {
            Command::new("gcc")
        } else {
            let mut command = Command::new(&self.unsnarl);
            command.arg("cc");
            command
        };
        command.args(["-O1", "-g", "-pthread"]).arg(self.programs.join(format!("{name}.c")));
        command.arg("-o").arg(&program).args(self.expectation(name, "flags")?.split_whitespace());
        output(&mut command, &format!("compiling {name}.c"))?;
        Ok(program)
    }

    fn expectation(&self, name: &str, key: &str) -> Result<String> {
        let text = std::fs::read_to_string(self.programs.join(format!("{name}.expect")))?;
        let value = text.lines().filter_map(|line| line.split_once(" = ")).find(|(k, _)| *k == key);
        Ok(value.map_or_else(String::new, |(_, value)| value.to_owned()))
    }

    /// Makes searches of at most `most` runs each, for each strategy with its number of seeds and its budget of runs.
    /// All searches of a program are made in one process, so that start-up is not measured.
    fn searches(&self, program: &Path, most: u64, by: &[(&str, u64, u64)]) -> Result<Vec<Value>> {
        let mut command = Command::new(&self.unsnarl);
        command.args(["bench-search", "--runs", &most.to_string()]);
        command.args(by.iter().map(|(strategy, seeds, runs)| format!("--by={strategy}/{seeds}/{runs}")));
        let printed = output(
            command.arg("--").arg(program).current_dir(&self.directory).stdin(Stdio::null()),
            "unsnarl bench-search",
        )?;
        let report: Value = serde_json::from_slice(&printed.stdout)?;
        report["searches"].as_array().cloned().context("no searches")
    }

    fn explore(&self, program: &Path, args: &[&str]) -> Result<Value> {
        self.explore_with(program, &[], args)
    }

    /// Explores with arguments for the program.
    fn explore_with(&self, program: &Path, program_args: &[&str], args: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.unsnarl);
        command.args(["explore", "--json", "-o", "found.snarl"]).args(args);
        command.arg("--").arg(program).args(program_args);
        let name = format!("{command:?}");
        let printed = command.current_dir(&self.directory).stdin(Stdio::null()).output()?;
        ensure!(matches!(printed.status.code(), Some(0 | 100)), "{name}: {printed:?}");
        serde_json::from_slice(&printed.stdout).with_context(|| format!("{name} prints no JSON"))
    }
}

fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn print_columns(rows: &[Vec<String>]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    for row in rows {
        let mut line = format!("{:<w$}", row[0], w = width(0));
        for (column, cell) in row.iter().enumerate().skip(1) {
            line.push_str(&format!("  {cell:>w$}", w = width(column)));
        }
        println!("{}", line.trim_end());
    }
    println!();
}
