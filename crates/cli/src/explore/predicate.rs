//! The user's own failure criteria, in addition to crashes and the like.

use crate::options::FailOn;
use anyhow::{Context, Result};
use regex::bytes::{Regex, RegexBuilder};
use std::process::{Command, Stdio};
use unsnarl_exec::FileChanges;
use unsnarl_model::{Outcome, OutcomeKind, Output, Trace};

/// The user's checks, made after each run.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct Checks {
    /// Fail a run if its standard output matches; ^ and $ match at line ends
    #[arg(long, value_name = "REGEX", value_parser = by_lines)]
    fail_if_stdout: Option<Regex>,
    /// Fail a run if its standard error matches
    #[arg(long, value_name = "REGEX", value_parser = by_lines)]
    fail_if_stderr: Option<Regex>,
    /// Fail a run if this shell command, run after it, does not exit with 0
    #[arg(long, value_name = "CMD")]
    check: Option<String>,
    /// Look only for failures whose message or output matches; others are counted, but not saved
    ///
    /// It narrows what counts as the same failure. Standard output, standard error and the failure's message are
    /// searched; ^ and $ match at line ends
    #[arg(long, value_name = "REGEX", value_parser = by_lines)]
    same_if: Option<Regex>,
}

fn by_lines(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).multi_line(true).build()
}

impl Checks {
    /// Returns whether there are any.
    pub(crate) const fn are_given(&self) -> bool {
        self.fail_if_stdout.is_some() || self.fail_if_stderr.is_some() || self.check.is_some()
    }

    /// Marks a failure that the user does not look for.
    pub(crate) fn exclude(&self, trace: &mut Trace) {
        let Some(regex) = self.same_if.as_ref().filter(|_| trace.outcome.is_failure()) else { return };
        let texts = [trace.outcome.message.as_bytes(), &trace.output.stdout, &trace.output.stderr];
        trace.outcome.excluded = !texts.into_iter().any(|text| regex.is_match(text));
    }

    /// Returns whether they inspect something that parallel runs may share.
    pub(crate) const fn inspect_environment(&self) -> bool {
        self.check.is_some()
    }

    /// Returns what becomes of changed files: a check inspects them after the run.
    pub(crate) fn file_changes(&self, requested: FileChanges) -> FileChanges {
        let inspected = self.inspect_environment() && requested == FileChanges::Undo;
        if inspected { FileChanges::UndoLater } else { requested }
    }

    /// Returns the message of the first check that fails for a run with this output.
    pub(crate) fn failure_message(&self, written: &Output) -> Result<Option<String>> {
        let patterns = [
            (&self.fail_if_stdout, &written.stdout, "output"),
            (&self.fail_if_stderr, &written.stderr, "error"),
        ];
        for (pattern, output, stream) in patterns {
            if let Some(regex) = pattern.as_ref().filter(|regex| regex.is_match(output)) {
                return Ok(Some(format!("standard {stream} matches `{regex}`")));
            }
        }
        let Some(command) = &self.check else { return Ok(None) };
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = shell.status().context("cannot run sh for --check")?;
        let status_text =
            status.code().map_or_else(|| status.to_string(), |code| format!("exit status {code}"));
        Ok((!status.success()).then(|| format!("the check `{command}` failed ({status_text})")))
    }
}

/// Turns a run that ended normally into a failure if the user's criteria say so.
pub(crate) fn judge(trace: &mut Trace, fail_on: &[FailOn], failure_message: Option<String>) {
    crate::judge::judge(trace, fail_on);
    if let Some(message) = failure_message
        && trace.outcome.kind == OutcomeKind::Exit(0)
    {
        trace.outcome = Outcome { message, ..Outcome::exit(0) };
        trace.outcome.kind = OutcomeKind::Check;
    }
}
