//! `cargo xtask bench simplify`: the results and cost of simplifying failing schedules, compared with the papers'
//! algorithms. The tables are printed in Markdown, for `docs/results/simplify.md`.

mod fixpoints;
mod found;
mod long;
mod loops;
mod programs;
mod realistic;

use super::BenchEffort;
use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The parts of the benchmark.
const PARTS: [&str; 9] =
    ["programs", "realistic", "found", "loops", "fixpoints", "start", "static", "minimum", "long"];

pub(crate) fn bench(effort: BenchEffort, only: Option<&str>) -> Result<()> {
    ensure!(only.is_none_or(|only| PARTS.contains(&only)), "no such part: there are {}", PARTS.join(", "));
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    eprintln!("building unsnarl");
    let directory = workspace
        .scratch(&format!("bench-simplify{}", only.map(|only| format!("-{only}")).unwrap_or_default()))?;
    // A copy, so that builds in the meantime do not affect the measurement.
    let unsnarl = directory.join("unsnarl");
    std::fs::copy(workspace.build_unsnarl()?, &unsnarl)?;
    let bench = Bench { unsnarl, root: workspace.root.clone(), directory };
    let (traces, longest) = match effort {
        BenchEffort::Quick => (3, 1_000_000),
        BenchEffort::Full => (30, 100_000_000),
    };
    for part in PARTS.into_iter().filter(|&part| only.is_none_or(|only| only == part)) {
        let begin = Instant::now();
        match part {
            "programs" => bench.programs(traces)?,
            "realistic" => bench.realistic(traces)?,
            "found" => bench.found(effort)?,
            "loops" => bench.loops(effort)?,
            "fixpoints" => bench.fixpoints(traces)?,
            "start" => bench.slow_start(effort.repetitions())?,
            "static" => bench.long_traces(longest)?,
            "minimum" => bench.exact_minimum(traces)?,
            _ => bench.long(effort)?,
        }
        eprintln!("{part}: {:.0} s", begin.elapsed().as_secs_f64());
    }
    Ok(())
}

struct Bench {
    unsnarl: PathBuf,
    root: PathBuf,
    directory: PathBuf,
}

/// A compiled program that is expected to fail.
struct FailingProgram {
    name: String,
    path: PathBuf,
    args: Vec<String>,
    /// The rule for time-outs under which it does.
    timeouts: String,
}

impl Bench {
    fn run(&self, args: &[&str], more: &[String]) -> Result<Value> {
        let mut command = Command::new(&self.unsnarl);
        command.args(args).args(more).current_dir(&self.directory).stdin(Stdio::null());
        let name = format!("{command:?}");
        // A panicking Rust program would read its debug information in each run, which takes a hundred times as long as
        // everything else.
        let printed = command.env("RUST_BACKTRACE", "0").output()?;
        ensure!(printed.status.success(), "{name}: {}", String::from_utf8_lossy(&printed.stderr));
        serde_json::from_slice(&printed.stdout).with_context(|| format!("{name} prints no JSON"))
    }

    /// Returns compiled programs that are expected to fail.
    fn failing_programs(&self) -> Result<Vec<FailingProgram>> {
        let rust = self.rust_programs("rust")?;
        let mut programs = Vec::new();
        for language in ["c", "cpp", "rust"] {
            let folder = self.root.join("programs").join(language);
            let mut sources: Vec<PathBuf> =
                folder.read_dir()?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
            sources.sort();
            for source in sources.iter().filter(|source| source.extension().is_some_and(|e| e != "expect")) {
                let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let expected = std::fs::read_to_string(source.with_extension("expect"))?;
                let key = |key: &str| {
                    let lines = expected.lines().filter_map(|line| line.split_once(" = "));
                    lines.clone().find(|(name, _)| *name == key).map_or("", |(_, value)| value)
                };
                let outcome = key("outcome");
                // A livelock or a timeout has no schedule that could be shorter.
                if key("correct") == "true" || matches!(outcome, "exit 0" | "livelock" | "timeout") {
                    continue;
                }
                let path = match language {
                    "rust" => rust.join(&name),
                    _ => self.compile(source, language, &key)?,
                };
                let args = key("args").split_whitespace().map(str::to_owned).collect();
                let timeouts = if key("timeouts").is_empty() { "fair" } else { key("timeouts") };
                programs.push(FailingProgram {
                    name: format!("{language}/{name}"),
                    path,
                    args,
                    timeouts: timeouts.to_owned(),
                });
            }
        }
        Ok(programs)
    }

    /// Returns the compiled programs of 100 to 300 lines, each of which has a bug.
    fn realistic_programs(&self) -> Result<Vec<FailingProgram>> {
        const FOLDER: &str = "realistic";
        let rust = self.rust_programs(FOLDER)?;
        let sources = self.root.join("programs").join(FOLDER).read_dir()?;
        let mut sources: Vec<PathBuf> = sources.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        sources.sort();
        let mut programs = Vec::new();
        for source in sources {
            let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let path = match source.extension().and_then(|extension| extension.to_str()) {
                Some("rs") => rust.join(&stem),
                Some(language @ ("c" | "cpp")) => self.compile(&source, language, &|_| "")?,
                _ => continue,
            };
            let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
            programs.push(FailingProgram { name, path, args: Vec::new(), timeouts: "fair".into() });
        }
        Ok(programs)
    }

    fn compile<'k>(&self, source: &Path, language: &str, key: &impl Fn(&str) -> &'k str) -> Result<PathBuf> {
        let name = source.file_stem().unwrap_or_default();
        let program = self.directory.join(format!("{language}-{}", name.to_string_lossy()));
        let (plain, ours) = if language == "c" { ("gcc", "cc") } else { ("g++", "c++") };
        let mut command = if key("instrument") == "no" {
            Command::new(plain)
        } else {
            let mut command = Command::new(&self.unsnarl);
            command.arg(ours);
            command
        };
        if language == "cpp" {
            command.arg("-std=c++17");
        }
        command.args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(source);
        // Flags name directories relative to the tests' own.
        command.args(key("flags").split_whitespace()).current_dir(self.root.join("crates/cli"));
        output(&mut command, &format!("compiling {}", source.display()))?;
        Ok(program)
    }

    /// Builds all Rust programs of a folder as binaries of one package; returns their directory.
    fn rust_programs(&self, folder: &str) -> Result<PathBuf> {
        let package = self.directory.join(format!("rust-{folder}"));
        std::fs::create_dir_all(&package)?;
        let mut manifest = format!(
            "[package]\nname = \"programs\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
             [dependencies]\nunsnarl-hints = {{ path = {:?} }}\n",
            self.root.join("crates/hints").display().to_string()
        );
        for entry in self.root.join("programs").join(folder).read_dir()? {
            let source = entry?.path();
            if source.extension().is_some_and(|e| e == "rs") {
                let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                manifest += &format!("[[bin]]\nname = {name:?}\npath = {:?}\n", source.display().to_string());
            }
        }
        std::fs::write(package.join("Cargo.toml"), manifest)?;
        let mut command = Command::new(&self.unsnarl);
        command.args(["cargo", "build", "--quiet", "--offline"]).current_dir(&package);
        output(command.env_remove("CARGO_TARGET_DIR"), "compiling the Rust programs")?;
        Ok(package.join("target/unsnarl/x86_64-unknown-linux-gnu/debug"))
    }

    /// Measures a program that works for a tenth of a second before its threads begin: our default, compared with the
    /// paper's algorithm with one process per run.
    fn slow_start(&self, traces: usize) -> Result<()> {
        let program = self.directory.join("slow_start");
        let mut command = Command::new(&self.unsnarl);
        command.args(["cc", "-O1", "-g", "-pthread", "-o"]).arg(&program);
        output(command.arg(self.root.join("xtask/bench/slow_start.c")), "compiling slow_start.c")?;
        let traces = traces.to_string();
        let args = ["bench-simplify", "--fresh", "--replays", "3", "--prove", "0", "--traces", &traces];
        let report = self.run(&args, &["--".into(), program.display().to_string()])?;
        let mut ratios: Vec<(f64, f64, f64, f64)> = Vec::new();
        for trace in report["traces"].as_array().into_iter().flatten() {
            let seconds = |value: &Value| value["elapsed_s"].as_f64().unwrap_or(f64::NAN);
            let (ours, theirs) = (seconds(trace), seconds(&trace["tinertia"]));
            ratios.push((theirs / ours, ours, theirs, seconds(&trace["quick"])));
        }
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, ours, theirs, quick) =
            ratios.get(ratios.len() / 2).copied().unwrap_or((f64::NAN, 0.0, 0.0, 0.0));
        println!("\n## A program with 0.1 s of start-up\n");
        println!(
            "Median of {} traces: ours {:.0} ms (with `--effort 0` {:.0} ms), the paper's algorithm with a process for each run {:.0} ms: {ratio:.1} \
             times (target ≥ 10).",
            ratios.len(),
            1e3 * ours,
            1e3 * quick,
            1e3 * theirs
        );
        Ok(())
    }

    /// Measures simplification by dependences only: time, memory and result.
    fn long_traces(&self, longest: u64) -> Result<()> {
        println!("\n## By dependences alone\n");
        println!("The paper's algorithms as printed get as far as they get in reasonable time.\n");
        println!("| trace | events | by | switches | left | time | per event | memory |");
        println!("|---|--:|---|--:|--:|--:|--:|--:|");
        let recorded = self.recorded()?;
        for (path, events) in &recorded {
            for by in ["ours", "arbitrary", "paper"] {
                if by != "paper" || *events <= 20_000 {
                    self.long_trace("recorded", by, &[path.display().to_string()])?;
                }
            }
        }
        for events in [10_000, 1_000_000, 10_000_000, 100_000_000] {
            for by in ["ours", "arbitrary", "paper"] {
                if events <= longest && (by != "paper" || events <= 10_000) {
                    self.long_trace("made up", by, &["--events".into(), events.to_string()])?;
                }
            }
        }
        println!(
            "\n`unsnarl simplify --static` itself, from a file to a file, reading and writing included; memory as seen from \
             outside:\n"
        );
        println!("| events | file | switches | left | time | per event | memory |");
        println!("|--:|--:|--:|--:|--:|--:|--:|");
        for events in [1_000_000, 10_000_000, 100_000_000].into_iter().filter(|&events| events <= longest) {
            self.simplify_a_file(events)?;
        }
        Ok(())
    }

    fn simplify_a_file(&self, events: u64) -> Result<()> {
        let (long, simplified) = (self.directory.join("long.snarl"), self.directory.join("simplified.snarl"));
        let mut command = Command::new(&self.unsnarl);
        command.args(["bench-static", "--events", &events.to_string(), "--save"]).arg(&long);
        output(&mut command, "making up a trace")?;
        let mut command = Command::new(&self.unsnarl);
        command.args(["simplify", "--static", "--json", "-o"]).arg(&simplified).arg(&long);
        command.current_dir(&self.directory).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.spawn()?;
        let status = format!("/proc/{}/status", child.id());
        // Peak memory only grows while the process lives.
        let watch = std::thread::spawn(move || {
            let mut most = 0;
            while let Ok(status) = std::fs::read_to_string(&status) {
                let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
                let Some(kib) = line.and_then(|line| line.split_whitespace().next()?.parse().ok()) else {
                    break;
                };
                most = kib;
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            most
        });
        let printed = child.wait_with_output()?;
        let memory: u64 = watch.join().unwrap_or(0);
        ensure!(printed.status.success(), "simplifying a long trace fails");
        let report: Value = serde_json::from_slice(&printed.stdout)?;
        let seconds = report["elapsed_s"].as_f64().unwrap_or(f64::NAN);
        println!(
            "| {events} | {} MiB | {} | {} | {seconds:.1} s | {:.0} ns | {} MiB |",
            long.metadata()?.len() >> 20,
            report["before"]["context_switches"],
            report["after"]["context_switches"],
            1e9 * seconds / events as f64,
            memory >> 10,
        );
        std::fs::remove_file(&long)?;
        std::fs::remove_file(&simplified)?;
        Ok(())
    }

    fn long_trace(&self, what: &str, by: &str, args: &[String]) -> Result<()> {
        let report = self.run(&["bench-static", "--by", by], args)?;
        let number = |name: &str| report[name].as_f64().unwrap_or(f64::NAN);
        let seconds = (number("elapsed_s") - number("reading_s")).max(0.0);
        println!(
            "| {what} | {} | {by} | {} | {} | {:.3} s | {:.0} ns | {:.0} MiB |",
            report["events"],
            report["before"],
            report["after"],
            seconds,
            1e9 * seconds / number("events"),
            number("memory_kib") / 1024.0
        );
        Ok(())
    }

    /// Returns long traces of a real program.
    fn recorded(&self) -> Result<Vec<(PathBuf, u64)>> {
        let program = self.directory.join("many_events");
        let mut command = Command::new(&self.unsnarl);
        command.args(["cc", "-O1", "-g", "-pthread", "-o"]).arg(&program);
        output(command.arg(self.root.join("xtask/bench/many_events.c")), "compiling many_events.c")?;
        let mut traces = Vec::new();
        for rounds in ["500", "50000"] {
            let trace = self.directory.join(format!("many-{rounds}.snarl"));
            let mut command = Command::new(&self.unsnarl);
            command.args([
                "record",
                "--seed",
                "1",
                "--points",
                "all",
                "--json",
                "--max-events",
                "20000000",
                "-o",
            ]);
            command.arg(&trace).arg("--").arg(&program).arg(rounds).current_dir(&self.directory);
            let report: Value =
                serde_json::from_slice(&output(&mut command, "recording many events")?.stdout)?;
            traces.push((trace, report["stats"]["events"].as_u64().unwrap_or(0)));
        }
        Ok(traces)
    }

    /// Compares results on small traces with the minimum number of switches that keeps all dependences.
    fn exact_minimum(&self, traces: u64) -> Result<()> {
        println!("\n## By dependences alone, against the exact minimum (branch and bound) on small traces\n");
        println!("| events | traces | exact | ours | arbitrary order | the paper's algorithms |");
        println!("|--:|--:|--:|--:|--:|--:|");
        for events in [50, 100, 200, 400] {
            let mut sums = [0.0; 4];
            let mut exact_known = 0;
            for seed in 1..=traces * 3 {
                let args =
                    ["--events".to_owned(), events.to_string(), "--seed".into(), (seed * 7919).to_string()];
                let report = |by: &str| self.run(&["bench-static", "--by", by], &args);
                let exact = report("exact")?;
                if exact["minimal"] != true {
                    continue;
                }
                exact_known += 1;
                let all = [exact, report("ours")?, report("arbitrary")?, report("paper")?];
                for (sum, report) in sums.iter_mut().zip(all) {
                    *sum += report["after"].as_f64().unwrap_or(f64::NAN);
                }
            }
            let mean = |at: usize| sums[at] / f64::from(exact_known);
            println!(
                "| {events} | {exact_known} | {:.2} | {:.2} | {:.2} | {:.2} |",
                mean(0),
                mean(1),
                mean(2),
                mean(3)
            );
        }
        Ok(())
    }
}
