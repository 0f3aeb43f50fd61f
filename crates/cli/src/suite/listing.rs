//! The tests of a binary, from its own list.
//!
//! Rust's own harness prints a line for each test and, unless asked to be terse, the number of tests. Other harnesses
//! print the same lines. A program that prints neither has `harness = false` and is one test.

use super::binaries::TestBinary;
use crate::verdict::UsageError;
use anyhow::{Context, Result, bail};
use std::{
    ffi::OsString,
    os::unix::{ffi::OsStringExt, process::CommandExt},
    process::{Command, Output, Stdio},
};
use unsnarl_model::Program;

/// A test.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// `None` for a program that is one test.
    pub(super) name: Option<String>,
    /// The test is skipped unless ignored tests are requested.
    pub(super) ignored: bool,
    /// The arguments that run only this test.
    args: Vec<Vec<u8>>,
}

impl Test {
    /// Returns the program that runs only this test.
    pub(super) fn program(&self, binary: &TestBinary) -> Program {
        let own = binary.program.args.iter().take(1);
        Program { args: own.chain(&self.args).cloned().collect(), ..binary.program.clone() }
    }

    /// Returns the number of harness threads besides the test's own.
    pub(super) fn harness_threads(&self) -> usize {
        usize::from(self.name.is_some())
    }
}

/// Returns the tests that the arguments select, in the binary's order.
pub(super) fn tests(binary: &TestBinary) -> Result<Vec<Test>> {
    let given = binary.program.args.get(1..).unwrap_or_default();
    if !is_test_list(&run_with_args(binary, &[b"--list".to_vec()])?) {
        return Ok(vec![Test { name: None, ignored: false, args: given.to_vec() }]);
    }
    let Arguments { selecting, passed_on } = Arguments::of(given);
    let list = |more: &[&[u8]]| -> Result<Vec<String>> {
        let terse = [&b"--list"[..], b"--format", b"terse"];
        let args = terse.iter().chain(more).map(|arg| arg.to_vec());
        let answer = run_with_args(binary, &selecting.iter().cloned().chain(args).collect::<Vec<_>>())?;
        if !answer.status.success() {
            let stderr = String::from_utf8_lossy(&answer.stderr);
            bail!(UsageError(format!("{} says: {}", binary.source, stderr.trim())));
        }
        Ok(names(&answer.stdout))
    };
    let requested = |name: &[u8]| selecting.iter().any(|arg| arg == name);
    let selects_all = requested(b"--ignored") || requested(b"--include-ignored");
    let ignored = if selects_all { Vec::new() } else { list(&[b"--ignored"])? };
    let test = |name: String| {
        let mut args = vec![b"--exact".to_vec(), name.clone().into_bytes(), b"--test-threads=1".to_vec()];
        args.extend(selects_all.then(|| b"--include-ignored".to_vec()));
        args.extend(passed_on.iter().cloned());
        Test { ignored: ignored.contains(&name), name: Some(name), args }
    };
    Ok(list(&[])?.into_iter().map(test).collect())
}

/// Starts the binary as cargo would, with other arguments.
fn run_with_args(binary: &TestBinary, args: &[Vec<u8>]) -> Result<Output> {
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let program = &binary.program;
    let mut command = Command::new(&program.path);
    command.args(args.iter().map(|arg| text(arg))).current_dir(&program.cwd).stdin(Stdio::null());
    if let Some(own) = program.args.first() {
        command.arg0(text(own));
    }
    command.env_clear().envs(program.env.iter().filter_map(|entry| {
        let at = entry.iter().position(|&byte| byte == b'=')?;
        Some((text(&entry[..at]), text(&entry[at + 1..])))
    }));
    command.output().with_context(|| format!("cannot run {}", program.path))
}

/// Returns whether this is the list of a test harness.
fn is_test_list(answer: &Output) -> bool {
    let text = String::from_utf8_lossy(&answer.stdout);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let counts = |line: &str| {
        let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        matches!(words[..], [tests, "test" | "tests", benchmarks, "benchmark" | "benchmarks"]
            if [tests, benchmarks].iter().all(|figure| figure.parse::<u64>().is_ok()))
    };
    let is_listed = |line: &str| line.ends_with(": test") || line.ends_with(": benchmark");
    answer.status.success()
        && lines.last().is_some_and(|last| counts(last) || is_listed(last))
        && lines.iter().rev().skip(1).all(|line| is_listed(line))
}

/// Parses the names in a terse list. Benchmarks are not tests.
fn names(list: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(list)
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(Into::into)
        .collect()
}

/// The tests' arguments: those that select tests, and those that are passed to each run. The others are about the
/// output and the number of parallel tests, which unsnarl decides itself.
#[derive(Debug, PartialEq, Eq, Default)]
struct Arguments {
    selecting: Vec<Vec<u8>>,
    passed_on: Vec<Vec<u8>>,
}

impl Arguments {
    fn of(given: &[Vec<u8>]) -> Self {
        let mut sorted = Self::default();
        let mut given = given.iter();
        while let Some(arg) = given.next() {
            match arg.as_slice() {
                b"--nocapture" | b"--no-capture" => sorted.passed_on.push(arg.clone()),
                b"--test-threads" | b"--format" | b"--color" | b"--logfile" | b"--shuffle-seed" => {
                    _ = given.next();
                }
                b"-q" | b"--quiet" | b"--show-output" | b"--shuffle" | b"--report-time"
                | b"--ensure-time" => {}
                joined
                    if [
                        &b"--test-threads="[..],
                        b"--format=",
                        b"--color=",
                        b"--logfile=",
                        b"--shuffle-seed=",
                    ]
                    .iter()
                    .any(|name| joined.starts_with(name)) => {}
                b"--skip" => sorted.selecting.extend([arg.clone()].into_iter().chain(given.next().cloned())),
                _ => sorted.selecting.push(arg.clone()),
            }
        }
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

    fn printed(stdout: &str) -> Output {
        Output { status: ExitStatus::from_raw(0), stdout: stdout.into(), stderr: Vec::new() }
    }

    #[test]
    fn test_lists_are_recognised() {
        assert!(is_test_list(&printed("a: test\nb::c: benchmark\n\n1 test, 1 benchmark\n")));
        assert!(is_test_list(&printed("0 tests, 0 benchmarks\n")), "a harness without tests");
        assert!(is_test_list(&printed("a: test\n")), "another harness");
        assert!(!is_test_list(&printed("")), "a program that takes no arguments");
        assert!(!is_test_list(&printed("this is a: test\nhello\n")));
        assert!(!is_test_list(&printed("hello\na: test\n")));
        let failed = Output { status: ExitStatus::from_raw(256), ..printed("0 tests, 0 benchmarks\n") };
        assert!(!is_test_list(&failed));
    }

    #[test]
    fn benchmarks_are_not_listed_as_tests() {
        assert_eq!(names(b"a: test\nb::c: test\nfast: benchmark\n"), ["a", "b::c"]);
    }

    #[test]
    fn output_arguments_do_not_select_tests() {
        let bytes = |args: &[&str]| args.iter().map(|arg| arg.as_bytes().to_vec()).collect::<Vec<_>>();
        let given = bytes(&[
            "queue",
            "--test-threads",
            "4",
            "--skip",
            "--slow",
            "--format=json",
            "--nocapture",
            "-q",
            "--exact",
        ]);
        let sorted = Arguments::of(&given);
        assert_eq!(sorted.selecting, bytes(&["queue", "--skip", "--slow", "--exact"]));
        assert_eq!(sorted.passed_on, bytes(&["--nocapture"]));
    }
}
