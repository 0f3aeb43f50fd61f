//! Other failing traces of the same bug: each is another start, and the best end counts.

use super::program::ProgramPool;
use unsnarl_model::{Plan, Policy, Prefix, Trace};
use unsnarl_simplify::Runner;

/// Runs for each trace that is looked for.
const TRIES: u64 = 100;

/// The trace and so many others that fail in the same way, as far as random schedules find them.
pub(super) fn failing(trace: &Trace, count: u32, program: &mut ProgramPool) -> Vec<Trace> {
    let mut traces = vec![trace.clone()];
    let plans: Vec<Plan> = (0..TRIES * u64::from(count))
        .map(|seed| Plan { prefix: Prefix::default(), tail: Policy::Random, seed, ..trace.plan.clone() })
        .collect();
    for chunk in plans.chunks(TRIES as usize) {
        // What ends this early ends what follows as well, and is told there.
        let Ok(runs) = program.run_until(chunk, &mut |_, run| run.signature() == trace.signature()) else {
            break;
        };
        traces.extend(runs.into_iter().next_back().filter(|run| run.signature() == trace.signature()));
    }
    traces
}
