//! `unsnarl bench-run`: consecutive controlled runs, timed from within, so that our own start-up is excluded.

use crate::{
    options::{PointSet, RunArgs, Target},
    output, target,
    verdict::Verdict,
};
use anyhow::Result;
use serde_json::json;
use std::time::Instant;
use unsnarl_exec::{Executor, Settings};
use unsnarl_model::Policy;

/// Time consecutive controlled runs
#[derive(clap::Args)]
pub(crate) struct BenchRun {
    /// Number of runs
    #[arg(long, default_value_t = 1)]
    runs: u64,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    target: Target,
}

impl BenchRun {
    pub(crate) fn run(self) -> Result<Verdict> {
        let program = target::program(&self.target)?;
        let plan = self.run.plan(&self.run.points(PointSet::All), &program, Policy::Fair, 0)?;
        let mut executor = Executor::new(program, Settings::default())?;
        let begin = Instant::now();
        let mut events = 0;
        for _ in 0..self.runs {
            events = executor.run(&plan)?.events();
        }
        let elapsed = begin.elapsed().as_secs_f64();
        output::json(&json!({ "runs": self.runs, "elapsed_s": elapsed, "events": events }));
        Ok(Verdict::Fine)
    }
}
