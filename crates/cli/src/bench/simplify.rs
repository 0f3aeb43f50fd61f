//! `unsnarl bench-simplify`: random failing traces of a program, simplified by our algorithm and the paper's.

use crate::{
    explore::{self, predicate::Checks},
    options::{Target, TimeoutRule},
    output,
    simplify::program::{ProgramPool, RunOptions, StopReason},
    target,
    verdict::Verdict,
};
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};
use unsnarl_exec::{Executor, Settings};
use unsnarl_model::{Plan, Policy, Trace};
use unsnarl_report::stats_json;
use unsnarl_simplify::{
    Cost, Runner,
    combined::{self, SimplifyOptions},
    dynamic::{self, SimplificationResult},
    prove::{ProofLimits, ProofVerdict, prove},
};

/// Simplify random failing traces with our algorithm and the paper's
#[derive(clap::Args)]
pub(crate) struct BenchSimplify {
    /// Number of traces
    #[arg(long, default_value_t = 30)]
    traces: usize,
    /// Random schedules tried to find them
    #[arg(long, default_value_t = 3000)]
    tries: u64,
    /// Runs to find the exact minimum of each
    #[arg(long, default_value_t = 3000)]
    prove: u64,
    /// Replays of each result
    #[arg(long, default_value_t = 100)]
    replays: u64,
    /// Run the paper's algorithm in a fresh process each time, as its authors do
    #[arg(long)]
    fresh: bool,
    /// Only simplify each result again, and compare
    #[arg(long)]
    again: bool,
    /// Longest trace to simplify, in events
    #[arg(long, default_value_t = 20_000)]
    longest: u64,
    /// When time-outs may expire
    #[arg(long, value_enum, default_value = "fair")]
    timeouts: TimeoutRule,
    #[command(flatten)]
    target: Target,
}

impl BenchSimplify {
    pub(crate) fn run(self) -> Result<Verdict> {
        let interrupt = explore::interrupt()?;
        let traces = self.failing(&interrupt)?;
        let results = traces
            .iter()
            .map(|trace| if self.again { again(trace, &interrupt) } else { self.one(trace, &interrupt) })
            .collect::<Result<Vec<_>>>()?;
        output::json(&json!({ "traces": results }));
        Ok(Verdict::Fine)
    }

    /// Returns failing traces of random schedules.
    fn failing(&self, interrupt: &Arc<AtomicBool>) -> Result<Vec<Trace>> {
        let settings =
            Settings { serve: true, interrupt: Some(Arc::clone(interrupt)), ..Settings::default() };
        let mut executor = Executor::new(target::program(&self.target)?, settings)?;
        let mut traces = Vec::new();
        for seed in 0..self.tries {
            if traces.len() == self.traces {
                break;
            }
            let timeouts = self.timeouts.into();
            let plan = Plan { tail: Policy::Random, seed, timeouts, ..Plan::default() };
            let run = executor.run(&plan)?;
            // Traces of livelocks are long: some programs have thousands of them.
            if !run.is_clean() && run.events() <= self.longest {
                traces.extend(Some(run.trace()).filter(|trace| trace.outcome.is_failure()));
            }
        }
        Ok(traces)
    }

    fn one(&self, trace: &Trace, interrupt: &Arc<AtomicBool>) -> Result<Value> {
        let begin = Instant::now();
        let mut program = program(trace, interrupt)?;
        let options = SimplifyOptions { executions: 100_000, effort: 1, ..SimplifyOptions::default() };
        let ours = finished(combined::simplify(trace, &mut program, &options, &mut |_| {}))?;
        let our_seconds = begin.elapsed().as_secs_f64();

        let begin = Instant::now();
        let options = SimplifyOptions { effort: 0, ..options };
        let mut another = self::program(trace, interrupt)?;
        let quick = finished(combined::simplify(trace, &mut another, &options, &mut |_| {}))?;
        let quick_seconds = begin.elapsed().as_secs_f64();

        let begin = Instant::now();
        let theirs = if self.fresh {
            let mut fresh = FreshProcess(Executor::new(trace.program.clone(), Settings::default())?);
            finished(dynamic::simplify(trace, &mut fresh, &mut |_| {}))?
        } else {
            let mut program = self::program(trace, interrupt)?;
            finished(dynamic::simplify(trace, &mut program, &mut |_| {}))?
        };
        let their_seconds = begin.elapsed().as_secs_f64();

        let minimum = self.minimum(&ours.trace, &mut program)?;
        let reproduced = self.reproduced(&ours.trace, &mut program)?;
        Ok(json!({
            "before": stats_json(&trace.stats()), "after": stats_json(&ours.trace.stats()),
            "executions": ours.stats.executions,
            "search_executions": ours.stats.search_executions, "rounds": ours.stats.rounds, "elapsed_s": our_seconds,
            "resumed": program.snapshots.resumed,
            "quick": {
                "after": stats_json(&quick.trace.stats()), "executions": quick.stats.executions,
                "elapsed_s": quick_seconds,
            },
            "tinertia": {
                "after": stats_json(&theirs.trace.stats()), "executions": theirs.stats.executions,
                "elapsed_s": their_seconds,
            },
            "minimum": minimum.map(|cost| json!({
                "context_switches": cost.switches, "preemptive": cost.preemptions,
            })),
            "reproduced": reproduced,
        }))
    }

    /// Returns the minimum cost of any schedule with the same points, if it was found.
    fn minimum(&self, trace: &Trace, program: &mut ProgramPool) -> Result<Option<Cost>> {
        let mut best = trace.clone();
        let mut left = self.prove;
        loop {
            let limits = ProofLimits { executions: left, ..ProofLimits::default() };
            let search = prove(&best, program, &limits, &mut |_, _| {});
            stopped(search.stopped)?;
            left = left.saturating_sub(search.executions);
            match search.verdict {
                ProofVerdict::Minimal(_) => return Ok(Some(Cost::of(&best.events))),
                ProofVerdict::Better(better) => best = *better,
                ProofVerdict::Unfinished => return Ok(None),
            }
        }
    }

    /// Returns how often the failure is reproduced.
    fn reproduced(&self, trace: &Trace, program: &mut ProgramPool) -> Result<u64> {
        let mut same = 0;
        for _ in 0..self.replays {
            let again = program.run(&trace.replay_plan()).map_err(failed)?;
            same += u64::from(again.signature() == trace.signature());
        }
        Ok(same)
    }
}

/// Simplifies a trace and then its result, and compares the two results.
fn again(trace: &Trace, interrupt: &Arc<AtomicBool>) -> Result<Value> {
    let options = SimplifyOptions { executions: 100_000, effort: 1, ..SimplifyOptions::default() };
    let simplify = |trace: &Trace| {
        finished(combined::simplify(trace, &mut program(trace, interrupt)?, &options, &mut |_| {}))
    };
    let once = simplify(trace)?;
    let twice = simplify(&once.trace)?;
    Ok(json!({
        "before": stats_json(&trace.stats()), "after": stats_json(&once.trace.stats()),
        "executions": once.stats.executions,
        "again": {
            "after": stats_json(&twice.trace.stats()), "executions": twice.stats.executions,
            "unchanged": once.trace.events == twice.trace.events,
        },
    }))
}

/// Creates the program pool with the users' default settings.
fn program(trace: &Trace, interrupt: &Arc<AtomicBool>) -> Result<ProgramPool> {
    let options = RunOptions {
        jobs: 1,
        until: None,
        executions: u64::MAX,
        snapshots: true,
        checks: Checks::default(),
        quiet: true,
    };
    ProgramPool::of(trace, options, interrupt)
}

/// Runs each plan in a fresh process.
struct FreshProcess(Executor);

impl Runner for FreshProcess {
    type Error = StopReason;

    fn run(&mut self, plan: &Plan) -> Result<Trace, StopReason> {
        self.0.run(plan).map(unsnarl_exec::Run::trace).map_err(|error| StopReason::Failed(error.into()))
    }
}

fn finished(mut simplified: SimplificationResult<StopReason>) -> Result<SimplificationResult<StopReason>> {
    stopped(simplified.stopped.take())?;
    Ok(simplified)
}

fn stopped(stop: Option<StopReason>) -> Result<()> {
    stop.map_or(Ok(()), |stop| Err(failed(stop)))
}

fn failed(stop: StopReason) -> anyhow::Error {
    match stop {
        StopReason::Failed(error) => error,
        other => anyhow!("stopped: {}", other.name()),
    }
}
