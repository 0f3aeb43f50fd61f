//! Runs per second, compared with other tools that run programs repeatedly.

use super::Bench;
use crate::bench::BenchEffort;
use crate::bench::measure::Measurement;
use crate::bench::table::{RatioTarget, Table, Unit};
use crate::workspace::output;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

impl Bench {
    /// Measures runs per second, compared with other tools that run programs repeatedly.
    pub(super) fn speed(&self, effort: BenchEffort) -> Result<()> {
        let repetitions = effort.repetitions();
        let program = self.program("mutex_counter")?;
        let native = self.directory.join("mutex_counter-native");
        let source = self.programs.join("mutex_counter.c");
        output(
            Command::new("gcc").args(["-O1", "-g", "-pthread"]).arg(&source).arg("-o").arg(&native),
            "compiling mutex_counter.c",
        )?;
        let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let with_jobs = |jobs: usize| -> Result<f64> {
            let args = ["--strategy", "random", "--runs", "10000", "-j", &jobs.to_string()];
            per_second(&self.explore(&program, &args)?)
        };
        let mut table = Table::new();
        let ratio = |ours: f64, theirs: f64| ours / theirs;
        eprintln!("against plain exec");
        let pair =
            Measurement::measure(repetitions, || with_jobs(1), || repeated(&native, &[], 300, 1), ratio)?;
        table.row(
            "schedules/s, one job / plain exec in a loop",
            Unit::PerSecond,
            &pair,
            RatioTarget::AtLeast(1.0),
        );
        eprintln!("against stress");
        let pair = Measurement::measure(
            repetitions,
            || with_jobs(jobs),
            || repeated(&native, &[], 600, jobs),
            ratio,
        )?;
        table.row(
            "schedules/s / stress on all processors",
            Unit::PerSecond,
            &pair,
            RatioTarget::AtLeast(1.0),
        );
        for tool in ["drd", "helgrind"] {
            eprintln!("against {tool}");
            let valgrind = |runs| {
                let args = ["-q".to_owned(), format!("--tool={tool}"), native.display().to_string()];
                repeated(Path::new("valgrind"), &args, runs, jobs)
            };
            let pair = Measurement::measure(repetitions.min(3), || with_jobs(jobs), || valgrind(4), ratio)?;
            let what = format!("schedules/s / runs/s under {tool}");
            table.row(&what, Unit::PerSecond, &pair, RatioTarget::None);
        }
        self.against_shuttle(repetitions, &mut table)?;
        println!("{repetitions} turns each, medians; {jobs} processors");
        print!("{table}");
        Ok(())
    }

    /// Compares the same programs with more and more work per run. Shuttle stays in one process and runs code written
    /// for it. Ours is a program with threads, memory and an end of its own, but a schedule point costs less.
    fn against_shuttle(&self, repetitions: usize, table: &mut Table) -> Result<()> {
        // The program, our number of runs, and Shuttle's.
        let programs: [(&[&str], &str, &str); 4] = [
            (&["counter", "2", "2"], "10000", "50000"),
            (&["counter", "4", "100"], "1000", "1000"),
            (&["counter", "4", "1000"], "100", "100"),
            (&["queue", "100"], "500", "500"),
        ];
        let (shuttle, ours) = (self.shuttle()?, self.for_unsnarl()?);
        for (program, our_runs, their_runs) in programs {
            let name = program.join(" ");
            eprintln!("against Shuttle: {name}");
            let points = self.points(&ours, program)?;
            let mut their_points = 0.0;
            let our_speed = |points: &str| -> Result<f64> {
                let args = ["--strategy", "random", "--runs", our_runs, "-j", "1", "--points", points];
                per_second(&self.explore_with(&ours, program, &args)?)
            };
            let mut their_speed = || -> Result<f64> {
                let mut command = Command::new(&shuttle);
                let printed = output(command.args(program).arg(their_runs), "the Shuttle program")?.stdout;
                let printed = String::from_utf8_lossy(&printed);
                let mut numbers = printed.split_whitespace().map(str::parse::<f64>);
                let mut number = || numbers.next().context("it prints too little")?.context("no number");
                let runs = number()?;
                their_points = number()? / runs;
                Ok(runs)
            };
            let ratio = |ours, theirs| ours / theirs;
            let pair = Measurement::measure(repetitions, || our_speed("races"), &mut their_speed, ratio)?;
            // Shuttle does not detect races.
            let alike = Measurement::measure(repetitions, || our_speed("sync"), &mut their_speed, ratio)?;
            let what = format!("schedules/s, one job / Shuttle: {name}");
            table.row(&what, Unit::PerSecond, &pair, RatioTarget::AtLeast(0.5));
            let what = format!("the same without looking for races: {name}");
            table.row(&what, Unit::PerSecond, &alike, RatioTarget::None);
            let of_points = pair.times(points, their_points);
            table.row(
                &format!("points/s, one job / Shuttle: {name}"),
                Unit::PerSecond,
                &of_points,
                RatioTarget::None,
            );
        }
        Ok(())
    }

    /// Returns the number of points of a run.
    fn points(&self, program: &Path, args: &[&str]) -> Result<f64> {
        let mut command = Command::new(&self.unsnarl);
        command.args(["record", "--json", "--points", "sync", "--seed", "1", "-o", "one.snarl", "--"]);
        let printed = output(command.arg(program).args(args).current_dir(&self.directory), "unsnarl record")?;
        let report: Value = serde_json::from_slice(&printed.stdout)?;
        report["stats"]["events"].as_f64().context("no events")
    }

    /// Builds Shuttle's program as a separate package, so that the workspace does not depend on Shuttle.
    fn shuttle(&self) -> Result<PathBuf> {
        let project = self.sources.join("shuttle");
        let target = self.directory.join("shuttle-target");
        let mut command = Command::new("cargo");
        command.args(["build", "--release", "--quiet", "--target-dir"]).arg(&target).current_dir(&project);
        output(&mut command, "building the Shuttle program")?;
        Ok(target.join("release/shuttle-counter"))
    }

    /// Builds the same program with the standard library, instrumented.
    fn for_unsnarl(&self) -> Result<PathBuf> {
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

/// Returns the runs per second of a search.
fn per_second(search: &Value) -> Result<f64> {
    let (runs, seconds) = (search["runs"].as_f64(), search["elapsed_s"].as_f64());
    Ok(runs.context("no runs")? / seconds.context("no elapsed_s")?)
}

/// Returns the runs per second of a program that is started repeatedly, `jobs` at a time.
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
