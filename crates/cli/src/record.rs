//! `unsnarl record`: records one controlled run.

use crate::{
    checkpoint, judge,
    options::{Follow, PointSet, RunArgs, Target},
    output, target, traces,
    verdict::Verdict,
};
use anyhow::Result;
use serde_json::json;
use std::path::PathBuf;
use unsnarl_exec::{Executor, FileChanges, Settings};
use unsnarl_model::Policy;

/// Record one controlled run: non-preemptive and fair, or random with --seed
#[derive(clap::Args)]
pub(crate) struct Record {
    /// Schedule at random with this seed
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Repeat the plan of this trace: the same policy, seed and schedule points
    #[arg(long, value_name = "TRACE", conflicts_with = "seed")]
    like: Option<PathBuf>,
    /// With --seed: the strategy: random, pct:D:STEPS or pos
    #[arg(long, value_name = "NAME", default_value = "random", requires = "seed", value_parser = policy)]
    strategy: Policy,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    follow: Follow,
    #[command(flatten)]
    target: Target,
}

impl Record {
    pub(crate) fn run(self) -> Result<Verdict> {
        let (program, _launcher) = target::program_to_control(&self.target, &self.follow)?;
        traces::check(self.run.output.as_deref())?;
        let tail = if self.seed.is_some() { self.strategy } else { Policy::Fair };
        // A recorded run changes files as the program does without unsnarl.
        let settings = Settings { echo: !self.run.json, files: FileChanges::Keep, ..self.run.settings() };
        let plan = match &self.like {
            Some(trace) => traces::load(trace)?.plan,
            None => {
                let points = self.run.points(PointSet::All);
                let plan = self.run.plan(&points, &program, tail, self.seed.unwrap_or(0))?;
                checkpoint::start_at_checkpoint(plan, &program, &settings)?
            }
        };
        let mut executor = Executor::new(program, settings)?;
        let mut trace = executor.run(&plan)?.trace();
        judge::judge(&mut trace, &self.run.fail_on);
        judge::add_stacks(&mut trace);
        judge::add_accesses(&mut trace);
        let path = traces::save(&trace, self.run.output.as_deref())?;
        if self.run.json {
            let (outcome, stats, warnings) = output::trace_json(&trace);
            output::json(&json!({ "trace": path, "outcome": outcome, "stats": stats, "warnings": warnings }));
        } else {
            let path = output::quoted(&path);
            eprint!("{}", output::outcome(&trace));
            eprintln!("trace    {path} ({})", output::figures(&trace));
            eprintln!("replay   unsnarl replay {path}");
            eprintln!("show     unsnarl show {path}");
        }
        Ok(match trace.outcome.limit() {
            Some(_) => Verdict::Undecided,
            None if trace.outcome.is_failure() => Verdict::Failure,
            None => Verdict::Fine,
        })
    }
}

/// Parses a policy by the name that [`Policy::name`] gives it.
fn policy(text: &str) -> std::result::Result<Policy, String> {
    let wrong = || "a strategy is random, pct:D:STEPS or pos".to_owned();
    match text.split(':').collect::<Vec<_>>()[..] {
        ["random"] => Ok(Policy::Random),
        ["pos"] => Ok(Policy::Pos),
        ["pct", depth, steps] => Ok(Policy::Pct {
            depth: depth.parse().map_err(|_| wrong())?,
            steps: steps.parse().map_err(|_| wrong())?,
        }),
        _ => Err(wrong()),
    }
}
