//! `unsnarl report`: a page about a failing run.

use crate::{output, traces, verdict::Verdict};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use unsnarl_model::Trace;
use unsnarl_report::{ProgramNames, html};
use unsnarl_symbols::Symbols;

/// A page about a failing run, to look at and to share
#[derive(clap::Args)]
pub(crate) struct Report {
    /// The trace: a path, or `latest`
    #[arg(default_value = "latest")]
    trace: PathBuf,
    /// Where to write the page: one file that needs no other, and no network
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
    /// The trace as it was before it was simplified, to show beside it
    #[arg(long, value_name = "TRACE")]
    before: Option<PathBuf>,
}

impl Report {
    pub(crate) fn run(self) -> Result<Verdict> {
        let trace = traces::load(&self.trace)?;
        let before = self.before.as_deref().map(traces::load).transpose()?;
        write(&self.html, &trace, before.as_ref())?;
        output::print(&format!("page     {}\n", output::quoted(&self.html)));
        Ok(Verdict::Fine)
    }
}

/// Writes the page.
pub(crate) fn write(path: &Path, trace: &Trace, before: Option<&Trace>) -> Result<()> {
    let mut symbols = Symbols::new();
    let page = html(trace, before, &mut ProgramNames::new(&trace.modules, &mut symbols));
    for file in symbols.stale() {
        eprintln!("unsnarl: {file} was rebuilt since the recording; its lines are not shown");
    }
    output::write(path, page.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}
