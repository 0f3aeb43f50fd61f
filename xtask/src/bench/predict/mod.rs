//! `cargo xtask bench predict`: findings from one run compared with ThreadSanitizer, and speed. The tables are printed
//! in Markdown; they are tables 1 and 2 of "interleaving inference", with the traces of another tool and the speed of
//! prediction.

mod programs;
mod sanitizer;
mod sanitizer_output;

use super::BenchEffort;
use super::distribution::{Archive, PACKAGES, Package};
use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, ensure};
use sanitizer::{Runs, Sanitizer, in_parallel};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Prints all tables, or one of them.
pub(crate) fn bench(effort: BenchEffort, only: Option<&str>) -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    tools::require(tools::DISTRIBUTION)?;
    eprintln!("building unsnarl");
    let directory = workspace
        .scratch(&format!("bench-predict{}", only.map(|only| format!("-{only}")).unwrap_or_default()))?;
    let bench = Bench {
        unsnarl: workspace.build_unsnarl()?,
        root: workspace.root.clone(),
        sanitizers: Sanitizer::all(&directory),
        directory,
        runs: match effort {
            BenchEffort::Quick => 10,
            BenchEffort::Full => 100,
        },
        longest: match effort {
            BenchEffort::Quick => 1_000_000,
            BenchEffort::Full => 100_000_000,
        },
    };
    let tables: [(&str, Table); 5] = [
        ("scenarios", Bench::scenarios),
        ("programs", Bench::programs),
        ("distribution", Bench::distribution),
        ("injected", Bench::injected),
        ("speed", Bench::speed),
    ];
    let selected = |name: &str| only.is_none_or(|only| only == name);
    ensure!(
        tables.iter().any(|(name, _)| selected(name)),
        "the tables are {}",
        tables.map(|(name, _)| name).join(", ")
    );
    tables.iter().filter(|(name, _)| selected(name)).try_for_each(|(_, table)| table(&bench))
}

/// A function that prints one of the tables.
type Table = fn(&Bench) -> Result<()>;

struct Bench {
    unsnarl: PathBuf,
    root: PathBuf,
    directory: PathBuf,
    sanitizers: Vec<Sanitizer>,
    /// Length of the longest synthetic trace.
    longest: u64,
    /// Maximum number of runs for ThreadSanitizer.
    runs: usize,
}

/// The compiler and the options of a program.
#[derive(Default)]
struct Call {
    /// Additional compiler arguments.
    flags: Vec<String>,
    args: Vec<String>,
}

/// A tool's reports for a program.
#[derive(Default)]
struct Reports {
    /// Variables with a race.
    races: BTreeSet<String>,
    deadlocks: usize,
    /// Sites in the code.
    places: BTreeSet<String>,
    /// Number of runs.
    runs: usize,
}

impl Reports {
    /// Returns how many of the real errors were reported, and how many others.
    fn against(&self, real: &[String]) -> (usize, usize) {
        let races: BTreeSet<&str> = real.iter().filter_map(|error| error.strip_prefix("race ")).collect();
        let deadlocks = real.iter().filter(|error| error.starts_with("deadlock")).count();
        let right = self.races.iter().filter(|race| races.contains(race.as_str())).count();
        let found = self.deadlocks.min(deadlocks);
        (right + found, self.races.len() - right + self.deadlocks - found)
    }
}

impl Bench {
    /// Table 1: scenarios with known errors.
    fn scenarios(&self) -> Result<()> {
        let files = sources(&self.root.join("programs/micro"), "c")?;
        eprintln!("{} scenarios", files.len());
        let rows = in_parallel(&files, |file| self.scenario(file))?;
        let tools = self
            .sanitizers
            .iter()
            .map(|by| format!(" {} once | false | {} runs | false |", by.compiler, self.runs));
        let tools: String = tools.collect();
        println!("\n## Scenarios, one recorded run each\n");
        println!("| scenario | lines | real errors | found | false |{tools}");
        println!("|---|--:|--:|--:|--:|{}", "--:|--:|--:|--:|".repeat(self.sanitizers.len()));
        let mut sum = Scenario { counts: vec![(0, 0); 1 + 2 * self.sanitizers.len()], ..Scenario::default() };
        for (file, row) in files.iter().zip(&rows) {
            sum.lines += row.lines;
            sum.real += row.real;
            for (sum, count) in sum.counts.iter_mut().zip(&row.counts) {
                sum.0 += count.0;
                sum.1 += count.1;
            }
            if row.real > 0 || row.counts.iter().any(|&count| count != (0, 0)) {
                println!("| {} {row}", name(file));
            }
        }
        let quiet =
            rows.iter().filter(|row| row.real == 0 && row.counts.iter().all(|&count| count == (0, 0)));
        println!("| {} that have no error, and nobody says so | | 0 | 0 | 0 |", quiet.count());
        println!("| **all {}** {sum}", files.len());
        Ok(())
    }

    const fn all_runs(&self) -> Runs<'static> {
        Runs { most: self.runs, is_enough: &|_| false }
    }

    fn scenario(&self, file: &Path) -> Result<Scenario> {
        let text = std::fs::read_to_string(file)?;
        let real = real(&text);
        // No more runs are needed once everything was found.
        let is_enough = |found: &Reports| !real.is_empty() && found.against(&real).0 == real.len();
        let runs = Runs { most: self.runs, is_enough: &is_enough };
        let mut counts = vec![self.ours(file, &Call::default())?.0.against(&real)];
        for by in &self.sanitizers {
            let places = (self.root.join("include"), self.directory.as_path());
            let (once, often) = by.of_source(file, (&places.0, places.1), &Call::default(), runs)?;
            counts.extend([once.against(&real), often.against(&real)]);
        }
        Ok(Scenario { lines: text.lines().count(), real: real.len(), counts })
    }

    fn print_heads(&self) {
        println!(
            "| program | lines | captured | reduced | sync | objects | candidates | confirmed | locations | not confirmed | \
             undecided | time | TSan's locations, {} runs |",
            self.runs
        );
        println!("|---|{}", "--:|".repeat(12));
    }

    /// Table 2, for programs of the distribution.
    fn distribution(&self) -> Result<()> {
        println!("\n## Programs of the distribution, one recorded run each\n");
        let directory = self.directory.join("distribution");
        std::fs::create_dir_all(&directory)?;
        let archive = match Archive::open(&directory) {
            Ok(archive) => archive,
            Err(reason) => {
                println!("Their sources cannot be had here: {reason:#}.");
                return Ok(());
            }
        };
        self.print_heads();
        let mut missing = String::new();
        for package in PACKAGES {
            eprintln!("{}", package.name);
            match self.package(&archive, package) {
                Ok(row) => println!("{row}"),
                Err(reason) => missing += &format!("\n{} cannot be had here: {reason:#}.\n", package.name),
            }
        }
        print!("{missing}");
        Ok(())
    }

    fn package(&self, archive: &Archive, package: &Package) -> Result<Row> {
        let unpacked = archive.unpack(package, "ours")?;
        let unsnarl = self.unsnarl.display();
        let program = unpacked.build(package, &format!("{unsnarl} cc"), &format!("{unsnarl} c++"), "")?;
        let scratch = self.directory.join(format!("run-{}", package.name));
        std::fs::create_dir_all(&scratch)?;
        package.write_input(&scratch)?;
        let (ours, report) = self.recorded(&program, &scratch, &package.args())?;
        let theirs = archive.unpack(package, "theirs")?;
        let flag = "-fsanitize=thread";
        let program = theirs.build(package, &format!("gcc {flag}"), &format!("g++ {flag}"), flag)?;
        let (_, theirs) = sanitizer::reports(&program, &scratch, &package.args(), self.all_runs())?;
        Ok(Row::of(package.name, unpacked.lines, &ours, &report, Some(&theirs)))
    }

    /// Traces of another tool, each with an injected race.
    fn injected(&self) -> Result<()> {
        println!("\n## Traces in the STD format, each with a race put into it on `BUGGY_ADDR`, as a whole\n");
        println!(
            "| trace | events | sync | objects | candidates | races | by the search | the injected one | time |"
        );
        println!("|---|{}", "--:|".repeat(8));
        for file in sources(&self.root.join("crates/predict/tests/data"), "std")? {
            let mut predict = Command::new(&self.unsnarl);
            predict.arg("predict").arg(&file).args(["--whole", "--json"]);
            let report: Value = serde_json::from_slice(&output(&mut predict, "unsnarl predict")?.stdout)?;
            let figures = &report["figures"];
            let races = report["races"].as_array().cloned().unwrap_or_default();
            let found = races.iter().any(|race| race["object"] == "BUGGY_ADDR");
            println!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {:.2} s |",
                name(&file),
                figures["events"],
                figures["synchronising"],
                figures["objects"],
                figures["candidates"],
                races.len(),
                figures["searched"],
                if found { "found" } else { "missed" },
                report["elapsed_s"].as_f64().unwrap_or(f64::NAN),
            );
        }
        Ok(())
    }

    /// Events per second, by windows and as a whole.
    fn speed(&self) -> Result<()> {
        println!("\n## Speed, on events that are made up\n");
        println!("| events | looked at | time | events a second | memory |");
        println!("|--:|---|--:|--:|--:|");
        for events in [10_000, 1_000_000, 10_000_000, 100_000_000] {
            for whole in [false, true] {
                if events > self.longest || (whole && events > 10_000_000) {
                    continue;
                }
                let mut command = Command::new(&self.unsnarl);
                command.args(["bench-predict", "--events", &events.to_string()]);
                command.args(whole.then_some("--whole"));
                let report = output(&mut command, "unsnarl bench-predict")?;
                let report: Value = serde_json::from_slice(&report.stdout)?;
                let number = |name: &str| report[name].as_f64().unwrap_or(f64::NAN);
                println!(
                    "| {events} | {} | {:.2} s | {:.0} | {:.0} MiB |",
                    if whole { "as a whole" } else { "by 10,000" },
                    number("elapsed_s"),
                    events as f64 / number("elapsed_s"),
                    number("memory_kib") / 1024.0
                );
            }
        }
        Ok(())
    }

    /// Records one run and returns the confirmed predictions from it.
    fn ours(&self, source: &Path, call: &Call) -> Result<(Reports, Value)> {
        let scratch = self.scratch(source)?;
        let binary = scratch.join(name(source));
        let mut compile = Command::new(&self.unsnarl);
        compile.arg(if is_cxx(source) { "c++" } else { "cc" });
        compile.args(["-O1", "-g", "-pthread", "-I"]).arg(self.root.join("include"));
        output(compile.arg("-o").arg(&binary).arg(source).args(&call.flags), &name(source))?;
        self.recorded(&binary, &scratch, &call.args)
    }

    /// Returns the directory in which a program is run.
    fn scratch(&self, source: &Path) -> Result<PathBuf> {
        let language = source.extension().unwrap_or_default().display();
        let scratch = self.directory.join(format!("run-{}-{language}", name(source)));
        std::fs::create_dir_all(&scratch)?;
        Ok(scratch)
    }

    fn recorded(&self, binary: &Path, directory: &Path, args: &[String]) -> Result<(Reports, Value)> {
        let trace = directory.join("run.snarl");
        let mut record = Command::new(&self.unsnarl);
        record.current_dir(directory).arg("record").arg("-o").arg(&trace).arg("--").arg(binary).args(args);
        ensure!(
            matches!(record.stdin(Stdio::null()).output()?.status.code(), Some(0 | 100)),
            "{} cannot be recorded",
            name(binary)
        );
        let mut predict = Command::new(&self.unsnarl);
        predict.current_dir(directory).arg("predict").arg(&trace).args(["--confirm", "--json"]);
        let printed = predict.stdin(Stdio::null()).output()?;
        ensure!(
            matches!(printed.status.code(), Some(0 | 100)),
            "{}: {}",
            name(binary),
            String::from_utf8_lossy(&printed.stderr)
        );
        let report: Value = serde_json::from_slice(&printed.stdout).context("predict prints no JSON")?;
        let mut reports = Reports::default();
        for race in report["races"].as_array().into_iter().flatten() {
            reports.races.insert(race["object"].as_str().unwrap_or_default().to_owned());
            let mut lines = [race["a"]["line"].as_u64(), race["b"]["line"].as_u64()];
            lines.sort_unstable();
            reports.places.insert(format!("{lines:?}"));
        }
        for deadlock in report["deadlocks"].as_array().into_iter().flatten() {
            reports.deadlocks += 1;
            reports.places.insert(format!("{:?}", deadlock["cycle"][0]["line"]));
        }
        Ok((reports, report))
    }
}

/// A scenario: for each tool the number of real errors that it reports, and of others.
#[derive(Default)]
struct Scenario {
    lines: usize,
    real: usize,
    counts: Vec<(usize, usize)>,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} | {} |", self.lines, self.real)?;
        self.counts.iter().try_for_each(|(right, wrong)| write!(f, " {right} | {wrong} |"))
    }
}

/// A row of table 2.
struct Row {
    candidates: u64,
    reported: usize,
    text: String,
}

impl Row {
    fn of(name: &str, lines: usize, ours: &Reports, report: &Value, theirs: Option<&Reports>) -> Self {
        let figures = &report["figures"];
        let count = |list: &Value| list.as_array().map_or(0, Vec::len);
        let reported = theirs.map_or(0, |theirs| theirs.places.len());
        let theirs = theirs.map_or_else(|| "–".into(), |_| reported.to_string());
        let text = format!(
            "| {name} | {lines} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.2} s | {theirs} |",
            figures["events"],
            figures["reduced"],
            figures["synchronising"],
            figures["objects"],
            figures["candidates"],
            count(&report["races"]) + count(&report["deadlocks"]),
            ours.places.len(),
            count(&report["unconfirmed"]["races"]) + count(&report["unconfirmed"]["deadlocks"]),
            count(&report["undecided"]),
            report["elapsed_s"].as_f64().unwrap_or(f64::NAN),
        );
        Self { candidates: figures["candidates"].as_u64().unwrap_or(0), reported, text }
    }

    /// Returns whether no tool reports anything.
    fn is_quiet(&self) -> bool {
        self.candidates == 0 && self.reported == 0
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the errors that a scenario declares.
fn real(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("* real: "));
    let errors = lines.map(|line| line.trim_end_matches("*/").trim().to_owned());
    errors.filter(|error| error != "none").collect()
}

fn is_cxx(source: &Path) -> bool {
    source.extension().is_some_and(|ending| ending == "cpp")
}

fn sources(directory: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == ending));
    files.sort();
    Ok(files)
}

fn name(source: &Path) -> String {
    source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
