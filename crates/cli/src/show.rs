//! `unsnarl show`: shows the interleaving.

use crate::{judge, output, traces, verdict::Verdict};
use anyhow::Result;
use std::path::PathBuf;
use unsnarl_report::{ProgramNames, RenderOptions, calls_text, interleaving};
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
    /// Show the calls that led to each event; the schedule is run once more for those that the trace does not have
    #[arg(long)]
    stacks: bool,
    /// Width of the output in columns
    #[arg(long, value_name = "N")]
    width: Option<usize>,
}

impl Show {
    pub(crate) fn run(self) -> Result<Verdict> {
        let mut trace = traces::load(&self.trace)?;
        if self.stacks && trace.events.iter().any(|event| event.context == 0) {
            judge::add_all_calls(&mut trace);
        }
        let mut symbols = Symbols::new();
        let look = output::render_options();
        let look = RenderOptions { full: self.all, width: self.width.unwrap_or(look.width), ..look };
        let mut names = ProgramNames::new(&trace.modules, &mut symbols);
        let mut text = interleaving(&trace, &mut names, &look);
        if self.stacks {
            text = text + "\n" + &calls_text(&trace, &mut names);
        }
        for file in symbols.stale() {
            eprintln!("unsnarl: {file} was rebuilt since the recording; its lines are not shown");
        }
        output::print(&text);
        Ok(Verdict::Fine)
    }
}
