//! `unsnarl bench-simplify-curve`: what each way to simplify has left of one trace, against time.

use crate::{
    explore::{self, predicate::Checks},
    options::{Target, duration},
    output,
    simplify::{
        program::{ProgramPool, RunOptions, StopReason},
        static_only,
    },
    target, traces,
    verdict::Verdict,
};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};
use unsnarl_exec::{Executor, Settings};
use unsnarl_model::{Plan, Policy, Trace};
use unsnarl_report::stats_json;
use unsnarl_simplify::{
    combined::{self, SimplifyOptions},
    dynamic::{self, Improvement, SimplificationResult},
};

/// Simplify a random failing trace in each way, and print what was left when
#[derive(clap::Args)]
pub(crate) struct BenchSimplifyCurve {
    /// Time for each way
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    time: Duration,
    /// The ways, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "default,quick,static,dynamic,hunt")]
    ways: Vec<String>,
    /// Seed of the first random schedule
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Simplify this trace instead of a random one
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

impl BenchSimplifyCurve {
    pub(crate) fn run(self) -> Result<Verdict> {
        let interrupt = explore::interrupt()?;
        let trace = match &self.trace {
            Some(path) => traces::load(path)?,
            None => self.failing(&interrupt)?,
        };
        let ways: Vec<Value> =
            self.ways.iter().map(|way| self.one(way, &trace, &interrupt)).collect::<Result<_>>()?;
        output::json(&json!({ "before": stats_json(&trace.stats()), "ways": ways }));
        Ok(Verdict::Fine)
    }

    /// Returns the first failing trace of random schedules.
    fn failing(&self, interrupt: &Arc<AtomicBool>) -> Result<Trace> {
        let settings =
            Settings { serve: true, interrupt: Some(Arc::clone(interrupt)), ..Settings::default() };
        let mut executor = Executor::new(target::program(&self.target)?, settings)?;
        for seed in self.seed..self.seed + 1_000 {
            let plan = Plan { tail: Policy::Random, seed, ..Plan::default() };
            let run = executor.run(&plan)?;
            if !run.is_clean() {
                let trace = run.trace();
                if trace.outcome.is_failure() {
                    return Ok(trace);
                }
            }
        }
        bail!("no random schedule fails")
    }

    fn one(&self, way: &str, trace: &Trace, interrupt: &Arc<AtomicBool>) -> Result<Value> {
        let begin = Instant::now();
        let options = RunOptions {
            jobs: 1,
            until: Some(begin + self.time),
            executions: u64::MAX,
            snapshots: true,
            checks: Checks::default(),
            quiet: true,
        };
        let mut program = ProgramPool::of(trace, options, interrupt)?;
        let mut points: Vec<Value> = Vec::new();
        let mut watch = |step: Improvement<'_>| {
            let stats = step.trace.stats();
            points.push(json!([begin.elapsed().as_secs_f64(), stats.context_switches, stats.preemptive]));
        };
        let effort = match way {
            "quick" => 0,
            "hunt" => 2,
            _ => 1,
        };
        let options = SimplifyOptions { effort, executions: u64::MAX, ..SimplifyOptions::default() };
        let found = match way {
            "dynamic" => dynamic::simplify(trace, &mut program, &mut watch),
            "static" => static_only::with_one_run(trace, None, &mut program),
            _ => combined::simplify(trace, &mut program, &options, &mut watch),
        };
        let SimplificationResult { trace: after, stats, stopped, .. } = found;
        let stopped = match stopped {
            Some(StopReason::Failed(error)) => return Err(error),
            other => other.map(|reason| reason.name()),
        };
        Ok(json!({
            "way": way, "after": stats_json(&after.stats()), "executions": stats.executions,
            "search_executions": stats.search_executions, "elapsed_s": begin.elapsed().as_secs_f64(),
            "stopped": stopped, "points": points,
        }))
    }
}
