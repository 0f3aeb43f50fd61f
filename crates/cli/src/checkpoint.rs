//! Checkpoints: a program can say where its search should begin.

use anyhow::Result;
use unsnarl_exec::{Executor, Settings};
use unsnarl_model::{Op, Plan, Policy, Program};

/// Returns the plan, starting at the program's checkpoint if a run without preemptions reaches one. Most programs have
/// none, and for them nothing is run.
pub(crate) fn start_at_checkpoint(plan: Plan, program: &Program, settings: &Settings) -> Result<Plan> {
    if plan.tail == Policy::Fair || !unsnarl_exec::check(program.path.as_ref())?.checkpoint {
        return Ok(plan);
    }
    let settings = Settings { serve: false, echo: false, ..settings.clone() };
    let fair = Plan { tail: Policy::Fair, ..plan.clone() };
    let trace = Executor::new(program.clone(), settings)?.run(&fair)?.trace();
    let from_checkpoint = trace.events.iter().any(|event| event.op == Op::Checkpoint);
    Ok(Plan { from_checkpoint, ..plan })
}
