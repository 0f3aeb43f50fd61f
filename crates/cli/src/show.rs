//! `unsnarl show`: shows the interleaving.

use crate::{output, traces, verdict::Verdict};
use anyhow::Result;
use std::path::PathBuf;
use unsnarl_report::{ProgramNames, RenderOptions, interleaving};
use unsnarl_symbols::Symbols;

/// Show the interleaving, one column per thread
#[derive(clap::Args)]
pub(crate) struct Show {
    /// The trace: a path, or `latest`
    #[arg(default_value = "latest")]
    trace: PathBuf,
    /// Show every event, including those that no other thread can observe
    #[arg(long)]
    all: bool,
    /// Width of the output in columns
    #[arg(long, value_name = "N")]
    width: Option<usize>,
}

impl Show {
    pub(crate) fn run(self) -> Result<Verdict> {
        let trace = traces::load(&self.trace)?;
        let mut symbols = Symbols::new();
        let look = output::render_options();
        let look = RenderOptions { full: self.all, width: self.width.unwrap_or(look.width), ..look };
        let text = interleaving(&trace, &mut ProgramNames::new(&trace.modules, &mut symbols), &look);
        for file in symbols.stale() {
            eprintln!("unsnarl: {file} was rebuilt since the recording; its lines are not shown");
        }
        output::print(&text);
        Ok(Verdict::Fine)
    }
}
