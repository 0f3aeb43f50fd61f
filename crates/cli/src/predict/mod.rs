//! `unsnarl predict`: predicts data races and deadlocks in other interleavings of a run.

mod confirm;
mod report;
mod source;

use crate::{explore, options::duration, output, replay::check_builds, verdict::Verdict};
use anyhow::{Context, Result};
use confirm::{CheckedPrediction, Confirmation};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use report::PredictionReport;
use source::Source;
use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use unsnarl_predict::{PredictOptions, Prediction, SyncState, WindowProgress};
use unsnarl_report::ProgramNames;
use unsnarl_symbols::Symbols;

/// Predict data races and deadlocks in other interleavings of a run
#[derive(clap::Args)]
pub(crate) struct Predict {
    /// The trace: a path, or `latest`; or another tool's text that ends in `.std`
    #[arg(default_value = "latest")]
    trace: PathBuf,
    /// Run the program by each witness, and save confirmed findings as failing traces
    ///
    /// This also tries orders in which threads read other values than in the recording
    #[arg(long)]
    confirm: bool,
    /// Analyse this many events at a time
    #[arg(long, value_name = "N", default_value = "10000")]
    window: NonZeroUsize,
    /// Analyse all events at once
    #[arg(long, conflicts_with = "window")]
    whole: bool,
    /// Give up on a pair of sites after this many steps of the search, and say so
    #[arg(long, value_name = "N", default_value_t = PredictOptions::default().budget)]
    budget: u64,
    /// With --confirm: stop after this much time, also in the middle of a run
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "confirm")]
    time: Option<Duration>,
    /// Write the model of the first window as CSPm, for a refinement checker
    #[arg(long, value_name = "FILE")]
    export_csp: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

impl Predict {
    pub(crate) fn run(self) -> Result<Verdict> {
        let begin = Instant::now();
        let mut source = Source::open(&self.trace, self.confirm || self.whole || self.export_csp.is_some())?;
        let runs = self.confirm && !source.header().program.path.is_empty();
        if runs {
            check_builds(source.header())?;
        } else if self.confirm {
            eprintln!(
                "unsnarl: another tool's trace has no program to run: witnesses are checked against the trace alone"
            );
        }
        if let Some(path) = &self.export_csp {
            self.export(&source, path)?;
        }
        let bar = progress(self.json);
        let mut windows = 0;
        let mut watch = |progress: WindowProgress| {
            windows += u64::from(progress.object == 1);
            bar.set_message(format!(
                "window {windows}, object {} of {}, {} races",
                progress.object, progress.objects, progress.races
            ));
            bar.tick();
        };
        let options = PredictOptions {
            window: (!self.whole).then_some(self.window.get()),
            budget: self.budget,
            free_reads: runs,
            // No program has memory in its first page.
            lowest: if source.header().program.path.is_empty() { 0 } else { 4096 },
        };
        let prediction = source.predict(options, &mut watch)?;
        let confirmation =
            if runs { self.confirmed(&source, &prediction, begin, &bar)? } else { Confirmation::none() };
        bar.finish_and_clear();
        let Confirmation {
            observed,
            observed_in,
            races,
            deadlocks,
            interrupted,
            time_is_up,
            runs: executions,
            undecided,
            not_saved,
        } = confirmation;
        let confirmed =
            !observed.is_empty() || races.iter().chain(&deadlocks).any(CheckedPrediction::is_confirmed);
        let elapsed = begin.elapsed();
        let report = PredictionReport {
            path: &self.trace,
            source: &source,
            prediction: &prediction,
            observed,
            observed_in,
            races,
            deadlocks,
            tried: runs,
            executions,
            undecided,
            time_is_up,
            elapsed,
        };
        report.print(self.json);
        Ok(match (interrupted, confirmed) {
            (true, _) => Verdict::Interrupted,
            (false, _) if not_saved => Verdict::NotSaved,
            (false, true) => Verdict::Failure,
            (false, false) if runs && undecided == executions && (time_is_up || undecided > 0) => {
                Verdict::Undecided
            }
            (false, false) => Verdict::Fine,
        })
    }

    fn confirmed(
        &self,
        source: &Source,
        prediction: &Prediction,
        begin: Instant,
        bar: &ProgressBar,
    ) -> Result<Confirmation> {
        let until = self.time.and_then(|time| begin.checked_add(time));
        confirm::confirm(source.trace(), prediction, (&explore::interrupt()?, until), bar)
    }

    fn export(&self, source: &Source, path: &Path) -> Result<()> {
        let events = &source.trace().events;
        let count = if self.whole { events.len() } else { self.window.get().min(events.len()) };
        let mut symbols = Symbols::new();
        let mut names = ProgramNames::new(&source.header().modules, &mut symbols);
        let mut name = |addr| source.object(addr, &mut names);
        let text = unsnarl_predict::export(&events[..count], &SyncState::default(), &mut name)
            .map_err(|inconsistency| source.locate_inconsistency(inconsistency))?;
        output::write(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        if count < events.len() {
            eprintln!(
                "unsnarl: {} has the first {count} of {} events (all of them with --whole)",
                path.display(),
                events.len()
            );
        }
        Ok(())
    }
}

fn progress(quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template("{spinner} {elapsed}, {msg}");
    let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    // One object may take a while.
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
