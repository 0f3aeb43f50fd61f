//! The result of a command, and its exit status.

use std::process::ExitCode;
use unsnarl_exec::Error;
use unsnarl_trace::{LoadError, SaveError};

/// Result of a command.
pub(crate) enum Verdict {
    /// Success, and no failure found.
    Fine,
    /// A failure was found or reproduced.
    Failure,
    /// A replay diverged or did not reproduce.
    NotReproduced,
    /// Nothing failed, and no run was decided.
    Undecided,
    /// A failure was found, but its trace could not be saved; the message was printed already.
    NotSaved,
    /// This machine or target lacks something; the message was printed already.
    Unusable,
    /// Interrupted by the user.
    Interrupted,
    /// Exit status of another program.
    Status(i32),
}

/// The options contradict each other.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// A failure was found, but its trace could not be saved.
#[derive(Debug)]
pub(crate) struct NotSaved(pub(crate) String);

impl std::fmt::Display for NotSaved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the trace of this failure is not saved: {}", self.0)
    }
}

impl std::error::Error for NotSaved {}

/// A file or this machine cannot be used.
#[derive(Debug)]
pub(crate) struct UnusableError(pub(crate) String);

impl std::fmt::Display for UnusableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnusableError {}

/// The trace is inconsistent.
#[derive(Debug)]
pub(crate) struct InconsistentTrace(pub(crate) String);

impl std::fmt::Display for InconsistentTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InconsistentTrace {}

/// Prints the error, if there is one, and chooses the exit status.
pub(crate) fn exit(result: anyhow::Result<Verdict>) -> ExitCode {
    if let Err(error) = &result {
        eprintln!("error: {error:#}");
    }
    let unusable = |error: &anyhow::Error| {
        matches!(error.downcast_ref::<Error>(), Some(e) if !matches!(e, Error::Internal(_)))
            || error.is::<LoadError>()
            || error.is::<SaveError>()
            || error.is::<unsnarl_trace::std_format::StdError>()
            || error.is::<InconsistentTrace>()
            || error.is::<UnusableError>()
            || error.is::<unsnarl_predict::TraceInconsistency>()
            || error.is::<unsnarl_pack::Error>()
            || error.is::<std::io::Error>()
    };
    match result {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::Failure) => ExitCode::from(100),
        Ok(Verdict::NotReproduced) => ExitCode::from(103),
        Ok(Verdict::Undecided) => ExitCode::from(104),
        Ok(Verdict::NotSaved) => ExitCode::from(105),
        Ok(Verdict::Unusable) => ExitCode::from(96),
        Ok(Verdict::Interrupted) => ExitCode::from(130),
        Ok(Verdict::Status(status)) => ExitCode::from(status as u8),
        Err(error) if error.is::<UsageError>() => ExitCode::from(2),
        Err(error) if error.is::<NotSaved>() => ExitCode::from(105),
        Err(error) if unusable(&error) => ExitCode::from(96),
        Err(_) => ExitCode::from(1),
    }
}
