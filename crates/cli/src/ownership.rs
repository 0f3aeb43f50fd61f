//! Whose code is whose: which directories are the user's own, and which functions of libraries are operations.

use crate::verdict::UsageError;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use unsnarl_symbols::{CodeOwnership, set_ownership};

/// Options before the command.
#[derive(clap::Args)]
pub(crate) struct Ownership {
    /// Code in this directory is yours: events are shown there. By default that is all code but that of the language, of
    /// the system, of cargo's registry and of directories like `vendor`
    #[arg(long, value_name = "DIR")]
    user_code: Vec<PathBuf>,
    /// Code in this directory is a library's: events are shown at your call of it
    #[arg(long, value_name = "DIR")]
    library_code: Vec<PathBuf>,
    /// More functions of libraries and what they do: `my::Lock::acquire  lock {}`, one a line
    #[arg(long, value_name = "FILE")]
    operations: Option<PathBuf>,
}

impl Ownership {
    pub(crate) fn apply(self) -> Result<()> {
        let paths = |paths: &[PathBuf]| paths.iter().map(|path| absolute(path)).collect();
        set_ownership(CodeOwnership { user: paths(&self.user_code), libraries: paths(&self.library_code) });
        let Some(file) = self.operations else { return Ok(()) };
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        unsnarl_report::add_operations(&text)
            .map_err(|error| UsageError(format!("the table of operations {}: {error}", file.display())).into())
    }
}

/// Returns a path as debug information has it.
fn absolute(path: &Path) -> String {
    let absolute = path.canonicalize().or_else(|_| std::path::absolute(path));
    absolute.unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}
