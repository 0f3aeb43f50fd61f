//! `unsnarl simplify`: reduces a failing trace to the fewest context switches.

mod more_traces;
pub(crate) mod program;
pub(crate) mod proof;
mod report;
mod snapshots;
mod static_only;
mod streaming;

use crate::{
    explore::{self, predicate::Checks},
    judge,
    options::duration,
    replay::{check_builds, replay},
    traces,
    verdict::{UsageError, Verdict},
};
use anyhow::{Result, bail};
use program::{ProgramPool, StopReason};
pub(crate) use report::SimplificationReport;
use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};
use unsnarl_exec::Settings;
use unsnarl_model::{Counterfactual, OutcomeKind, Trace};
use unsnarl_simplify::{
    combined,
    dynamic::{self, Improvement, SimplificationResult},
    test_preemptions,
};

/// Reduce a failing trace to the fewest context switches
#[derive(clap::Args)]
pub(crate) struct Simplify {
    /// The trace: a path, or `latest`
    #[arg(default_value = "latest")]
    trace: PathBuf,
    /// Only reorder by the trace's dependences, whatever its outcome; the program is run once, to confirm
    #[arg(long = "static", conflicts_with = "dynamic")]
    statically: bool,
    /// With --static: merge in an arbitrary order drawn with this seed, as in the SimTrace paper
    #[arg(long, value_name = "SEED", requires = "statically")]
    merges: Option<u64>,
    /// Only run changed schedules: the Tinertia paper's algorithm
    #[arg(long)]
    dynamic: bool,
    /// Search until no better schedule can exist, and write a proof beside the trace
    #[arg(long, conflicts_with_all = ["statically", "dynamic"])]
    prove: bool,
    /// Simplification effort
    ///
    /// 0: the most promising changes, in the fewest runs; 1: also Tinertia's algorithm, and a short search for
    /// something better; 2: a longer search through weaker schedules; 3 and more: also start from other failing
    /// traces, which are searched for
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["statically", "dynamic"])]
    effort: u32,
    /// Maximum number of runs of the program
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    executions: u64,
    /// Stop after this much time, with the best result so far
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Change only the last N segments by running, for long traces
    #[arg(long, value_name = "N", conflicts_with_all = ["dynamic", "statically"])]
    suffix: Option<usize>,
    /// Make every run from the start, without snapshots
    #[arg(long)]
    no_snapshots: bool,
    #[command(flatten)]
    checks: Checks,
    /// Number of parallel runs; the result does not depend on it
    #[arg(short, long, value_name = "N", default_value_t = explore::default_jobs())]
    jobs: usize,
    /// Where to save the simplified trace
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

impl Simplify {
    pub(crate) fn run(self) -> Result<Verdict> {
        let begin = Instant::now();
        let interrupt = explore::interrupt()?;
        match static_only::without_program(&self, begin, &interrupt)? {
            Some(static_only::StaticOutcome::Report(report)) => return report.print(&self),
            Some(static_only::StaticOutcome::Interrupted) => return Ok(Verdict::Interrupted),
            None => {}
        }
        let trace = traces::load(&self.trace)?;
        traces::check(self.output.as_deref())?;
        if !trace.outcome.is_failure() && !self.statically {
            bail!(UsageError(
                "nothing to simplify: the run of this trace did not fail; `unsnarl explore` finds one that does, and \
                 --static reorders any run"
                    .into()
            ));
        }
        if trace.outcome.kind == OutcomeKind::Check && !self.checks.are_given() {
            bail!(UsageError(
                "this failure was found by --check, --fail-if-stdout or --fail-if-stderr, which a trace does not keep: \
                 give the same option again"
                    .into()
            ));
        }
        check_builds(&trace)?;
        let run_options = program::RunOptions {
            jobs: if self.statically { 1 } else { self.jobs },
            until: self.time.map(|time| begin + time),
            executions: self.executions,
            snapshots: !self.no_snapshots,
            checks: self.checks.clone(),
            quiet: self.json,
        };
        let Self { statically, dynamic, prove, effort, suffix, executions, .. } = self;
        let batch = run_options.jobs;
        let options = combined::SimplifyOptions { batch, suffix, executions, effort, prove };
        let method = match (statically, dynamic) {
            (true, _) => Method::Static(self.merges),
            (_, true) => Method::Dynamic,
            _ => Method::Both(options),
        };
        let mut report = method.simplify(&trace, run_options, &interrupt)?;
        judge::add_stacks(&mut report.after);
        report.print(&self)
    }
}

/// The algorithm to use.
pub(crate) enum Method {
    /// By dependences only; a seed draws the order of merges.
    Static(Option<u64>),
    /// By running only.
    Dynamic,
    /// By dependences, then by running.
    Both(combined::SimplifyOptions),
}

impl Method {
    /// Simplifies a failing trace of a program.
    pub(crate) fn simplify(
        &self,
        trace: &Trace,
        run_options: program::RunOptions,
        interrupt: &Arc<AtomicBool>,
    ) -> Result<SimplificationReport> {
        let begin = Instant::now();
        let mut program = ProgramPool::of(trace, run_options, interrupt)?;
        let progress = program.progress.clone();
        let mut watch = |step: Improvement<'_>| {
            let stats = step.trace.stats();
            progress.set_message(format!(
                "{} context switches, {} preemptive",
                stats.context_switches, stats.preemptive
            ));
        };
        let mut simplified = match self {
            Self::Static(merges) => static_only::with_one_run(trace, *merges, &mut program),
            Self::Dynamic => dynamic::simplify(trace, &mut program, &mut watch),
            Self::Both(options) if options.effort >= 3 => {
                let traces = more_traces::failing(trace, options.effort - 1, &mut program);
                combined::simplify_best(&traces, &mut program, options, &mut watch)
                    .unwrap_or_else(|| combined::simplify(trace, &mut program, options, &mut watch))
            }
            Self::Both(options) => combined::simplify(trace, &mut program, options, &mut watch),
        };
        if let Some(StopReason::Failed(error)) = simplified.stopped {
            return Err(error);
        }
        find_counterfactuals(&mut simplified, &mut program);
        program.progress.finish_and_clear();
        let SimplificationResult {
            trace: after,
            stats,
            proof,
            switches_ruled_out,
            has_hidden_dependence,
            stopped,
        } = simplified;
        let again = replay(&after, &after.replay_plan(), Settings::default());
        Ok(SimplificationReport {
            before: trace.stats(),
            preserved: Some(again.is_ok_and(|again| again.reproduced)),
            figures: after.stats(),
            saved: None,
            after,
            stats,
            proof,
            switches_ruled_out,
            has_hidden_dependence,
            proving: matches!(self, Self::Both(options) if options.prove),
            stopped,
            resumed: program.snapshots.resumed,
            refused: program.snapshots.refused,
            elapsed: begin.elapsed(),
        })
    }
}

/// Determines what each remaining preemption is needed for.
fn find_counterfactuals(simplified: &mut SimplificationResult<StopReason>, program: &mut ProgramPool) {
    let goes_on = matches!(simplified.stopped, None | Some(StopReason::Spent));
    if !goes_on || simplified.trace.stats().preemptive > program::MAX_REASONS {
        return;
    }
    program.use_reserve();
    // The tests are optional: if they fail, the trace stays as it is.
    let Ok(tests) = test_preemptions(&simplified.trace, program) else { return };
    simplified.stats.executions += tests.len() as u64;
    let counterfactuals = tests.into_iter().filter(|test| !test.still_fails).map(|test| Counterfactual {
        event: test.event as u64,
        outcome_without: test.outcome_without.kind,
        message: test.outcome_without.message,
    });
    simplified.trace.counterfactuals = counterfactuals.collect();
}
