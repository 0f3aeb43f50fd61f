//! `unsnarl export` and `unsnarl import`: converts traces to and from other tools' formats.

use crate::{output, traces, verdict::Verdict};
use anyhow::{Context, Result};
use std::{fs::File, io::BufReader, path::PathBuf};
use unsnarl_report::stats_text;
use unsnarl_trace::std_format::{self, Note};

/// Longer text, in bytes, is not held in memory: about a million events.
const LONG: u64 = 16 << 20;

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
                unsnarl_trace::write_atomically(path, |file| {
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
        let unreadable = || format!("cannot read {}", self.file.display());
        let wrong = || self.file.display().to_string();
        let file = File::open(&self.file).with_context(unreadable)?;
        let there = file.metadata().with_context(unreadable)?;
        if there.is_file() && there.len() > LONG {
            return self.long();
        }
        let imported = std_format::import(BufReader::new(file)).with_context(wrong)?;
        self.print_notes(&imported.notes, imported.notes.len() as u64);
        let path = traces::save(&imported.trace, self.output.as_deref())?;
        eprintln!("trace    {} ({})", output::quoted(&path), output::figures(&imported.trace));
        Ok(Verdict::Fine)
    }

    /// Imports text without holding its events in memory.
    fn long(&self) -> Result<Verdict> {
        let path = traces::place(self.output.as_deref(), "trace")?;
        let unwritable = || format!("cannot write {}", path.display());
        let scratch = unsnarl_trace::scratch(&path).with_context(unwritable)?;
        let open = || File::open(&self.file).map(BufReader::new);
        let imported =
            std_format::import_streaming(open, scratch).with_context(|| self.file.display().to_string())?;
        self.print_notes(&imported.notes, imported.odd);
        let mut stats = None;
        unsnarl_trace::write_atomically(&path, |out| {
            stats = Some(imported.write(out)?);
            Ok(())
        })
        .with_context(unwritable)?;
        traces::remember(&path);
        eprintln!("trace    {} ({})", output::quoted(&path), stats_text(&stats.unwrap_or_default()));
        Ok(Verdict::Fine)
    }

    /// Prints notes about irregular input.
    fn print_notes(&self, notes: &[Note], odd: u64) {
        const MAX: usize = 5;
        for note in notes.iter().take(MAX) {
            eprintln!("{}: {note}", self.file.display());
        }
        if odd > MAX as u64 {
            eprintln!("… and {} more such lines", odd - MAX as u64);
        }
    }
}
