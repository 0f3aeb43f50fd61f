//! A pool of executors of the program, on which the algorithms run their plans.

use super::snapshots::Snapshots;
use crate::{
    explore::predicate::{self, Checks},
    options::FailOn,
    pool::Pool,
};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use unsnarl_exec::{Error, Executor, FileChanges, Settings};
use unsnarl_model::{OutcomeKind, Plan, RaceIdentity, Trace};
use unsnarl_simplify::Runner;

/// The reason why the simplification stopped early.
#[derive(Debug)]
pub(crate) enum StopReason {
    /// The time or the runs are used up.
    Spent,
    Interrupted,
    Failed(anyhow::Error),
}

impl StopReason {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Spent => "time or runs are used up",
            Self::Interrupted => "interrupted",
            Self::Failed(_) => "an error",
        }
    }
}

/// Limits of the simplification, and the failure criteria.
pub(crate) struct RunOptions {
    pub(crate) jobs: usize,
    pub(crate) until: Option<Instant>,
    pub(crate) executions: u64,
    pub(crate) snapshots: bool,
    pub(crate) checks: Checks,
    pub(crate) quiet: bool,
}

/// Time and runs that are kept until the end, to find out what the remaining preemptions are needed for.
#[derive(Default)]
struct Reserve {
    time: Duration,
    runs: u64,
}

impl Reserve {
    /// Returns a small part of these limits.
    fn of(options: &RunOptions) -> Self {
        let time = options.until.map(|until| until.saturating_duration_since(Instant::now()) / 20);
        Self {
            time: time.unwrap_or_default().min(Duration::from_secs(2)),
            runs: (options.executions / 20).min(MAX_REASONS),
        }
    }
}

/// The number of preemptions whose reasons are determined; a longer list would not be read.
pub(super) const MAX_REASONS: u64 = 20;

pub(crate) struct ProgramPool {
    pool: Pool,
    fail_on: Vec<FailOn>,
    /// The race that is the failure, which may be one of several in a run.
    race: Option<RaceIdentity>,
    checks: Checks,
    until: Option<Instant>,
    left: u64,
    reserve: Reserve,
    pub(crate) snapshots: Snapshots,
    pub(crate) progress: ProgressBar,
    interrupt: Arc<AtomicBool>,
}

impl ProgramPool {
    /// Creates a pool for the program of a trace; runs fail by the trace's criterion.
    pub(crate) fn of(trace: &Trace, options: RunOptions, interrupt: &Arc<AtomicBool>) -> Result<Self> {
        let interrupt = Arc::clone(interrupt);
        let (reserve, progress) = (Reserve::of(&options), progress(&options));
        let settings = Settings {
            serve: true,
            interrupt: Some(Arc::clone(&interrupt)),
            until: options.until,
            files: options.checks.file_changes(FileChanges::default()),
            ..Settings::default()
        };
        // A check inspects what a run left behind, so runs must not overlap.
        let jobs = if options.checks.inspect_environment() { 1 } else { options.jobs.clamp(1, 256) };
        let executors = (0..jobs)
            .map(|_| Executor::new(trace.program.clone(), settings.clone()))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            pool: Pool { executors },
            fail_on: judged(trace.outcome.kind),
            race: trace.first_race().filter(|_| trace.outcome.kind == OutcomeKind::Race),
            checks: options.checks,
            until: options.until,
            left: options.executions,
            reserve,
            snapshots: Snapshots::new(options.snapshots),
            progress,
            interrupt,
        })
    }

    /// Makes the rest of the time and of the runs available.
    pub(super) fn use_reserve(&mut self) {
        self.reserve = Reserve::default();
    }

    /// Runs all of these plans; returns also whether each run resumed from a snapshot.
    fn run_all(&mut self, plans: &[Plan]) -> Result<Vec<(Trace, bool)>, StopReason> {
        self.check_interrupt()?;
        if self.left < plans.len() as u64 + self.reserve.runs {
            return Err(StopReason::Spent);
        }
        self.left -= plans.len() as u64;
        let Self { pool, fail_on, race, checks, snapshots, progress, interrupt, .. } = self;
        let stop_reason = |error: anyhow::Error| match error.downcast_ref() {
            _ if interrupt.load(Ordering::Relaxed) => StopReason::Interrupted,
            Some(Error::Interrupted) => StopReason::Spent,
            _ => StopReason::Failed(error),
        };
        snapshots.make(pool, plans).map_err(stop_reason)?;
        let begin = Instant::now();
        let job = |executor: &mut Executor, plan: &Plan| {
            let run = executor.run(plan)?;
            let resumed = run.is_resumed();
            let failure_message = checks.failure_message(&run.output)?;
            let mut trace = run.trace();
            race.iter().for_each(|race| trace.prefer_race(race));
            predicate::judge(&mut trace, fail_on, failure_message);
            checks.exclude(&mut trace);
            progress.inc(1);
            Ok((trace, resumed))
        };
        let runs: Vec<(Trace, bool)> = pool.run(plans, job, |_| false).map_err(stop_reason)?;
        snapshots.note(begin.elapsed(), plans.len().div_ceil(pool.executors.len()));
        Ok(runs)
    }
}

impl Runner for ProgramPool {
    type Error = StopReason;

    fn run(&mut self, plan: &Plan) -> Result<Trace, StopReason> {
        let (trace, resumed) = self.run_all(std::slice::from_ref(plan))?.pop().ok_or(StopReason::Spent)?;
        self.snapshots.resumed += u64::from(resumed);
        Ok(trace)
    }

    fn check_interrupt(&self) -> Result<(), StopReason> {
        if self.interrupt.load(Ordering::Relaxed) {
            Err(StopReason::Interrupted)
        } else if self.until.is_some_and(|until| Instant::now() + self.reserve.time >= until) {
            Err(StopReason::Spent)
        } else {
            Ok(())
        }
    }

    fn announce_plans(&mut self, plans: &[Plan]) {
        self.snapshots.announce_plans(plans);
    }

    fn run_until(
        &mut self,
        plans: &[Plan],
        accept: &mut dyn FnMut(usize, &Trace) -> bool,
    ) -> Result<Vec<Trace>, StopReason> {
        let mut traces = Vec::new();
        if plans.len() > self.pool.executors.len() {
            self.snapshots.announce_plans(plans);
        }
        for chunk in plans.chunks(self.pool.executors.len().max(1)) {
            for (trace, resumed) in self.run_all(chunk)? {
                // A run beyond the accepted one does not count.
                self.snapshots.resumed += u64::from(resumed);
                let accepted = accept(traces.len(), &trace);
                traces.push(trace);
                if accepted {
                    return Ok(traces);
                }
            }
        }
        Ok(traces)
    }
}

/// Returns the criterion by which an outcome of this kind is a failure.
fn judged(kind: OutcomeKind) -> Vec<FailOn> {
    match kind {
        OutcomeKind::Race => vec![FailOn::Race],
        OutcomeKind::Misuse => vec![FailOn::Misuse],
        _ => Vec::new(),
    }
}

/// Shows the runs and the time, both with their limits: how many runs it takes is not known in advance.
fn progress(options: &RunOptions) -> ProgressBar {
    if options.quiet {
        return ProgressBar::hidden();
    }
    let target = ProgressDrawTarget::stderr_with_hz(10);
    let bar = ProgressBar::with_draw_target(Some(options.executions), target);
    let style =
        ProgressStyle::with_template("{spinner} {pos} of at most {len} runs, {elapsed}{prefix}, {msg}");
    if let Some(until) = options.until {
        let left = until.saturating_duration_since(Instant::now());
        bar.set_prefix(format!(" of at most {:.0} s", left.as_secs_f64()));
    }
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}
