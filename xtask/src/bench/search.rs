//! `cargo xtask bench search`: how many schedules it takes to find the classical bugs, and how many runs a second
//! a search makes.

use super::Effort;
use super::measure::Pair;
use super::table::{Table, Target, Unit};
use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const STRATEGIES: [&str; 7] = ["portfolio", "race", "chess", "novelty", "pct:3", "pos", "random"];

/// A search gives up after so many runs or so much time.
const MOST: u64 = 5_000;
const TIME: &str = "10s";
/// A strategy that found nothing so often is not asked again.
const PATIENCE: u64 = 3;

/// The programs, and the best mean of schedules to the first failure that is published for the bug: by whom.
const PROGRAMS: &[(&str, Option<(f64, &str)>)] = &[
    ("account", None),
    ("bluetooth", Some((9.0, "PERIOD"))),
    ("bounded_buffer", None),
    ("circular_buffer", None),
    ("compressor_pipeline", None),
    ("dining_2", None),
    ("dining_3", None),
    ("dining_4", None),
    ("dining_5", None),
    ("dining_6", None),
    ("dining_7", None),
    ("file_scanner", None),
    ("lazy_init", None),
    ("qsort_mt", Some((27.0, "PERIOD"))),
    ("queue", None),
    ("reorder_3", None),
    ("reorder_4", None),
    ("reorder_5", None),
    ("reorder_10", Some((6.0, "RFF"))),
    ("reorder_20", None),
    ("reorder_100", Some((6.0, "RFF"))),
    ("stack", None),
    ("stringbuffer", Some((15.0, "RFF"))),
    ("token_ring", None),
    ("twostage_2", None),
    ("twostage_100", Some((56.0, "RFF"))),
    ("workstealing_queue", None),
    ("wronglock", None),
];

/// The lock-free stack is searched for by time: nobody has published that it was found.
const HARD: &str = "safestack";

pub(crate) fn bench(effort: Effort) -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    tools::require(tools::VALGRIND)?;
    eprintln!("building unsnarl");
    let bench = Bench {
        unsnarl: workspace.build_unsnarl()?,
        programs: workspace.root.join("programs/c"),
        sources: workspace.root.join("xtask/bench"),
        directory: workspace.scratch("bench-search")?,
    };
    let (seeds, hard_seconds, correct_runs) = match effort {
        Effort::Quick => (3, 60, 100),
        Effort::Full => (20, 300, 1000),
    };
    bench.schedules_to_failure(seeds)?;
    bench.hard(hard_seconds)?;
    bench.correct(correct_runs)?;
    bench.memory()?;
    bench.speed(effort)
}

struct Bench {
    unsnarl: PathBuf,
    programs: PathBuf,
    sources: PathBuf,
    directory: PathBuf,
}

/// What some searches by one strategy came to.
#[derive(Default)]
struct Searches {
    found: u64,
    made: u64,
    runs: f64,
    seconds: f64,
}

impl Searches {
    fn mean(&self) -> Option<f64> {
        (self.found > 0).then(|| self.runs / self.found as f64)
    }

    /// The mean over those that found it, and how many that were if not all.
    fn show(&self) -> String {
        match self.mean() {
            Some(mean) if self.found == self.made => format!("{mean:.1}"),
            Some(mean) => format!("{mean:.1} ({}/{})", self.found, self.made),
            None => "–".into(),
        }
    }
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

    fn explore(&self, program: &Path, args: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.unsnarl);
        command.args(["explore", "--json", "-o", "found.snarl"]).args(args).arg("--").arg(program);
        let name = format!("{command:?}");
        let printed = command.current_dir(&self.directory).stdin(Stdio::null()).output()?;
        ensure!(matches!(printed.status.code(), Some(0 | 100)), "{name}: {printed:?}");
        serde_json::from_slice(&printed.stdout).with_context(|| format!("{name} prints no JSON"))
    }

    fn searches(&self, program: &Path, strategy: &str, seeds: u64) -> Result<Searches> {
        let mut all = Searches::default();
        for nth in 1..=seeds {
            if all.found == 0 && all.made == PATIENCE {
                break;
            }
            // Far apart: a search takes one seed after the other.
            let seed = (nth * 1_000_003).to_string();
            let most = MOST.to_string();
            let args = ["--strategy", strategy, "--seed", &seed, "--runs", &most, "--time", TIME];
            let search = self.explore(program, &args)?;
            all.made += 1;
            all.seconds += search["elapsed_s"].as_f64().unwrap_or(0.0);
            if search["found"] == true {
                all.found += 1;
                all.runs += search["runs"].as_f64().unwrap_or(0.0);
            }
        }
        Ok(all)
    }

    /// The first table, and CHESS against race-directed search as the Tinertia paper's table 3.
    fn schedules_to_failure(&self, seeds: u64) -> Result<()> {
        let mut rows = vec![heads(&[
            "schedules to the first failure",
            STRATEGIES[0],
            STRATEGIES[1],
            STRATEGIES[2],
            STRATEGIES[3],
            STRATEGIES[4],
            STRATEGIES[5],
            STRATEGIES[6],
            "published",
            "met?",
        ])];
        let mut against = vec![heads(&["CHESS against race-directed", "runs", "seconds", "runs", "seconds"])];
        for (name, published) in PROGRAMS {
            eprintln!("{name}");
            let program = self.program(name)?;
            let mut by_strategy = BTreeMap::new();
            for strategy in STRATEGIES {
                // A systematic search has no seed.
                let seeds = if strategy == "chess" { 1 } else { seeds };
                by_strategy.insert(strategy, self.searches(&program, strategy, seeds)?);
            }
            let best = published.map_or_else(String::new, |(best, who)| format!("{best} {who}"));
            let met = published.map_or("", |(best, _)| match &by_strategy["portfolio"] {
                ours if ours.found == ours.made && ours.mean().is_some_and(|mean| mean <= best) => "yes",
                _ => "no",
            });
            let figures = STRATEGIES.map(|strategy| by_strategy[strategy].show());
            rows.push([name.to_string()].into_iter().chain(figures).chain([best, met.into()]).collect());
            let side = |strategy: &str| {
                let searches = &by_strategy[strategy];
                [searches.show(), format!("{:.3}", searches.seconds / searches.made as f64)]
            };
            let sides = side("chess").into_iter().chain(side("race"));
            against.push([name.to_string()].into_iter().chain(sides).collect());
        }
        println!(
            "means over {seeds} seeds; – where nothing was found in {PATIENCE} times {MOST} runs or {TIME}\n"
        );
        print_columns(&rows);
        print_columns(&against);
        Ok(())
    }

    fn hard(&self, seconds: u64) -> Result<()> {
        eprintln!("{HARD}");
        let program = self.program(HARD)?;
        let time = format!("{seconds}s");
        let search = self.explore(&program, &["--runs", "100000000", "--time", &time])?;
        let verdict = if search["found"] == true { "found" } else { "not found" };
        println!(
            "{HARD}, portfolio: {verdict} in {} runs, {:.0} s ({}); published: nobody\n",
            search["runs"],
            search["elapsed_s"].as_f64().unwrap_or(0.0),
            search["policy"].as_str().unwrap_or("no policy"),
        );
        Ok(())
    }

    /// Correct programs stay clean, whatever the strategy.
    fn correct(&self, runs: u64) -> Result<()> {
        let mut names: Vec<String> = std::fs::read_dir(&self.programs)?
            .filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned))
            .collect();
        names.sort();
        names.dedup();
        let (mut programs, mut searches, mut failures, mut races) = (0, 0, Vec::new(), Vec::new());
        for name in names {
            let is = |key: &str, value: &str| self.expectation(&name, key).is_ok_and(|is| is == value);
            let plain =
                self.expectation(&name, "args")?.is_empty() && self.expectation(&name, "stdin")?.is_empty();
            if !is("correct", "true") || !is("outcome", "exit 0") || !plain {
                continue;
            }
            eprintln!("correct: {name}");
            let program = self.program(&name)?;
            programs += 1;
            for strategy in STRATEGIES {
                let search = self.explore(
                    &program,
                    &["--strategy", strategy, "--runs", &runs.to_string(), "--time", "60s"],
                )?;
                searches += search["runs"].as_u64().unwrap_or(0);
                if search["found"] == true {
                    failures.push(format!("{name} by {strategy}"));
                }
                if search["races"].as_array().is_some_and(|races| !races.is_empty()) {
                    races.push(format!("{name} by {strategy}"));
                }
            }
        }
        println!(
            "{programs} correct programs, {searches} runs by {} strategies: {} failures, {} races {failures:?} {races:?}\n",
            STRATEGIES.len(),
            failures.len(),
            races.len()
        );
        Ok(())
    }

    /// The controller's memory after few and after many runs.
    fn memory(&self) -> Result<()> {
        let program = self.program("mutex_counter")?;
        let peak = |runs: &str| -> Result<u64> {
            eprintln!("{runs} runs");
            let mut command = Command::new("sh");
            let explore = "\"$0\" explore --strategy random --runs \"$1\" --json -- \"$2\" > /dev/null & \
                pid=$!; peak=0; while [ -r /proc/$pid/status ]; do \
                now=$(sed -n 's/VmHWM:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$pid/status 2>/dev/null); \
                [ -n \"$now\" ] && peak=$now; sleep 0.05; done; echo $peak";
            command.args(["-c", explore]).arg(&self.unsnarl).arg(runs).arg(&program);
            let printed = output(command.current_dir(&self.directory), "explore")?.stdout;
            String::from_utf8_lossy(&printed).trim().parse().context("no peak")
        };
        let (few, many) = (peak("1000")?, peak("10000")?);
        println!("memory of the controller, KiB: {few} after 1,000 runs, {many} after 10,000\n");
        Ok(())
    }

    /// Runs a second, against others who run programs over and over.
    fn speed(&self, effort: Effort) -> Result<()> {
        let repetitions = effort.repetitions();
        let program = self.program("mutex_counter")?;
        let native = self.directory.join("mutex_counter-native");
        let source = self.programs.join("mutex_counter.c");
        output(
            Command::new("gcc").args(["-O1", "-g", "-pthread"]).arg(&source).arg("-o").arg(&native),
            "compiling mutex_counter.c",
        )?;
        let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let per_second = |jobs: usize| -> Result<f64> {
            let args = ["--strategy", "random", "--runs", "2000", "-j", &jobs.to_string()];
            let search = self.explore(&program, &args)?;
            let (runs, seconds) = (search["runs"].as_f64(), search["elapsed_s"].as_f64());
            Ok(runs.context("no runs")? / seconds.context("no elapsed_s")?)
        };
        let mut table = Table::new();
        let ratio = |ours: f64, theirs: f64| ours / theirs;
        eprintln!("against plain exec");
        let pair = Pair::measure(repetitions, || per_second(1), || repeated(&native, &[], 300, 1), ratio)?;
        table.row(
            "schedules/s, one job / plain exec in a loop",
            Unit::PerSecond,
            &pair,
            Target::AtLeast(1.0),
        );
        eprintln!("against stress");
        let pair =
            Pair::measure(repetitions, || per_second(jobs), || repeated(&native, &[], 600, jobs), ratio)?;
        table.row("schedules/s / stress on all processors", Unit::PerSecond, &pair, Target::AtLeast(1.0));
        for tool in ["drd", "helgrind"] {
            eprintln!("against {tool}");
            let valgrind = |runs| {
                let args = ["-q".to_owned(), format!("--tool={tool}"), native.display().to_string()];
                repeated(Path::new("valgrind"), &args, runs, jobs)
            };
            let pair = Pair::measure(repetitions.min(3), || per_second(jobs), || valgrind(4), ratio)?;
            let what = format!("schedules/s / runs/s under {tool}");
            table.row(&what, Unit::PerSecond, &pair, Target::None);
        }
        eprintln!("against Shuttle");
        let shuttle = self.shuttle()?;
        let ours = self.rust_counter()?;
        let rust_per_second = || -> Result<f64> {
            let search = self.explore(&ours, &["--strategy", "random", "--runs", "2000", "-j", "1"])?;
            let (runs, seconds) = (search["runs"].as_f64(), search["elapsed_s"].as_f64());
            Ok(runs.context("no runs")? / seconds.context("no elapsed_s")?)
        };
        let shuttle_per_second = || -> Result<f64> {
            let printed = output(&mut Command::new(&shuttle), "the Shuttle program")?.stdout;
            String::from_utf8_lossy(&printed).trim().parse().context("it prints no number")
        };
        let pair = Pair::measure(repetitions, rust_per_second, shuttle_per_second, ratio)?;
        table.row("schedules/s, one job / Shuttle", Unit::PerSecond, &pair, Target::AtLeast(0.5));
        println!("{repetitions} turns each, medians; {jobs} processors");
        print!("{table}");
        Ok(())
    }

    /// A program of its own, so that the workspace does not depend on Shuttle.
    fn shuttle(&self) -> Result<PathBuf> {
        let project = self.sources.join("shuttle");
        let target = self.directory.join("shuttle-target");
        let mut command = Command::new("cargo");
        command.args(["build", "--release", "--quiet", "--target-dir"]).arg(&target).current_dir(&project);
        output(&mut command, "building the Shuttle program")?;
        Ok(target.join("release/shuttle-counter"))
    }

    /// The same program with the standard library, instrumented.
    fn rust_counter(&self) -> Result<PathBuf> {
        let project = self.sources.join("shuttle");
        let target = self.directory.join("ours-target");
        let mut command = Command::new(&self.unsnarl);
        command.args(["cargo", "build", "--release", "--quiet", "--features", "std", "--target-dir"]);
        output(command.arg(&target).current_dir(&project), "building the same program for unsnarl")?;
        let built = ["release", "x86_64-unknown-linux-gnu/release"]
            .map(|place| target.join(place).join("shuttle-counter"));
        built.into_iter().find(|path| path.is_file()).context("cargo built no shuttle-counter")
    }
}

/// Runs a second of a program that is started again and again, by so many at a time.
fn repeated(program: &Path, args: &[String], runs: usize, jobs: usize) -> Result<f64> {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    for _ in 0..runs.div_ceil(jobs) {
                        let mut command = Command::new(program);
                        let status = command
                            .args(args)
                            .stdin(Stdio::null())
                            .stdout(Stdio::null())
                            .stderr(Stdio::null());
                        ensure!(status.status()?.success(), "{} failed", program.display());
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    Ok((runs.div_ceil(jobs) * jobs) as f64 / begin.elapsed().as_secs_f64())
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
