//! `unsnarl report`: reports a failing run as a page, and in the formats of other tools.

use crate::{output, traces, verdict::Verdict};
use anyhow::{Context, Result};
use clap::ArgGroup;
use std::path::{Path, PathBuf};
use unsnarl_model::Trace;
use unsnarl_report::{
    Case, CaseResult, ProgramNames, RenderOptions, headline_text, html, interleaving, junit, perfetto, sarif,
    schedule_dot,
};
use unsnarl_symbols::Symbols;

/// Report a failing run as an HTML page, or as SARIF, JUnit, Perfetto or Graphviz
#[derive(clap::Args)]
#[command(group = ArgGroup::new("format").required(true).multiple(true).args(["html", "sarif", "junit", "perfetto", "dot"]))]
pub(crate) struct Report {
    /// The trace: a path, or `latest`
    #[arg(default_value = "latest")]
    trace: PathBuf,
    /// A self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// SARIF 2.1.0, for code scanning
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// JUnit XML, for CI
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// JSON for ui.perfetto.dev and chrome://tracing
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// The schedule as a Graphviz graph
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
    /// The trace before simplification, to show beside it on the page
    #[arg(long, value_name = "TRACE")]
    before: Option<PathBuf>,
}

impl Report {
    pub(crate) fn run(self) -> Result<Verdict> {
        let trace = traces::load(&self.trace)?;
        let before = self.before.as_deref().map(traces::load).transpose()?;
        if let Some(path) = &self.html {
            write(path, &trace, before.as_ref())?;
            print_written("page", path);
        }
        let mut symbols = Symbols::new();
        let mut names = ProgramNames::new(&trace.modules, &mut symbols);
        if let Some(path) = &self.sarif {
            save(path, &format!("{:#}\n", sarif(&trace, &mut names)))?;
            print_written("sarif", path);
        }
        if let Some(path) = &self.perfetto {
            save(path, &perfetto(&trace, &mut names).to_string())?;
            print_written("perfetto", path);
        }
        if let Some(path) = &self.dot {
            save(path, &schedule_dot(&trace, &mut names))?;
            print_written("dot", path);
        }
        if let Some(path) = &self.junit {
            let program = program(&trace);
            let case = Case {
                group: "unsnarl".into(),
                name: program.clone(),
                seconds: 0.0,
                result: if trace.outcome.is_failure() {
                    CaseResult::Failed(vec![failure(&trace)])
                } else {
                    CaseResult::Passed(String::new())
                },
            };
            save(path, &junit(&program, &[case]))?;
            print_written("junit", path);
        }
        Ok(Verdict::Fine)
    }
}

fn print_written(label: &str, path: &Path) {
    output::print(&format!("{label:8} {}\n", output::quoted(path)));
}

/// Writes a file that the user asked for.
pub(crate) fn save(path: &Path, text: &str) -> Result<()> {
    output::write(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the program and its arguments in one line.
pub(crate) fn program(trace: &Trace) -> String {
    trace.program.args.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join(" ")
}

/// Returns a failure for JUnit: its kind, headline and full text.
pub(crate) fn failure(trace: &Trace) -> (String, String, String) {
    let mut symbols = Symbols::new();
    let mut names = ProgramNames::new(&trace.modules, &mut symbols);
    let plain = RenderOptions { width: 120, colour: false, full: false };
    let headline = headline_text(trace, &mut names, &plain);
    let headline = headline.lines().next().unwrap_or_default().to_owned();
    (trace.outcome.kind.name().to_owned(), headline, interleaving(trace, &mut names, &plain))
}

/// Writes the page.
pub(crate) fn write(path: &Path, trace: &Trace, before: Option<&Trace>) -> Result<()> {
    let mut symbols = Symbols::new();
    let page = html(trace, before, &mut ProgramNames::new(&trace.modules, &mut symbols));
    for file in symbols.stale() {
        eprintln!("unsnarl: {file} was rebuilt since the recording; its lines are not shown");
    }
    save(path, &page)
}
