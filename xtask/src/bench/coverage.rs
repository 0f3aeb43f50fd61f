//! `cargo xtask bench coverage`: the estimate of what a search has not seen yet, compared with the truth, on programs whose
//! inequivalent schedules can be counted.

use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program with a known number of inequivalent schedules.
struct Program {
    source: &'static str,
    /// The values of its macros.
    defines: &'static [(&'static str, u64)],
    classes: u64,
}

const fn program(source: &'static str, defines: &'static [(&'static str, u64)], classes: u64) -> Program {
    Program { source, defines, classes }
}

/// With t threads of s steps that all conflict there are (t·s)! / (s!)^t orders.
const PROGRAMS: [Program; 13] = [
    program("counter", &[("THREADS", 2), ("STEPS", 2)], 6),
    program("counter", &[("THREADS", 2), ("STEPS", 4)], 70),
    program("counter", &[("THREADS", 2), ("STEPS", 6)], 924),
    program("counter", &[("THREADS", 3), ("STEPS", 2)], 90),
    program("counter", &[("THREADS", 3), ("STEPS", 3)], 1680),
    program("counter", &[("THREADS", 5), ("STEPS", 1)], 120),
    program("mutex", &[("THREADS", 2), ("STEPS", 3)], 20),
    program("mutex", &[("THREADS", 3), ("STEPS", 2)], 90),
    program("mutex", &[("THREADS", 4), ("STEPS", 2)], 2520),
    program("readers", &[("READERS", 3)], 8),
    program("readers", &[("READERS", 6)], 64),
    program("stages", &[("THREADS", 3)], 36),
    program("stages", &[("THREADS", 4)], 576),
];

/// The strategies, with the numbers of runs after which the estimate is asked for.
const SEARCHES: [(&str, &[u64]); 4] =
    [("random", &[100, 1000]), ("pos", &[300]), ("pct:3", &[300]), ("portfolio", &[1000])];

/// The number of runs that the estimate is about.
const FURTHER: u64 = 1000;
const SEEDS: u64 = 20;

pub(crate) fn bench() -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    eprintln!("building unsnarl");
    let directory = workspace.scratch("bench-coverage")?;
    let unsnarl = directory.join("unsnarl");
    std::fs::copy(workspace.build_unsnarl()?, &unsnarl)?;
    let bench = Bench { unsnarl, sources: workspace.root.join("xtask/bench/coverage"), directory };
    println!(
        "{:<14} {:<10} {:>5}  {:>7}  {:>7}  {:>9}  {:>6}",
        "program", "strategy", "runs", "classes", "seen", "estimate", "truth"
    );
    let mut all = Totals::default();
    for program in &PROGRAMS {
        let name = program.name();
        let binary = bench.compile(program).with_context(|| name.clone())?;
        for (strategy, counts) in SEARCHES {
            for &runs in counts {
                let totals = bench.compare(&binary, strategy, runs).with_context(|| name.clone())?;
                let [seen, estimate, truth] = totals.means();
                ensure!(
                    totals.most_classes <= program.classes,
                    "{name}: {} classes were seen, but there are {}",
                    totals.most_classes,
                    program.classes
                );
                println!(
                    "{name:<14} {strategy:<10} {runs:>5}  {:>7}  {seen:>7.1}  {:>8.0}%  {:>5.0}%",
                    program.classes,
                    estimate * 100.0,
                    truth * 100.0
                );
                all.add(&totals);
            }
        }
    }
    let [_, estimate, truth] = all.means();
    println!("all: estimate {:.1}%, truth {:.1}%", estimate * 100.0, truth * 100.0);
    Ok(())
}

/// Sums over searches.
#[derive(Default)]
struct Totals {
    searches: f64,
    seen: f64,
    estimates: f64,
    /// The number of searches in which the further runs did show something new.
    new: f64,
    most_classes: u64,
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.searches += other.searches;
        self.seen += other.seen;
        self.estimates += other.estimates;
        self.new += other.new;
        self.most_classes = self.most_classes.max(other.most_classes);
    }

    /// Returns the classes seen, the estimated chance of a new one, and how often there was one.
    fn means(&self) -> [f64; 3] {
        [self.seen, self.estimates, self.new].map(|sum| sum / self.searches)
    }
}

struct Bench {
    unsnarl: PathBuf,
    sources: PathBuf,
    directory: PathBuf,
}

impl Program {
    fn name(&self) -> String {
        let values: Vec<String> = self.defines.iter().map(|(_, value)| value.to_string()).collect();
        format!("{} {}", self.source, values.join("×"))
    }
}

impl Bench {
    fn compile(&self, program: &Program) -> Result<PathBuf> {
        let binary = self.directory.join(program.name().replace([' ', '×'], "-"));
        let mut command = Command::new(&self.unsnarl);
        command.args(["cc", "-O1", "-g", "-pthread", "-o"]).arg(&binary);
        command.args(program.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        command.arg(self.sources.join(program.source).with_extension("c"));
        output(&mut command, "the compiler")?;
        Ok(binary)
    }

    /// Compares the estimates of searches with what their further runs show. A search with more runs repeats those of a
    /// shorter one with the same seed.
    fn compare(&self, program: &Path, strategy: &str, runs: u64) -> Result<Totals> {
        let mut totals = Totals::default();
        for seed in 1..=SEEDS {
            let coverage = |runs: u64| self.coverage(program, strategy, seed, runs);
            let (before, after) = (coverage(runs)?, coverage(runs + FURTHER)?);
            let classes = |coverage: &Value| coverage["classes"].as_u64().context("classes");
            let (seen, all) = (classes(&before)?, classes(&after)?);
            totals.add(&Totals {
                searches: 1.0,
                seen: seen as f64,
                estimates: before["chance_of_new_in_1000"].as_f64().context("an estimate")?,
                new: f64::from(u8::from(all > seen)),
                most_classes: all,
            });
        }
        Ok(totals)
    }

    fn coverage(&self, program: &Path, strategy: &str, seed: u64, runs: u64) -> Result<Value> {
        let mut command = Command::new(&self.unsnarl);
        command.args(["explore", "--json", "--strategy", strategy]);
        command.args(["--seed", &seed.to_string(), "--runs", &runs.to_string(), "--"]).arg(program);
        let report = output(command.current_dir(&self.directory).stdin(Stdio::null()), "unsnarl explore")?;
        let report: Value = serde_json::from_slice(&report.stdout)?;
        Ok(report["coverage"].clone())
    }
}
