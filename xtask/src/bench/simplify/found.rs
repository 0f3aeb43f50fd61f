//! `cargo xtask bench simplify found`: to find and simplify a failure, compared with a search that finds a simple one.
//!
//! This is table 3 of the Tinertia paper: race-directed random testing and simplification, against CHESS with at most
//! two preemptions.

use super::{Bench, FailingProgram};
use crate::bench::BenchEffort;
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::{Command, Stdio};

/// The maximum number of runs of a search, as in the paper.
const RUNS: &str = "10000";

/// The sums over the seeds of a program.
#[derive(Default)]
struct Totals {
    found: u64,
    runs: f64,
    seconds: f64,
    switches: f64,
    preemptions: f64,
}

impl Totals {
    fn add(&mut self, search: &Value, simplified: Option<&Value>) {
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        self.runs += number(&search["runs"]);
        self.seconds += number(&search["elapsed_s"]);
        if search["found"] == true {
            let stats = simplified.map_or(&search["stats"], |report| &report["after"]);
            self.found += 1;
            self.switches += number(&stats["context_switches"]);
            self.preemptions += number(&stats["preemptive"]);
        }
        if let Some(report) = simplified {
            self.runs += number(&report["executions"]);
            self.seconds += number(&report["elapsed_s"]);
        }
    }

    /// Returns the columns: runs, time, and the means of what was found.
    fn columns(&self, seeds: u64) -> String {
        let mean = |sum: f64| sum / seeds.max(1) as f64;
        let left = match self.found {
            0 => "–".into(),
            n => format!("{:.1} / {:.1}", self.switches / n as f64, self.preemptions / n as f64),
        };
        format!("{:.0} | {:.2} s | {} of {seeds} | {left}", mean(self.runs), mean(self.seconds), self.found)
    }
}

impl Bench {
    /// Compares the two for every program.
    pub(super) fn found(&self, effort: BenchEffort) -> Result<()> {
        let seeds = match effort {
            BenchEffort::Quick => 1,
            BenchEffort::Full => 5,
        };
        println!("\n## Find and simplify: race-directed search with simplification, against CHESS\n");
        println!(
            "Means of {seeds} seeds; CHESS has none. Runs and time to find a failure and to simplify it; CHESS with at most two \
             preemptions and {RUNS} runs. Left: context switches / preemptions.\n"
        );
        println!("| program | runs | time | found | left | CHESS runs | time | found | left |");
        println!("|---|{}", "--:|".repeat(8));
        for program in self.failing_programs()?.iter().chain(&self.realistic_programs()?) {
            let mut ours = Totals::default();
            for seed in 1..=seeds {
                let search = self.search(program, &["race", "--seed", &seed.to_string()])?;
                let simplified = match search["trace"].as_str().filter(|_| search["found"] == true) {
                    Some(trace) => Some(self.report_of(&["simplify", "--json", "-j", "1", trace], &[])?),
                    None => None,
                };
                ours.add(&search, simplified.as_ref());
            }
            let mut chess = Totals::default();
            chess.add(&self.search(program, &["chess:2"])?, None);
            println!("| {} | {} | {} |", program.name, ours.columns(seeds), chess.columns(1));
        }
        Ok(())
    }

    fn search(&self, program: &FailingProgram, strategy: &[&str]) -> Result<Value> {
        let mut args = vec!["explore", "--json", "-j", "1", "--runs", RUNS, "--timeouts", &program.timeouts];
        args.push("--strategy");
        args.extend_from_slice(strategy);
        args.push("--");
        let mut command = vec![program.path.display().to_string()];
        command.extend_from_slice(&program.args);
        self.report_of(&args, &command).with_context(|| program.name.clone())
    }

    /// Returns the JSON of a command, whatever its exit status says about the program.
    fn report_of(&self, args: &[&str], more: &[String]) -> Result<Value> {
        let mut command = Command::new(&self.unsnarl);
        command.args(args).args(more).current_dir(&self.directory).stdin(Stdio::null());
        let printed = command.env("RUST_BACKTRACE", "0").output()?;
        serde_json::from_slice(&printed.stdout)
            .with_context(|| format!("{args:?}: {}", String::from_utf8_lossy(&printed.stderr)))
    }
}
