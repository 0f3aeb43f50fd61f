//! The same plan gives the same trace on kernel threads and on fibers.

use crate::{
    check::{executor, run, same},
    expectation::Expectation,
};
use std::path::Path;
use unsnarl_exec::{Settings, ThreadBackend};
use unsnarl_model::{Outcome, Plan, Policy, RunLimits, Trace};

const SEEDS: u64 = 3;

/// Runs some plans on both, with each way of starting a run.
pub(crate) fn check(program: &Path, expected: &Expectation) -> Result<(), String> {
    // Runs that end by the time limit are slow: once is enough.
    let cut_off = expected.outcome == "undecided";
    // A livelock is one after fewer than a million events too.
    let limits =
        RunLimits { millis: if cut_off { 3000 } else { 60_000 }, spins: 10_000, ..RunLimits::default() };
    let mut fibers = executor(program, expected, Settings { serve: true, ..Settings::default() })?;
    let on_kernel_threads = |serve| {
        executor(program, expected, Settings { serve, threads: ThreadBackend::Kernel, ..Settings::default() })
    };
    let (mut served, mut fresh) = (on_kernel_threads(true)?, on_kernel_threads(false)?);
    for seed in 0..if cut_off { 1 } else { SEEDS } {
        let tail = if seed == 0 { Policy::Fair } else { Policy::Random };
        let from_checkpoint = expected.from_checkpoint;
        let (conflicts, timeouts) = (!cut_off, expected.timeouts);
        let plan = Plan { tail, seed, limits, conflicts, from_checkpoint, timeouts, ..Plan::default() };
        let by_fibers = run(&mut fibers, &plan)?;
        // A run that ends by the time limit has another number of events each time, but the same schedule.
        let plan = if cut_off { by_fibers.replay_plan() } else { plan };
        let kernel = if seed % 2 == 0 { &mut served } else { &mut fresh };
        let by_kernel_threads = run(kernel, &plan)?;
        same(&by_fibers, &by_kernel_threads)
            .map_err(|reason| format!("seed {seed}, on kernel threads after fibers: {reason}"))?;
        if by_fibers.races != by_kernel_threads.races {
            return Err(format!("seed {seed}: other races on kernel threads"));
        }
        let [expected, got] = [by_fibers, by_kernel_threads].map(outcome);
        if expected != got && !cut_off {
            return Err(format!("seed {seed}: {expected:?} became {got:?} on kernel threads"));
        }
    }
    Ok(())
}

/// Returns the outcome with its backtraces, without the runtime's own frames: those of a waiting thread end at its
/// switch, which differs between the backends.
fn outcome(mut trace: Trace) -> Outcome {
    let modules = &trace.modules;
    for backtrace in &mut trace.outcome.backtraces {
        backtrace.frames.retain(|site| !modules[site.module.0 as usize].path.ends_with("libunsnarl_rt.so"));
    }
    trace.outcome
}
