//! The output of `unsnarl cargo test`, in the style of `cargo test`.

use super::{TestOutcome, TestReport, binaries::TestBinary, listing::Test};
use crate::{
    explore::{SearchOptions, SearchReport},
    output, traces,
    verdict::Verdict,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fmt::Write,
    path::{Path, PathBuf},
    time::Duration,
};
use unsnarl_report::{Case, CaseResult};

/// Returns the heading of a binary's tests.
pub(super) fn heading(binary: &TestBinary, tests: &[Test]) -> String {
    let count = tests.iter().filter(|test| test.name.is_some()).count();
    let noun = match (tests, count) {
        ([Test { name: None, .. }], _) => "one program".to_owned(),
        (_, 1) => "1 test".to_owned(),
        _ => format!("{count} tests"),
    };
    format!("\nexploring {noun} of {} ({})\n", binary.name, binary.source)
}

impl TestReport {
    /// Returns the line of a test.
    pub(super) fn line(&self, options: &SearchOptions) -> String {
        let outcome = match &self.outcome {
            TestOutcome::Explored { search, one_thread, .. } => explored(search, *one_thread, options),
            TestOutcome::Ignored => "ignored".to_owned(),
            TestOutcome::NotExplorable(error) => format!("not explored: {error:#}"),
        };
        format!("test {} ... {outcome}\n", self.name)
    }

    /// Describes each failure.
    fn failures(&self) -> String {
        let TestOutcome::Explored { search, .. } = &self.outcome else { return String::new() };
        let mut text = String::new();
        for failure in &search.failures.0 {
            let (outcome, commands) = (output::outcome(&failure.trace), failure.commands());
            let _ = write!(text, "\n---- {} ----\n{outcome}\n{commands}", self.name);
            if self.is_selectable {
                let _ = writeln!(text, "again    {}", rerun_command(std::env::args().skip(1), &self.name));
            }
        }
        text
    }

    fn json(&self) -> Value {
        let mut json = json!({ "name": self.name, "binary": self.binary, "result": self.status() });
        match &self.outcome {
            TestOutcome::Explored { search, one_thread } => {
                if let (Value::Object(json), Value::Object(search)) = (&mut json, search.json()) {
                    json.insert("one_thread".into(), (*one_thread).into());
                    json.extend(search);
                }
            }
            TestOutcome::Ignored => {}
            TestOutcome::NotExplorable(error) => json["why"] = format!("{error:#}").into(),
        }
        json
    }

    fn status(&self) -> &'static str {
        match &self.outcome {
            TestOutcome::Explored { search, .. } if !search.failures.0.is_empty() => "failed",
            TestOutcome::Explored { search, .. } if search.interrupted => "interrupted",
            TestOutcome::Explored { search, .. } if matches!(search.verdict(), Verdict::Undecided) => {
                "undecided"
            }
            TestOutcome::Explored { .. } => "ok",
            TestOutcome::Ignored => "ignored",
            TestOutcome::NotExplorable(_) => "not explored",
        }
    }
}

fn schedules(count: u64) -> String {
    format!("{count} schedule{}", if count == 1 { "" } else { "s" })
}

/// Describes the result of a search in a word and a bracket.
fn explored(search: &SearchReport, one_thread: bool, options: &SearchOptions) -> String {
    let runs = schedules(search.runs);
    match search.failures.0.len() {
        0 if search.interrupted => format!("interrupted ({runs})"),
        0 if matches!(search.verdict(), Verdict::Undecided) => {
            format!("undecided ({runs})\n{}", search.undecided_text().trim_end())
        }
        0 => {
            let thread_note = if one_thread { ", one thread" } else { "" };
            let warned = match (search.warned, search.misused) {
                (0, _) => String::new(),
                (warned, 0) => format!(", warnings in {warned}"),
                (warned, _) => format!(", warnings in {warned}: --fail-on misuse"),
            };
            let undecided = match search.undecided {
                0 => String::new(),
                undecided => format!(", {undecided} undecided"),
            };
            let unreproduced = match search.unreproduced.runs() {
                0 => String::new(),
                runs => format!(", {runs} failed but did not reproduce"),
            };
            let reached = if one_thread { String::new() } else { search.reached_text() };
            format!("ok ({runs}{thread_note}{reached}{warned}{undecided}{unreproduced})")
        }
        _ if !options.keep_going => match options.runs {
            Some(most) => format!("FAILED (run {} of {most})", search.runs),
            None => format!("FAILED (run {})", search.runs),
        },
        1 => format!("FAILED (1 failure in {runs})"),
        failures => format!("FAILED ({failures} failures in {runs})"),
    }
}

/// Returns the same command restricted to one test.
fn rerun_command(args: impl Iterator<Item = String>, name: &str) -> String {
    let mut args: Vec<String> = args.collect();
    let tests = args.iter().position(|arg| arg == "--");
    if tests.is_none() {
        args.push("--".into());
    }
    if !args[tests.unwrap_or(0)..].iter().any(|arg| arg == "--exact") {
        args.push("--exact".into());
    }
    if args.last().is_none_or(|last| last != name) {
        args.push(name.into());
    }
    let quoted = args.iter().map(|arg| output::quoted(arg.as_ref()));
    ["unsnarl".to_owned()].into_iter().chain(quoted).collect::<Vec<_>>().join(" ")
}

/// Results of all tests.
#[derive(Default)]
pub(super) struct SuiteReport {
    pub(super) tested: Vec<TestReport>,
    pub(super) elapsed: Duration,
    pub(super) doc_tests: bool,
    pub(super) interrupted: bool,
}

impl SuiteReport {
    fn count(&self, word: &str) -> usize {
        self.tested.iter().filter(|tested| tested.status() == word).count()
    }

    fn runs(&self) -> u64 {
        let runs = |tested: &TestReport| match &tested.outcome {
            TestOutcome::Explored { search, .. } => search.runs,
            _ => 0,
        };
        self.tested.iter().map(runs).sum()
    }

    /// Makes `latest` the first failure.
    pub(super) fn mark_first_failure_latest(&self) {
        let traces = |tested: &TestReport| -> Option<PathBuf> {
            let TestOutcome::Explored { search, .. } = &tested.outcome else { return None };
            search.failures.0.iter().find_map(|failure| failure.saved.path()).map(Path::to_path_buf)
        };
        if let Some(first) = self.tested.iter().find_map(traces) {
            traces::remember(&first);
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        let not_saved = |tested: &TestReport| match &tested.outcome {
            TestOutcome::Explored { search, .. } => matches!(search.verdict(), Verdict::NotSaved),
            _ => false,
        };
        if self.tested.iter().any(not_saved) {
            Verdict::NotSaved
        } else if self.count("failed") > 0 {
            Verdict::Failure
        } else if self.interrupted {
            Verdict::Interrupted
        } else if self.count("not explored") > 0 {
            Verdict::Unusable
        } else if self.count("undecided") > 0 && self.count("ok") == 0 {
            Verdict::Undecided
        } else {
            Verdict::Fine
        }
    }

    /// Returns the failures and the summary.
    pub(super) fn text(&self) -> String {
        let failures: String = self.tested.iter().map(TestReport::failures).collect();
        let result = match self.verdict() {
            Verdict::Failure if self.interrupted => "FAILED, interrupted",
            Verdict::Failure | Verdict::NotSaved => "FAILED",
            Verdict::Fine => "ok",
            Verdict::Interrupted => "interrupted",
            Verdict::Undecided => "undecided",
            _ => "not all explored",
        };
        let mut text = format!(
            "{failures}\nresult: {result}. {} passed; {} failed; {} ignored",
            self.count("ok"),
            self.count("failed"),
            self.count("ignored"),
        );
        for rare in ["undecided", "not explored", "interrupted"] {
            if self.count(rare) > 0 {
                let _ = write!(text, "; {} {rare}", self.count(rare));
            }
        }
        let seconds = self.elapsed.as_secs_f64();
        let _ = writeln!(text, "; {} in {seconds:.2} s", schedules(self.runs()));
        for examined in self.examined() {
            text += &examined;
        }
        if self.doc_tests {
            text += "doc-tests are not explored: `cargo test --doc` runs them\n";
        }
        text
    }

    /// Describes what was examined in the tests: the same for most of them.
    fn examined(&self) -> BTreeSet<String> {
        let examined = |tested: &TestReport| match &tested.outcome {
            TestOutcome::Explored { search, one_thread: false, .. } => Some(search.examined_text()),
            _ => None,
        };
        self.tested.iter().filter_map(examined).collect()
    }

    /// Returns the JUnit test cases.
    pub(super) fn cases(&self) -> Vec<Case> {
        let case = |tested: &TestReport| {
            let group = Path::new(&tested.binary).file_name().unwrap_or_default().to_string_lossy();
            let untried =
                |result| Case { group: group.to_string(), name: tested.name.clone(), seconds: 0.0, result };
            match &tested.outcome {
                TestOutcome::Explored { search, .. } => search.case(&group, &tested.name),
                TestOutcome::Ignored => untried(CaseResult::Skipped("ignored".into())),
                TestOutcome::NotExplorable(error) => untried(CaseResult::Error(format!("{error:#}"))),
            }
        };
        self.tested.iter().map(case).collect()
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "found": self.count("failed") > 0, "passed": self.count("ok"), "failed": self.count("failed"),
            "ignored": self.count("ignored"), "undecided": self.count("undecided"), "not_explored": self.count("not explored"),
            "interrupted": self.interrupted, "runs": self.runs(), "elapsed_s": self.elapsed.as_secs_f64(),
            "tests": self.tested.iter().map(TestReport::json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rerun_command_for_one_test_is_valid() {
        let command = |line: &str| rerun_command(line.split(' ').map(Into::into), "a::b");
        assert_eq!(command("cargo test"), "unsnarl cargo test -- --exact a::b");
        assert_eq!(
            command("cargo --runs 9 t -- --skip c"),
            "unsnarl cargo --runs 9 t -- --skip c --exact a::b"
        );
        assert_eq!(command("cargo t -- --exact a::b"), "unsnarl cargo t -- --exact a::b");
    }
}
