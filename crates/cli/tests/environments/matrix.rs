//! Runs the commands in an environment, judges their results and prints the table.

use crate::{
    common::{Place, UNSNARL},
    rows::{COMMANDS, DOCTOR, EXPLORE, Environment, HUNT, Needs, PREDICT, RECORD, nobody},
    sandbox::{Sandbox, is_root},
};
use regex::Regex;
use std::{
    fs,
    os::unix::{
        fs::chown,
        process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Time after which a command counts as hanging.
const HANGS: Duration = Duration::from_secs(600);

/// Result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The same result as without restrictions.
    Works,
    /// The same result, and one line that contains this text.
    Notes(String),
    /// Status 96, no result, and one message that contains this text.
    Refused(String),
    /// Anything else, which is a defect.
    Wrong(String),
}

impl Outcome {
    /// Returns whether this is the expected result.
    pub(crate) fn fits(&self, expected: &Self) -> bool {
        match (self, expected) {
            (Self::Works, Self::Works) => true,
            (Self::Notes(got), Self::Notes(part)) | (Self::Refused(got), Self::Refused(part)) => {
                got.contains(part.as_str())
            }
            _ => false,
        }
    }
}

/// Output and end of a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandOutput {
    pub(crate) status: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    pub(crate) hung: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Returns the arguments of a command; its input files were made without restrictions.
fn arguments(command: &str, environment: &Environment, shared: &Place) -> Vec<String> {
    let name = program(environment.asserts);
    let path = |file: String| shared.path(&file).to_string_lossy().into_owned();
    let (program, good, bad) =
        (path(name.into()), path(format!("{name}-good.snarl")), path(format!("{name}-bad.snarl")));
    match command {
        RECORD => vec![command.into(), "--".into(), program],
        // If an environment hides the failure, the search ends after these runs.
        EXPLORE | HUNT => {
            [command, "--runs", "1000", "--"].map(String::from).into_iter().chain([program]).collect()
        }
        PREDICT => vec![command.into(), "--confirm".into(), good],
        DOCTOR => vec![command.into()],
        _ => vec![command.into(), bad],
    }
}

pub(crate) fn program(asserts: bool) -> &'static str {
    if asserts { "asserts" } else { "exits" }
}

/// Runs a command in an environment. The output fits into the pipes and is read after the end, so that a hanging
/// command is noticed.
///
/// An error means that the environment cannot be set up here.
pub(crate) fn run(
    environment: &Environment,
    command: &str,
    shared: &Place,
    own: &Path,
) -> std::io::Result<CommandOutput> {
    let mut child = Command::new(UNSNARL);
    child
        .args(arguments(command, environment, shared))
        .current_dir(own.join("work"))
        .env("HOME", shared.path("home"))
        .env("TMPDIR", own.join("tmp"))
        .env_remove("XDG_CACHE_HOME")
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    environment.sandbox.apply(&mut child);
    let mut child = child.spawn()?;
    let until = Instant::now() + HANGS;
    let ended = loop {
        match child.try_wait().expect("a child") {
            Some(status) => break Some(status),
            None if Instant::now() > until => break None,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    if ended.is_none() {
        // SAFETY: the group belongs to a child that was not reaped.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    }
    let output = child.wait_with_output().expect("a child");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(CommandOutput {
        status: ended.and_then(|status| status.code()),
        signal: ended.and_then(|status| status.signal()),
        hung: ended.is_none(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    })
}

/// The message of `replay` for other addresses than in the recording, which was made without restrictions.
const REPRODUCED: &str = "reproduced: ";
/// A part of that message.
pub(crate) const OTHER_LAYOUT: &str = "but the program was loaded at other addresses";

/// The beginnings of our own lines on standard error.
const NOTE: &str = "unsnarl: ";
const ERROR: &str = "error: ";

/// The message of `simplify` if it uses no snapshots.
const NO_SNAPSHOTS: &str = "no snapshots: ";

/// Removes text that may differ from run to run.
fn comparable(text: &str) -> String {
    // Times, and the numbers of traces, which depend on existing files.
    let seconds = Regex::new(r"\d+\.\d+ s\b").expect("a pattern");
    let numbers = Regex::new(r"-\d+\.snarl").expect("a pattern");
    let varies = |line: &str| {
        ["took ", NOTE, ERROR, NO_SNAPSHOTS, REPRODUCED].iter().any(|start| line.starts_with(start))
    };
    let lines = text.lines().filter(|line| !varies(line));
    lines
        .map(|line| numbers.replace_all(&seconds.replace_all(line, "TIME"), "-N.snarl").into_owned() + "\n")
        .collect()
}

/// Classifies the result of a command by comparing it to a run without restrictions.
pub(crate) fn judge(
    command: &str,
    printed: &CommandOutput,
    plain: &CommandOutput,
    stdout_is_closed: bool,
) -> Outcome {
    let CommandOutput { status, stdout, stderr, .. } = printed;
    let mut own: Vec<&str> = stderr
        .lines()
        .filter_map(|line| line.strip_prefix(NOTE).or_else(|| line.strip_prefix(ERROR)))
        .collect();
    own.extend(stdout.lines().filter(|line| line.starts_with(NO_SNAPSHOTS)));
    own.extend(stderr.lines().filter(|line| line.starts_with(REPRODUCED) && line.contains(OTHER_LAYOUT)));
    let wrong = |why: &str| {
        let how = match (printed.hung, printed.signal) {
            (true, _) => "hung".to_owned(),
            (_, Some(signal)) => format!("signal {signal}"),
            _ => format!("status {status:?}"),
        };
        Outcome::Wrong(format!("{why}: {how}\n{stdout}{stderr}"))
    };
    if stderr.contains("panicked at") {
        return wrong("panicked");
    }
    if command == DOCTOR {
        let remarks: Vec<&str> = stdout.lines().filter(|line| !line.starts_with("ok ")).collect();
        return match (status, &remarks[..]) {
            (Some(0), []) => Outcome::Works,
            (Some(0), remarks) => Outcome::Notes(remarks.join("; ")),
            (Some(96), [_, ..]) => Outcome::Refused(remarks.join("; ")),
            (Some(96), []) if stdout_is_closed => Outcome::Refused(String::new()),
            _ => wrong("no verdict"),
        };
    }
    let same_result = *status == plain.status
        && (stdout_is_closed || comparable(stdout) == comparable(&plain.stdout))
        && comparable(stderr) == comparable(&plain.stderr);
    match (&own[..], status) {
        ([], _) if same_result => Outcome::Works,
        ([note], _) if same_result => Outcome::Notes((*note).to_owned()),
        ([reason], Some(96)) if stdout.is_empty() => Outcome::Refused((*reason).to_owned()),
        _ => wrong(if same_result { "more than one note" } else { "another result" }),
    }
}

/// Creates the directories of one environment.
pub(crate) fn lay_out(environment: &Environment, shared: &Place) -> std::path::PathBuf {
    let name: String =
        environment.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let own = shared.path(&format!("in-{name}"));
    for directory in ["", "work", "tmp"] {
        fs::create_dir_all(own.join(directory)).expect("a directory");
        if let Some(user) = environment.sandbox.user {
            chown(own.join(directory), Some(user), Some(user)).expect("root may do so");
        }
    }
    own
}

/// Returns why an environment cannot be set up here.
pub(crate) fn cannot_be_made(
    environment: &Environment,
    shared: &Place,
    may_mount: bool,
) -> Option<&'static str> {
    match environment.needs {
        Needs::Root if !is_root() => Some("needs root"),
        Needs::Root if !is_reachable(shared) => Some("another user cannot reach the directory of the tests"),
        Needs::Mounts if !may_mount => Some("needs a mount namespace"),
        _ => None,
    }
}

/// Returns whether another user can reach the program.
pub(crate) fn is_reachable(shared: &Place) -> bool {
    let mut command = Command::new(UNSNARL);
    command.arg("--version").current_dir(&shared.0).stdout(Stdio::null()).stderr(Stdio::null());
    Sandbox { user: Some(nobody(0)), ..Sandbox::default() }.apply(&mut command);
    command.status().is_ok_and(|status| status.success())
}

/// Returns the results as a Markdown table, followed by the texts of notes and messages.
pub(crate) fn table(
    environments: &[Environment],
    results: &[Option<Vec<Outcome>>],
    shared: &Place,
) -> String {
    let mut text =
        format!("| environment | {} |\n|{}\n", COMMANDS.join(" | "), " --- |".repeat(COMMANDS.len() + 1));
    let mut remarks: Vec<String> = Vec::new();
    for (environment, results) in environments.iter().zip(results) {
        let Some(results) = results else { continue };
        text += &format!("| {} |", environment.name);
        for result in results {
            let (word, remark) = match result {
                Outcome::Works => ("works", None),
                Outcome::Notes(remark) => ("works with a note", Some(remark)),
                Outcome::Refused(remark) => ("refused", Some(remark)),
                Outcome::Wrong(_) => ("WRONG", None),
            };
            let number = remark.map(|remark| {
                let remark = without_paths(remark, shared);
                let known = remarks.iter().position(|known| *known == remark);
                known.unwrap_or_else(|| {
                    remarks.push(remark);
                    remarks.len() - 1
                }) + 1
            });
            text += &match number {
                Some(number) => format!(" {word} ({number}) |"),
                None => format!(" {word} |"),
            };
        }
        text += "\n";
    }
    text += "\n";
    for (number, remark) in (1..).zip(&remarks) {
        text += &format!("{number}. {remark}\n");
    }
    text
}

/// Replaces the directories of the test by readable names.
fn without_paths(text: &str, shared: &Place) -> String {
    let root = regex::escape(&shared.0.to_string_lossy());
    let rules = [
        (format!("{root}/read-only"), "~"),
        (format!("{root}/lost.c/home"), "/nonexistent"),
        (format!("{root}/(in-[^/]*/)?tmp"), "$$TMPDIR"),
        (r"unsnarl-\d+/unsnarl/[0-9a-f]{16}".to_owned(), "unsnarl-UID/unsnarl/VERSION"),
        (r"unsnarl-\d+ ".to_owned(), "unsnarl-UID "),
        (r" +".to_owned(), " "),
    ];
    rules.iter().fold(text.to_owned(), |text, (from, to)| {
        Regex::new(from).expect("a pattern").replace_all(&text, *to).into_owned()
    })
}
