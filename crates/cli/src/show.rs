//! `unsnarl show`: shows the interleaving.

use crate::{output, traces, verdict::Verdict};
use anyhow::Result;
use serde_json::json;
use std::path::PathBuf;
use unsnarl_report::{ProgramNames, RenderOptions, cause_json, interleaving, steps_json};
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
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(crate) fn run(self) -> Result<Verdict> {
        let trace = traces::load(&self.trace)?;
        let mut symbols = Symbols::new();
        if self.json {
            let (outcome, stats, warnings) = output::trace_json(&trace);
            let mut names = ProgramNames::new(&trace.modules, &mut symbols);
            let (cause, steps) = (cause_json(&trace, &mut names), steps_json(&trace, &mut names));
            output::json(&json!({
                "outcome": outcome, "stats": stats, "warnings": warnings, "cause": cause, "steps": steps,
            }));
            return Ok(Verdict::Fine);
        }
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
