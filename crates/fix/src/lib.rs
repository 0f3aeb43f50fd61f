//! The schedule of a failure, tried on another build of the program: is it fixed?
//!
//! A schedule names places by their offsets, and those of another build are others. So the new build is run once by
//! itself; what its threads did is laid beside what the recorded ones did ([`align`]), and the schedule is told again in
//! the new build's places ([`transfer_schedule`]) and followed as far as it makes sense. What that run did is laid beside the
//! recording once more, until nothing new is learnt.
//!
//! Where the new build does more between two recorded operations, a thread that was stopped between them can be stopped at
//! several places, and all of them are tried.
//!
//! What can be said then ([`FixVerdict`]) is about this one schedule. *Fixed* is said only if every preemption of the recording
//! was made again, at the same operations, and the program ended well ([`missed_preemption`]). If the new build does not let a
//! preemption happen, say because there is a lock now, the schedule is *unreachable*. Neither says that no other schedule
//! fails.

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
    /// What keeps it from running.
    type Error;

    /// One run by this plan.
    ///
    /// # Errors
    /// If there can be no run.
    fn run(&mut self, plan: &Plan) -> Result<Trace, Self::Error>;

    /// What each event of a trace of this build is called: the same number for the same operation of the same function
    /// on the same variable, in whichever build.
    fn labels(&mut self, trace: &Trace) -> Vec<u64>;
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FixVerdict {
    /// It fails.
    Failing,
    /// Every preemption was made again, and it ended well.
    Fixed,
    /// It ended well, but this preemption of the recording cannot be made.
    Unreachable(MissedPreemption),
}

/// The last run, and what it says.
#[derive(Clone, Debug)]
pub struct FixCheck {
    /// What came of it.
    pub verdict: FixVerdict,
    /// The run that says so.
    pub trace: Trace,
    /// How many runs were made.
    pub runs: u32,
}

/// Runs until what is known of the other build does not change any more: mostly the second knows all.
const ROUNDS: u32 = 6;

/// Places tried for one stop, and runs for all of them.
const MAX_STOPS: usize = 40;
const MAX_RUNS: u32 = 400;

/// Tries the schedule of a recorded failure on another build. `plan` says how that build is run apart from its schedule.
///
/// # Errors
/// Those of the build's runs.
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
    // What stood against a preemption where the recording has it; later stops tell less.
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
        // It may still be possible a little later, before the thread does what it did next in the recording.
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

    /// A trace in which nothing happens.
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
            races: Vec::new(),
            callers: Vec::new(),
            counterfactuals: Vec::new(),
            names: Vec::new(),
            output: Output::default(),
        }
    }
}
