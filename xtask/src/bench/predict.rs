//! `cargo xtask bench predict`: what is found from one run, against ThreadSanitizer, and how fast. The tables are printed in
//! Markdown; they are tables 1 and 2 of "interleaving inference", with the speed of prediction.

use super::Effort;
use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn bench(effort: Effort) -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    eprintln!("building unsnarl");
    let bench = Bench {
        unsnarl: workspace.build_unsnarl()?,
        root: workspace.root.clone(),
        directory: workspace.scratch("bench-predict")?,
        runs: match effort {
            Effort::Quick => 10,
            Effort::Full => 100,
        },
    };
    bench.scenarios()?;
    bench.programs()?;
    bench.speed(match effort {
        Effort::Quick => 1_000_000,
        Effort::Full => 100_000_000,
    })
}

struct Bench {
    unsnarl: PathBuf,
    root: PathBuf,
    directory: PathBuf,
    /// How often ThreadSanitizer may try.
    runs: usize,
}

/// What a tool reports of a program.
#[derive(Default)]
struct Reports {
    /// Variables with a race.
    races: BTreeSet<String>,
    deadlocks: usize,
    /// Places in the code.
    places: BTreeSet<String>,
}

impl Reports {
    /// How many of the real errors are among them, and how many others.
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
        let (mut lines, mut real_errors) = (0, 0);
        let mut sums = [(0, 0); 3];
        let mut missed = Vec::new();
        for file in &files {
            let text = std::fs::read_to_string(file)?;
            let real = real(&text);
            lines += text.lines().count();
            real_errors += real.len();
            let ours = self.ours(file, &[])?.0;
            let (once, often) = self.tsan(file, &[])?;
            for (sum, reports) in sums.iter_mut().zip([&ours, &once, &often]) {
                let (right, wrong) = reports.against(&real);
                sum.0 += right;
                sum.1 += wrong;
            }
            if often.against(&real).0 < real.len() {
                missed.push(name(file));
            }
        }
        println!("\n## Scenarios, one recorded run each\n");
        println!(
            "| scenarios | lines | real errors | found | false | TSan, one run | false | TSan, {} runs | false |",
            self.runs
        );
        println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        let [ours, once, often] = sums;
        println!(
            "| {} | {lines} | {real_errors} | {} | {} | {} | {} | {} | {} |",
            files.len(),
            ours.0,
            ours.1,
            once.0,
            once.1,
            often.0,
            often.1
        );
        println!("\nMissed by TSan in all its runs: {}.", missed.join(", "));
        Ok(())
    }

    /// Table 2: the programs in `programs/`.
    fn programs(&self) -> Result<()> {
        println!("\n## Programs, one recorded run each\n");
        println!(
            "Those with a candidate, or of which TSan says something. Locations are pairs of lines for us, lines for TSan.\n"
        );
        println!(
            "| program | captured | reduced | sync | candidates | confirmed | locations | not confirmed | TSan's \
             locations, {} runs |",
            self.runs
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
        let mut quiet = 0;
        for file in sources(&self.root.join("programs/c"), "c")? {
            let expected = std::fs::read_to_string(file.with_extension("expect")).unwrap_or_default();
            let value = |key: &str| {
                let line =
                    expected.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
                line.map(|value| value.trim().to_owned()).unwrap_or_default()
            };
            // What does not end, or is not to be run without control, has nothing to compare with.
            let endless = matches!(value("outcome").as_str(), "livelock" | "timeout");
            if endless || value("native") == "no" || expected.contains("misuse") {
                continue;
            }
            let args: Vec<String> = value("args").split_whitespace().map(str::to_owned).collect();
            let (ours, told) = self.ours(&file, &args)?;
            let (_, theirs) = self.tsan(&file, &args)?;
            let figures = &told["figures"];
            let count = |list: &Value| list.as_array().map_or(0, Vec::len);
            if figures["candidates"] == 0 && theirs.places.is_empty() {
                quiet += 1;
                continue;
            }
            println!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                name(&file),
                figures["events"],
                figures["reduced"],
                figures["synchronising"],
                figures["candidates"],
                count(&told["races"]) + count(&told["deadlocks"]),
                ours.places.len(),
                count(&told["unconfirmed"]["races"]) + count(&told["unconfirmed"]["deadlocks"]),
                theirs.places.len(),
            );
        }
        println!("\n{quiet} more programs have no candidate, and TSan has nothing to say of them either.");
        Ok(())
    }

    /// Events a second, by windows and as a whole.
    fn speed(&self, longest: u64) -> Result<()> {
        println!("\n## Speed, on events that are made up\n");
        println!("| events | looked at | time | events a second | memory |");
        println!("|--:|---|--:|--:|--:|");
        for events in [10_000, 1_000_000, 10_000_000, 100_000_000] {
            for whole in [false, true] {
                if events > longest || (whole && events > 10_000_000) {
                    continue;
                }
                let mut command = Command::new(&self.unsnarl);
                command.args(["bench-predict", "--events", &events.to_string()]);
                command.args(whole.then_some("--whole"));
                let told = output(&mut command, "unsnarl bench-predict")?;
                let told: Value = serde_json::from_slice(&told.stdout)?;
                let number = |name: &str| told[name].as_f64().unwrap_or(f64::NAN);
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

    /// One recorded run, and what is confirmed from it.
    fn ours(&self, source: &Path, args: &[String]) -> Result<(Reports, Value)> {
        let binary = self.directory.join(name(source));
        let mut compile = Command::new(&self.unsnarl);
        compile.args(["cc", "-O1", "-g", "-pthread", "-I"]).arg(self.root.join("include"));
        output(compile.arg("-o").arg(&binary).arg(source), &name(source))?;
        let trace = self.directory.join("run.snarl");
        let mut record = Command::new(&self.unsnarl);
        record
            .current_dir(&self.directory)
            .arg("record")
            .arg("-o")
            .arg(&trace)
            .arg("--")
            .arg(&binary)
            .args(args);
        ensure!(
            matches!(record.stdin(Stdio::null()).output()?.status.code(), Some(0 | 100)),
            "{} cannot be recorded",
            name(source)
        );
        let mut predict = Command::new(&self.unsnarl);
        predict.current_dir(&self.directory).arg("predict").arg(&trace).args(["--confirm", "--json"]);
        let printed = predict.stdin(Stdio::null()).output()?;
        ensure!(
            matches!(printed.status.code(), Some(0 | 100)),
            "{}: {}",
            name(source),
            String::from_utf8_lossy(&printed.stderr)
        );
        let told: Value = serde_json::from_slice(&printed.stdout).context("predict prints no JSON")?;
        let mut reports = Reports::default();
        for race in told["races"].as_array().into_iter().flatten() {
            reports.races.insert(race["object"].as_str().unwrap_or_default().to_owned());
            let mut lines = [race["a"]["line"].as_u64(), race["b"]["line"].as_u64()];
            lines.sort_unstable();
            reports.places.insert(format!("{lines:?}"));
        }
        for deadlock in told["deadlocks"].as_array().into_iter().flatten() {
            reports.deadlocks += 1;
            reports.places.insert(format!("{:?}", deadlock["cycle"][0]["line"]));
        }
        Ok((reports, told))
    }

    /// What ThreadSanitizer reports in its first run, and in all its runs.
    fn tsan(&self, source: &Path, args: &[String]) -> Result<(Reports, Reports)> {
        let binary = self.directory.join(name(source) + "-tsan");
        let mut compile = Command::new("gcc");
        compile.args(["-fsanitize=thread", "-O1", "-g", "-pthread", "-I"]).arg(self.root.join("include"));
        output(compile.arg("-o").arg(&binary).arg(source), &name(source))?;
        let mut all = Reports::default();
        let mut first = Reports::default();
        for run in 0..self.runs {
            // Its shadow memory does not like randomised addresses; and some programs wait for ever.
            let mut command = Command::new("timeout");
            command.args(["5", "setarch", "-R"]).arg(&binary).args(args).current_dir(&self.directory);
            let said = command.stdin(Stdio::null()).output()?;
            let text = String::from_utf8_lossy(&said.stderr).into_owned();
            read_reports(&text, &mut all);
            if run == 0 {
                read_reports(&text, &mut first);
            }
            if said.status.code() == Some(124) {
                // Once is enough of that.
                break;
            }
        }
        Ok((first, all))
    }
}

/// Adds what ThreadSanitizer says.
fn read_reports(text: &str, reports: &mut Reports) {
    for line in text.lines() {
        if let Some(rest) = line.trim().strip_prefix("Location is global '") {
            reports.races.extend(rest.split('\'').next().map(str::to_owned));
        }
        if let Some(rest) = line.strip_prefix("SUMMARY: ThreadSanitizer: ") {
            reports.places.insert(rest.to_owned());
            if rest.starts_with("lock-order-inversion") {
                reports.deadlocks = 1;
            }
        }
    }
}

/// What a scenario says is wrong with it.
fn real(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("* real: "));
    let errors = lines.map(|line| line.trim_end_matches("*/").trim().to_owned());
    errors.filter(|error| error != "none").collect()
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
