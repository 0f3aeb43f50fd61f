//! `unsnarl export` and `unsnarl import`: traces of other tools.

use crate::{output, traces, verdict::Verdict};
use anyhow::{Context, Result};
use std::{fs::File, io::BufReader, path::PathBuf};
use unsnarl_trace::std_format;

/// Write a trace in RAPID's STD text format
#[derive(clap::Args)]
pub(crate) struct Export {
    /// The trace: a path, or `latest`
    #[arg(default_value = "latest")]
    trace: PathBuf,
    /// Where to write it (default: standard output)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Read a trace in RAPID's STD text format
#[derive(clap::Args)]
pub(crate) struct Import {
    /// The file, one event a line: T1|acq(l3)|17
    file: PathBuf,
    /// Where to save the trace
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Export {
    pub(crate) fn run(self) -> Result<Verdict> {
        let trace = traces::load(&self.trace)?;
        let exported = match &self.output {
            Some(path) => {
                let mut exported = None;
                unsnarl_trace::write_whole(path, |file| {
                    exported = Some(std_format::export(&trace, file)?);
                    Ok(())
                })
                .with_context(|| format!("cannot write {}", path.display()))?;
                exported.unwrap_or_default()
            }
            None => std_format::export(&trace, &mut std::io::stdout().lock())?,
        };
        let skipped: u64 = exported.skipped.values().sum();
        if skipped > 0 {
            eprintln!("{skipped} events have no counterpart in the STD format and were left out");
        }
        Ok(Verdict::Fine)
    }
}

impl Import {
    pub(crate) fn run(self) -> Result<Verdict> {
        let file = File::open(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        let imported =
            std_format::import(BufReader::new(file)).with_context(|| self.file.display().to_string())?;
        for note in imported.notes.iter().take(5) {
            eprintln!("{}: {note}", self.file.display());
        }
        if imported.notes.len() > 5 {
            eprintln!("… and {} more such lines", imported.notes.len() - 5);
        }
        let path = traces::save(&imported.trace, self.output.as_deref())?;
        eprintln!("trace    {} ({})", output::quoted(&path), output::figures(&imported.trace));
        Ok(Verdict::Fine)
    }
}
