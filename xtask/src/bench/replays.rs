//! `cargo xtask bench replays`: saved traces of all kinds, over all programs of `programs/`, replay as the failure that
//! they were saved for.

use super::corpus::{self, CorpusProgram};
use crate::tools;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Strategies of the searches.
const STRATEGIES: [&str; 7] = ["random", "pct", "pos", "race", "novelty", "chess", "portfolio"];

/// Traces of one kind.
#[derive(Default)]
struct Counts {
    traces: usize,
    failing: usize,
    reproduced: usize,
}

pub(crate) fn bench(wanted: usize) -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    eprintln!("building unsnarl and the programs");
    let unsnarl = workspace.build_unsnarl()?;
    let directory = workspace.scratch("bench-replays")?;
    let programs = corpus::build(&workspace, &unsnarl, &directory)?;
    let bench = Bench { unsnarl, directory };
    let mut table: BTreeMap<String, Counts> = BTreeMap::new();
    let mut wrong = 0;
    let mut seed = 0;
    let total = |table: &BTreeMap<String, Counts>| table.values().map(|counts| counts.traces).sum::<usize>();
    while total(&table) < wanted && seed < 10 {
        seed += 1;
        for program in &programs {
            for (kind, trace) in bench.traces(program, seed)? {
                let counts = table.entry(kind.clone()).or_default();
                counts.traces += 1;
                match bench.replay(&trace) {
                    Ok(fails) => {
                        counts.failing += usize::from(fails);
                        counts.reproduced += 1;
                    }
                    Err(reason) => {
                        wrong += 1;
                        println!("{}, {kind}, seed {seed}: {}: {reason:#}", program.name, trace.display());
                    }
                }
            }
        }
    }
    println!("{:<24} {:>7} {:>8} {:>11}", "traces by", "traces", "failing", "reproduced");
    for (kind, Counts { traces, failing, reproduced }) in &table {
        println!("{kind:<24} {traces:>7} {failing:>8} {reproduced:>11}");
    }
    let all = total(&table);
    if wrong > 0 {
        bail!("{wrong} of {all} traces do not replay");
    }
    println!("all {all} traces of {} programs replay as what they were saved for", programs.len());
    Ok(())
}

struct Bench {
    unsnarl: PathBuf,
    directory: PathBuf,
}

impl Bench {
    /// Makes traces of a program by each command, with the name of what made them.
    fn traces(&self, program: &CorpusProgram, seed: u64) -> Result<Vec<(String, PathBuf)>> {
        let folder = self.directory.join("traces").join(&program.name).join(seed.to_string());
        fs::create_dir_all(&folder)?;
        let number = seed.to_string();
        let mut made = Vec::new();
        // A run that only a limit ends takes long.
        let is_slow = program.outcome == "undecided" || program.outcome == "livelock";
        let strategies = if is_slow { &STRATEGIES[..1] } else { &STRATEGIES[..] };
        let runs = if is_slow { "3" } else { "150" };
        for strategy in strategies {
            let search = [
                "explore",
                "--json",
                "--strategy",
                strategy,
                "--seed",
                &number,
                "--runs",
                runs,
                "--time",
                "10s",
            ];
            let found = self.run(program, &folder, &search)?;
            made.extend(path_in(&found["trace"], &folder).map(|path| (format!("explore {strategy}"), path)));
        }
        let search = ["explore", "--json", "--fail-on", "race,misuse", "--keep-going", "--seed", &number];
        let races =
            self.run(program, &folder, &[&search[..], &["--runs", runs, "--time", "10s"]].concat())?;
        let failures = races["failures"].as_array().cloned().unwrap_or_default();
        let races = failures.iter().filter_map(|failure| path_in(&failure["trace"], &folder));
        made.extend(races.take(4).map(|path| ("explore --fail-on".to_owned(), path)));
        let records: [&[&str]; 3] = [
            &["record", "--json", "-o", "good.snarl"],
            &["record", "--json", "-o", "random.snarl", "--seed", &number],
            &["record", "--json", "-o", "pos.snarl", "--seed", &number, "--strategy", "pos"],
        ];
        for record in records {
            let recorded = self.run(program, &folder, record)?;
            made.extend(path_in(&recorded["trace"], &folder).map(|path| ("record".to_owned(), path)));
        }
        let good = folder.join("good.snarl");
        if good.exists() && !is_slow {
            let predict = ["predict", "--json", "--confirm", "--time", "20s", "good.snarl"];
            let predicted = self.json(self.unsnarl(&folder).args(predict))?;
            for kind in ["races", "deadlocks"] {
                let found = predicted[kind].as_array().cloned().unwrap_or_default();
                let confirmed = found.iter().filter(|one| one["confirmed"] == true);
                let paths: std::collections::BTreeSet<PathBuf> =
                    confirmed.filter_map(|one| path_in(&one["trace"], &folder)).collect();
                made.extend(paths.into_iter().map(|path| (format!("predict {kind}"), path)));
            }
        }
        if !is_slow {
            let hunt = ["hunt", "--json", "--seed", &number, "--runs", runs, "--simplify-time", "2s"];
            let hunted = self.run(program, &folder, &[&hunt[..], &["--slice-time", "1s"]].concat())?;
            made.extend(path_in(&hunted["trace"], &folder).map(|path| ("hunt".to_owned(), path)));
            made.extend(
                path_in(&hunted["original"], &folder).map(|path| ("hunt, as found".to_owned(), path)),
            );
        }
        // One trace of each kind is simplified.
        let mut simplified: Vec<(String, PathBuf)> = Vec::new();
        for (kind, path) in &made {
            let name = format!("simplify, {}", kind.split(' ').next().unwrap_or(kind));
            if simplified.iter().any(|(known, _)| *known == name) || is_slow {
                continue;
            }
            let mut simplify = self.unsnarl(&folder);
            simplify.args(["simplify", "--json", "--time", "3s"]).arg(path);
            // A good trace has nothing to simplify.
            let done = simplify.output()?;
            if done.status.code() == Some(2) {
                continue;
            }
            let report: Value = serde_json::from_slice(&done.stdout)
                .with_context(|| format!("simplify {}", path.display()))?;
            simplified.extend(path_in(&report["trace"], &folder).map(|path| (name, path)));
        }
        made.extend(simplified);
        Ok(made)
    }

    /// Replays a trace; returns whether it fails.
    fn replay(&self, trace: &Path) -> Result<bool> {
        let mut replay = self.unsnarl(&self.directory);
        let replay = replay.args(["replay", "--json"]).arg(trace).output()?;
        let report: Value = serde_json::from_slice(&replay.stdout)
            .with_context(|| String::from_utf8_lossy(&replay.stderr).into_owned())?;
        if report["reproduced"] != true {
            bail!("not reproduced: {} {}", report["outcome"]["kind"], report["outcome"]["message"]);
        }
        Ok(replay.status.code() == Some(100))
    }

    fn run(&self, program: &CorpusProgram, folder: &Path, args: &[&str]) -> Result<Value> {
        self.json(&mut program.command(&self.unsnarl, folder, args))
    }

    /// Runs a command; without JSON it refused, for example because there is nothing to predict.
    fn json(&self, command: &mut Command) -> Result<Value> {
        Ok(serde_json::from_slice(&command.output()?.stdout).unwrap_or_default())
    }

    fn unsnarl(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.unsnarl);
        command.current_dir(folder).stdin(Stdio::null());
        command
    }
}

/// Returns a path of the output that is relative to the folder of the command.
fn path_in(value: &Value, folder: &Path) -> Option<PathBuf> {
    value.as_str().map(|path| folder.join(path))
}
