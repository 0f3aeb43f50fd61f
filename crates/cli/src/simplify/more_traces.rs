//! Other failing traces of the same bug: each is another starting point, and the best result counts.

use super::program::ProgramPool;
use unsnarl_model::{Plan, Policy, Prefix, Trace};
use unsnarl_simplify::Runner;

/// Runs per trace that is searched for.
const TRIES: u64 = 100;

/// Returns the trace and up to `count` others with the same failure, found by random schedules.
pub(super) fn failing(trace: &Trace, count: u32, program: &mut ProgramPool) -> Vec<Trace> {
    let mut traces = vec![trace.clone()];
    let plans: Vec<Plan> = (0..TRIES * u64::from(count))
        .map(|seed| Plan { prefix: Prefix::default(), tail: Policy::Random, seed, ..trace.plan.clone() })
        .collect();
    for chunk in plans.chunks(TRIES as usize) {
        // A limit or interrupt that ends this search also ends the next stage, which reports it.
        let Ok(runs) = program.run_until(chunk, &mut |_, run| run.signature() == trace.signature()) else {
            break;
        };
        traces.extend(runs.into_iter().next_back().filter(|run| run.signature() == trace.signature()));
    }
    traces
}
