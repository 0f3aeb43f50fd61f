//! What a command came to, and the exit status it means.

use std::process::ExitCode;
use unsnarl_exec::Error;
use unsnarl_trace::{LoadError, SaveError};

/// What a command came to.
pub(crate) enum Verdict {
    /// Done, and nothing wrong found.
    Fine,
    /// A failure was found or reproduced.
    Failure,
    /// A replay diverged or did not reproduce.
    NotReproduced,
    /// What this machine or target lacks was said already.
    Unusable,
    /// Stopped by the user.
    Interrupted,
    /// Another program's own status.
    Status(i32),
}

/// The user's wishes do not fit together.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// A trace that says what cannot be.
#[derive(Debug)]
pub(crate) struct InconsistentTrace(pub(crate) String);

impl std::fmt::Display for InconsistentTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InconsistentTrace {}

/// Says what went wrong, if anything, and chooses the exit status.
pub(crate) fn exit(result: anyhow::Result<Verdict>) -> ExitCode {
    if let Err(error) = &result {
        eprintln!("unsnarl: {error:#}");
    }
    let unusable = |error: &anyhow::Error| {
        matches!(error.downcast_ref::<Error>(), Some(e) if !matches!(e, Error::Internal(_)))
            || error.is::<LoadError>()
            || error.is::<SaveError>()
            || error.is::<unsnarl_trace::std_format::StdError>()
            || error.is::<InconsistentTrace>()
            || error.is::<unsnarl_predict::Flaw>()
            || error.is::<unsnarl_pack::Error>()
            || error.is::<std::io::Error>()
    };
    match result {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::Failure) => ExitCode::from(100),
        Ok(Verdict::NotReproduced) => ExitCode::from(103),
        Ok(Verdict::Unusable) => ExitCode::from(96),
        Ok(Verdict::Interrupted) => ExitCode::from(130),
        Ok(Verdict::Status(status)) => ExitCode::from(status as u8),
        Err(error) if error.is::<UsageError>() => ExitCode::from(2),
        Err(error) if unusable(&error) => ExitCode::from(96),
        Err(_) => ExitCode::from(1),
    }
}
