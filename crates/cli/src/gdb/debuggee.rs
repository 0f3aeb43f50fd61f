//! Hidden commands for the gdb script.

use crate::{traces, verdict::Verdict};
use anyhow::Result;
use std::{ffi::OsString, path::PathBuf};
use unsnarl_report::{ProgramNames, debugger_json};
use unsnarl_symbols::Symbols;

/// Run by gdb in place of the program: becomes the program, scheduled by a trace
#[derive(clap::Args)]
pub(crate) struct Debuggee {
    trace: PathBuf,
    /// The program as gdb would start it; ignored, because the trace names it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

impl Debuggee {
    pub(crate) fn run(self) -> Result<Verdict> {
        let recorded = traces::load(&self.trace)?;
        Err(unsnarl_exec::become_debuggee(&recorded.program, &recorded.replay_plan()).into())
    }
}

/// Print what the gdb commands need to know of a trace
#[derive(clap::Args)]
pub(crate) struct DebuggerInfo {
    trace: PathBuf,
}

impl DebuggerInfo {
    pub(crate) fn run(self) -> Result<Verdict> {
        let trace = traces::load(&self.trace)?;
        let mut symbols = Symbols::new();
        let mut names = ProgramNames::new(&trace.modules, &mut symbols);
        crate::output::print(&debugger_json(&trace, &mut names).to_string());
        Ok(Verdict::Fine)
    }
}
