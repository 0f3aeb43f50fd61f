//! Tries the schedule of a failure on another build of the program: is it fixed?
//!
//! A schedule identifies sites by offsets, which differ in another build. So the new build is run once
//! without a schedule. Its events are aligned with the recorded ones ([`align`]), and the schedule is
//! translated to the new build's sites ([`transfer_schedule`]) and followed with relaxed fidelity. The events
//! of that run are aligned with the recording again, until nothing changes.
//!
//! If the new build does more between two recorded operations, a thread that was preempted between them can
//! be stopped at several points, and all of them are tried.
//!
//! The verdict ([`FixVerdict`]) concerns this one schedule. It is *fixed* only if every preemption of the
//! recording occurred again, at the same operations, and the program ended normally ([`missed_preemption`]).
//! If the new build prevents a preemption, for example by a new lock, the schedule is *unreachable*. Neither
//! verdict implies that no other schedule fails.

#![forbid(unsafe_code)]

mod align;
mod missed_preemption;
mod transfer_schedule;

pub use align::align;
pub use missed_preemption::{MissReason, MissedPreemption, missed_preemption};
pub use transfer_schedule::{Stops, transfer_schedule};

use unsnarl_model::{Fidelity, Plan, Policy, Trace};

/// Runs another build of a program.
pub trait Build {
    /// The reason why it cannot be run.
    type Error;

    /// Runs this plan.
    ///
    /// # Errors If the run is not possible.
    fn run(&mut self, plan: &Plan) -> Result<Trace, Self::Error>;

    /// Returns a label for each event of a trace of this build: the same number for the same operation of the
    /// same function on the same variable, in every build.
    fn labels(&mut self, trace: &Trace) -> Vec<u64>;
}

/// The verdict on a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FixVerdict {
    /// The program fails.
    Failing,
    /// Every preemption occurred again, and the program ended normally.
    Fixed,
    /// The program ended normally, but this preemption of the recording cannot occur.
    Unreachable(MissedPreemption),
    /// A run of the program was stopped by a limit.
    Undecided,
}

/// The verdict and the last run.
#[derive(Clone, Debug)]
pub struct FixCheck {
    pub verdict: FixVerdict,
    /// The run that the verdict is based on.
    pub trace: Trace,
    /// The number of runs.
    pub runs: u32,
}

/// The maximum number of runs until the alignment does not change any more: usually the second is final.
const ROUNDS: u32 = 6;

/// The maximum number of points tried for one preemption, and of runs for all of them.
const MAX_STOPS: usize = 40;
const MAX_RUNS: u32 = 400;

/// Tries the schedule of a recorded failure on another build. `plan` determines how that build is run apart
/// from its schedule.
///
/// # Errors
/// The errors of the build's runs.
pub fn check<B: Build>(
    recorded: &Trace,
    labels: &[u64],
    plan: &Plan,
    build: &mut B,
) -> Result<FixCheck, B::Error> {
    let free_run = Plan { tail: Policy::Fair, prefix: Default::default(), ..plan.clone() };
    let mut trace = build.run(&free_run)?;
    let mut runs = 1;
    let mut stops = Stops::new();
    // The obstacle to a preemption at the recorded point; the obstacles at later points are less informative.
    let mut first: Option<MissedPreemption> = None;
    loop {
        let mut rounds = 0;
        loop {
            let matched = align(recorded, labels, &trace, &build.labels(&trace));
            let prefix = transfer_schedule(recorded, &trace, &matched, &stops, Fidelity::Relaxed);
            let next = build.run(&Plan { prefix, ..free_run.clone() })?;
            (runs, rounds) = (runs + 1, rounds + 1);
            let settled = next.events == trace.events && next.sites == trace.sites;
            trace = next;
            if trace.outcome.is_failure() {
                return Ok(FixCheck { verdict: FixVerdict::Failing, trace, runs });
            }
            if trace.outcome.limit().is_some() {
                return Ok(FixCheck { verdict: FixVerdict::Undecided, trace, runs });
            }
            if settled || rounds == ROUNDS {
                break;
            }
        }
        let matched = align(recorded, labels, &trace, &build.labels(&trace));
        let Some(left) = missed_preemption(recorded, &trace, &matched, &stops) else {
            return Ok(FixCheck { verdict: FixVerdict::Fixed, trace, runs });
        };
        let verdict_text = first.filter(|first| first.event == left.event).unwrap_or(left);
        first = Some(verdict_text);
        // The preemption may be possible a little later, before the thread's next recorded operation.
        let stop = stops.entry(left.event).or_insert(0);
        *stop += 1;
        let most =
            transfer_schedule::detour(recorded, &trace, &matched, left.event - 1).count().min(MAX_STOPS);
        if matches!(left.reason, MissReason::Gone(_)) || *stop > most || runs > MAX_RUNS {
            return Ok(FixCheck { verdict: FixVerdict::Unreachable(verdict_text), trace, runs });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::{Outcome, Output, Program};

    /// Builds a trace without events.
    pub(crate) fn nothing() -> Trace {
        Trace {
            program: Program::default(),
            modules: Vec::new(),
            plan: Plan::default(),
            threads: Vec::new(),
            sites: Vec::new(),
            events: Vec::new(),
            outcome: Outcome::exit(0),
            warnings: Vec::new(),
            program_warnings: Vec::new(),
            native: false,
            races: Vec::new(),
            callers: Vec::new(),
            counterfactuals: Vec::new(),
            names: Vec::new(),
            output: Output::default(),
        }
    }
}
