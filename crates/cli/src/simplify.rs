//! `unsnarl simplify`: the same failure with the fewest context switches.

use crate::{
    explore,
    judge::judge,
    options::{FailOn, duration},
    output,
    pool::Pool,
    replay::{check_builds, replay},
    traces,
    verdict::Verdict,
};
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Map, Value, json};
use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};
use unsnarl_exec::{Error, Executor, Settings};
use unsnarl_model::{Kind, Plan, Stats, Trace};
use unsnarl_report::stats_json;
use unsnarl_simplify::{
    Runner, both,
    dynamic::{self, Operation, Step, Tally},
    statics::{self, Rules},
};

/// The same failure with the fewest context switches
#[derive(clap::Args)]
pub(crate) struct Simplify {
    /// The trace: a path, or `latest`
    #[arg(default_value = "latest")]
    trace: PathBuf,
    /// By the trace's dependences alone, without running the program but once, to make sure
    #[arg(long = "static", conflicts_with = "dynamic")]
    statically: bool,
    /// By running changed schedules alone: the Tinertia paper's algorithm
    #[arg(long)]
    dynamic: bool,
    /// Run the program at most this many times
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    executions: u64,
    /// Stop after this much time, with the best so far
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Change only the last N segments by running: for long traces
    #[arg(long, value_name = "N", conflicts_with_all = ["dynamic", "statically"])]
    suffix: Option<usize>,
    /// So many runs at a time; the result does not depend on it
    #[arg(short, long, value_name = "N", default_value_t = explore::default_jobs())]
    jobs: usize,
    /// Where to save the simplified trace
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// What it came to.
struct Simplified {
    trace: Trace,
    tally: Tally,
    /// Context switches that changing the order alone removed.
    by_order: u64,
    stopped: Option<Stop>,
}

/// Why the work ended before there was nothing left to try.
enum Stop {
    Time,
    Interrupted,
    Failed(anyhow::Error),
}

impl Simplify {
    pub(crate) fn run(self) -> Result<Verdict> {
        let begin = Instant::now();
        let trace = traces::load(&self.trace)?;
        if !trace.outcome.is_failure() && !trace.program.path.is_empty() {
            bail!(
                "the run of this trace did not fail: there is nothing to keep; `unsnarl explore` finds one that does"
            );
        }
        if trace.outcome.kind == Kind::Check {
            bail!(
                "this failure was found by --check or --fail-if-stdout, which a trace does not keep; \
                 only `unsnarl simplify --static` could be tried, and nothing would confirm it"
            );
        }
        let simplified = if trace.program.path.is_empty() {
            self.without_running(&trace)
        } else {
            check_builds(&trace)?;
            self.with_program(&trace, begin)?
        };
        self.tell(&trace, &simplified, begin.elapsed())
    }

    /// A trace of another tool: its order can be improved, and nobody can say more.
    fn without_running(&self, trace: &Trace) -> Simplified {
        let order = statics::simplify(trace, Rules::of(trace));
        let by_order = order.before - order.after;
        Simplified { trace: order.apply(trace), tally: Tally::default(), by_order, stopped: None }
    }

    fn with_program(&self, trace: &Trace, begin: Instant) -> Result<Simplified> {
        let interrupt = explore::interrupt()?;
        let settings =
            Settings { serve: true, interrupt: Some(Arc::clone(&interrupt)), ..Settings::default() };
        let jobs = if self.statically { 1 } else { self.jobs.clamp(1, 256) };
        let executors = (0..jobs)
            .map(|_| Executor::new(trace.program.clone(), settings.clone()))
            .collect::<Result<_, _>>()?;
        let progress = progress(self.json);
        let mut runner = Program {
            pool: Pool { executors },
            fail_on: judged(trace.outcome.kind),
            until: self.time.map(|time| begin + time),
            left: self.executions,
            progress: &progress,
            interrupt,
        };
        let mut watch = |step: Step<'_>| {
            let stats = step.trace.stats();
            progress.set_message(format!(
                "{} context switches, {} preemptive",
                stats.context_switches, stats.preemptive
            ));
        };
        let simplified = if self.statically {
            statically(trace, &mut runner)
        } else {
            let dynamic::Simplified { trace, tally, stopped, .. } = if self.dynamic {
                dynamic::simplify(trace, &mut runner, &mut watch)
            } else {
                let suffix = self.suffix;
                let options =
                    both::Options { suffix, executions: self.executions, ..both::Options::default() };
                both::simplify(trace, &mut runner, &options, &mut watch)
            };
            Simplified { trace, tally, by_order: 0, stopped }
        };
        progress.finish_and_clear();
        match simplified.stopped {
            Some(Stop::Failed(error)) => Err(error),
            _ => Ok(simplified),
        }
    }

    fn tell(&self, before: &Trace, simplified: &Simplified, elapsed: Duration) -> Result<Verdict> {
        let after = &simplified.trace;
        let runs = !before.program.path.is_empty();
        let preserved = !runs
            || replay(after, &after.replay_plan(), Settings::default()).is_ok_and(|again| again.reproduced);
        let name = self.trace.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = if name == "latest" || name.is_empty() {
            "simplified".to_owned()
        } else {
            format!("{name}-simplified")
        };
        let path = traces::save_as(after, self.output.as_deref(), &name)?;
        let (old, new) = (before.stats(), after.stats());
        let tally = &simplified.tally;
        if self.json {
            let by_operation: Map<String, Value> = Operation::ALL
                .iter()
                .map(|&operation| {
                    let own = if operation == Operation::Static { simplified.by_order } else { 0 };
                    (operation.name().to_owned(), (own + tally.removed_by(operation)).into())
                })
                .collect();
            output::json(&json!({
                "trace": path, "before": stats_json(&old), "after": stats_json(&new),
                "executions": tally.executions, "elapsed_s": elapsed.as_secs_f64(), "rounds": tally.rounds,
                "by_operation": by_operation, "outcome_preserved": preserved,
                "stopped": simplified.stopped.as_ref().map(Stop::word),
            }));
        } else {
            let quoted = output::quoted(&path);
            output::print(&format!(
                "{}\n{}\n{}trace    {quoted}\nreplay   unsnarl replay {quoted}{}\nshow     unsnarl show {quoted}\n",
                output::outcome(after).trim_end(),
                table(&old, &new),
                simplified
                    .stopped
                    .as_ref()
                    .map_or_else(String::new, |stop| format!("stopped  {}: the best so far\n", stop.word())),
                match (runs, preserved) {
                    (false, _) => "   (another tool's trace: it cannot be run)",
                    (true, true) => "   (tried: the same failure)",
                    (true, false) =>
                        "   (tried: it does NOT reproduce; the program depends on something outside)",
                },
            ));
            output::print(&format!(
                "took     {} runs, {} rounds, {:.2} s\n",
                tally.executions,
                tally.rounds,
                elapsed.as_secs_f64()
            ));
        }
        Ok(match (&simplified.stopped, preserved) {
            (_, false) => Verdict::NotReproduced,
            (Some(Stop::Interrupted), true) => Verdict::Interrupted,
            _ => Verdict::Fine,
        })
    }
}

impl Stop {
    const fn word(&self) -> &'static str {
        match self {
            Self::Time => "time or runs are used up",
            Self::Interrupted => "interrupted",
            Self::Failed(_) => "an error",
        }
    }
}

/// The order of the events improved, and one run to confirm it.
fn statically(trace: &Trace, runner: &mut Program<'_>) -> Simplified {
    let order = statics::simplify(trace, Rules::of(trace)).apply(trace);
    let mut simplified =
        Simplified { trace: trace.clone(), tally: Tally::default(), by_order: 0, stopped: None };
    simplified.tally.executions = 1;
    match runner.run(&order.replay_plan()) {
        Ok(actual) if actual.signature() == trace.signature() => {
            let (before, after) = (trace.stats().context_switches, actual.stats().context_switches);
            if after <= before {
                simplified.by_order = before - after;
                simplified.trace = actual;
            }
        }
        Ok(_) => eprintln!(
            "unsnarl: the reordered schedule ends otherwise: some dependence is not among the trace's events \
             (record with --points all to have them all)"
        ),
        Err(stop) => simplified.stopped = Some(stop),
    }
    simplified
}

/// Before and after, as the Tinertia paper's table 1.
fn table(before: &Stats, after: &Stats) -> String {
    let mut text = format!("{:<24}{:>10}{:>10}{:>12}\n", "", "before", "after", "reduction");
    let rows = [
        ("events", before.events, after.events),
        ("threads", before.threads, after.threads),
        ("context switches", before.context_switches, after.context_switches),
        ("  non-preemptive", before.non_preemptive(), after.non_preemptive()),
        ("  preemptive", before.preemptive, after.preemptive),
    ];
    for (what, old, new) in rows {
        let reduction = if old == 0 {
            String::new()
        } else {
            format!("{:.0} %", 100.0 * (1.0 - new as f64 / old as f64))
        };
        text += &format!("{what:<24}{old:>10}{new:>10}{reduction:>12}\n");
    }
    text
}

/// What made this kind of end a failure.
fn judged(kind: Kind) -> Vec<FailOn> {
    match kind {
        Kind::Race => vec![FailOn::Race],
        Kind::Misuse => vec![FailOn::Misuse],
        _ => Vec::new(),
    }
}

/// The program, run by several executors at a time.
struct Program<'a> {
    pool: Pool,
    fail_on: Vec<FailOn>,
    until: Option<Instant>,
    left: u64,
    progress: &'a ProgressBar,
    interrupt: Arc<AtomicBool>,
}

impl Program<'_> {
    fn run_all(&mut self, plans: &[Plan]) -> Result<Vec<Trace>, Stop> {
        if self.until.is_some_and(|until| Instant::now() >= until) || self.left < plans.len() as u64 {
            return Err(Stop::Time);
        }
        self.left -= plans.len() as u64;
        let (progress, fail_on) = (self.progress, &self.fail_on);
        let job = |executor: &mut Executor, plan: &Plan| {
            let mut trace = executor.run(plan)?.trace();
            judge(&mut trace, fail_on);
            progress.inc(1);
            Ok(trace)
        };
        self.pool.run(plans, job, |_| false).map_err(|error| {
            let interrupted = matches!(error.downcast_ref(), Some(Error::Interrupted))
                || self.interrupt.load(std::sync::atomic::Ordering::Relaxed);
            if interrupted { Stop::Interrupted } else { Stop::Failed(error) }
        })
    }
}

impl Runner for Program<'_> {
    type Error = Stop;

    fn run(&mut self, plan: &Plan) -> Result<Trace, Stop> {
        let mut traces = self.run_all(std::slice::from_ref(plan))?;
        traces.pop().ok_or(Stop::Time)
    }

    fn run_until(
        &mut self,
        plans: &[Plan],
        accept: &mut dyn FnMut(usize, &Trace) -> bool,
    ) -> Result<Vec<Trace>, Stop> {
        let mut traces = Vec::new();
        for chunk in plans.chunks(self.pool.executors.len().max(1)) {
            for trace in self.run_all(chunk)? {
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

fn progress(quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template("{spinner} {pos} runs, {elapsed}, {msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}
