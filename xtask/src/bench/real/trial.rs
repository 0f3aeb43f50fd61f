//! Tries one program: a recording, its replays and a search.

use super::catalog::{Compare, Expected, Subject};
use crate::workspace::output;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The number of random schedules that are recorded and replayed, after the one without preemptions.
pub(super) const SCHEDULES: u64 = 10;
/// The time of a search.
const SEARCH: &str = "20s";
/// The time after which a program or a command of unsnarl is ended.
const LIMIT: &str = "180";

pub(super) struct Bench {
    pub(super) unsnarl: PathBuf,
    pub(super) sources: PathBuf,
    /// Each program has a directory in it.
    pub(super) directory: PathBuf,
}

/// The counts of a program.
#[derive(Debug, Default)]
pub(super) struct Row {
    recorded: u64,
    right: u64,
    identical: u64,
    runs: u64,
    failures: u64,
    undecided: u64,
    /// `None` if the program is not instrumented.
    races: Option<usize>,
    notes: Vec<String>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { recorded, right, identical, runs, failures, undecided, races, notes } = self;
        let races = races.map_or_else(|| "–".to_owned(), |races| races.to_string());
        write!(
            f,
            "{right:>4}/{recorded} {identical:>6}/{recorded} {runs:>7} {failures:>8} {undecided:>9} {races:>5}"
        )?;
        notes.iter().try_for_each(|note| write!(f, "\n    {note}"))
    }
}

impl Bench {
    /// Builds the program if necessary and tries it.
    pub(super) fn run_trial(&self, subject: &Subject) -> Result<Row> {
        let place = self.directory.join(subject.name.replace([' ', ','], "-"));
        std::fs::create_dir_all(&place)?;
        eprintln!("preparing {}", subject.name);
        let mut prepare = Command::new("sh");
        prepare.args(["-ec", subject.prepare]).current_dir(&place).stdin(Stdio::null());
        prepare.env("UNSNARL", &self.unsnarl).env("SOURCES", &self.sources);
        output(&mut prepare, "preparing it")?;
        let run = |words: &[&str]| -> Result<Output> {
            let mut command = Command::new("timeout");
            command.args(["--kill-after=5", LIMIT]).args(words).current_dir(&place).stdin(Stdio::null());
            command.envs(subject.environment.iter().copied());
            command.output().context("timeout runs")
        };
        let unsnarl = self.unsnarl.to_str().context("a path in UTF-8")?;
        let controlled = |words: &[&str]| -> Result<Output> {
            let control = [&[unsnarl], words, &["--"], subject.command].concat();
            run(&control)
        };
        let mut row = Row::default();
        if let Expected::Refused(reason) = subject.expected {
            let refused = controlled(&["record", "-o", "trial.snarl"])?;
            let reported = String::from_utf8_lossy(&refused.stderr).into_owned();
            ensure!(
                refused.status.code() == Some(96) && reported.contains(reason),
                "{}: {reported}",
                refused.status
            );
            row.notes.push(format!("refused, as it should be: {}", reported.trim_end()));
            return Ok(row);
        }
        let native = run(subject.command)?;
        ensure!(native.status.success(), "natively: {}", describe(&native));
        for seed in 0..=SCHEDULES {
            let seed = seed.to_string();
            let how: &[&str] = if seed == "0" { &[] } else { &["--seed", &seed] };
            let recorded = controlled(&[&["record", "-o", "trial.snarl"], how].concat())?;
            row.recorded += 1;
            let same = is_same(subject.compare, &recorded.stdout, &native.stdout);
            if recorded.status.success() && same {
                row.right += 1;
            } else {
                let what =
                    if recorded.status.success() { "another output".into() } else { describe(&recorded) };
                row.notes.push(format!("seed {seed}: {what}"));
            }
            let replayed = run(&[unsnarl, "replay", "--json", "trial.snarl"])?;
            let report: Value = serde_json::from_slice(&replayed.stdout).unwrap_or_default();
            if report["identical"] == true {
                row.identical += 1;
            } else {
                let replayed = run(&[unsnarl, "replay", "trial.snarl"])?;
                row.notes.push(format!("seed {seed}, replayed: {}", describe(&replayed)));
            }
        }
        let searched = controlled(&["explore", "--time", SEARCH, "--json"])?;
        let report: Value = serde_json::from_slice(&searched.stdout)
            .with_context(|| format!("the search: {}", describe(&searched)))?;
        row.runs = report["runs"].as_u64().unwrap_or(0);
        row.undecided = report["undecided"].as_u64().unwrap_or(0);
        if report["found"] == true {
            row.failures += 1;
            row.notes.push(format!("found: {}", report["outcome"]));
        }
        if subject.instrumented {
            let searched = controlled(&["explore", "--time", SEARCH, "--fail-on", "race", "--json"])?;
            let report: Value = serde_json::from_slice(&searched.stdout).unwrap_or_default();
            row.races = Some(usize::from(report["found"] == true));
            if report["found"] == true {
                row.notes.push(format!("found: {}", report["outcome"]));
            }
        }
        Ok(row)
    }
}

/// Returns the last lines of what a command wrote.
fn describe(done: &Output) -> String {
    let text = [&done.stdout[..], &done.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    format!("{}: {}", done.status, lines[lines.len().saturating_sub(4)..].join(" | "))
}

fn is_same(compare: Compare, printed: &[u8], expected: &[u8]) -> bool {
    match compare {
        Compare::Exactly => printed == expected,
        Compare::TestHarness => harness_lines(printed) == harness_lines(expected),
    }
}

/// Returns what a test harness prints, regardless of order and times: it prints tests as they end, their duration, and,
/// by virtual time, which jumps, which of them take long.
fn harness_lines(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text).into_owned();
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !line.ends_with(" has been running for over 60 seconds"))
        .map(|line| line.split("; finished in").next().unwrap_or(line).to_owned())
        .collect();
    lines.sort();
    lines
}
