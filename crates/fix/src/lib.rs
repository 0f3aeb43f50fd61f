//! Tries the schedule of a failure on another build of the program: is it fixed?
//!
//! A schedule identifies sites by offsets, which differ in another build. So the new build is run once with
//! the part of the schedule in functions that were not changed. Its events are aligned with the recorded ones
//! ([`align`]), and the schedule is translated to the new build's sites ([`transfer_schedule`]) and followed
//! with relaxed fidelity. The events of that run are aligned with the recording again, until nothing changes.
//!
//! If the new build does more between two recorded operations, a thread that was preempted between them can
//! be stopped at several points, and all of them are tried.
//!
//! The verdict ([`FixVerdict`]) concerns this one schedule. It is *fixed* only if every preemption of the
//! recording occurred again, at the same operations ([`missed_preemption`]), if every read of shared memory saw
//! the same write ([`ReadDifference`]), and the program ended normally. If the new build prevents a preemption,
//! for example by a new lock, the schedule is *unreachable*. If code cannot be compared, or the answer depends
//! on which of several similar operations are taken for the recorded ones, there is no verdict
//! ([`FixVerdict::CannotTell`]). None of them implies that no other schedule fails.

#![forbid(unsafe_code)]

mod align;
mod missed_preemption;
mod read_sources;
mod transfer_schedule;

pub use align::{Preference, align};
pub use missed_preemption::{MissReason, MissedPreemption, missed_preemption};
pub use read_sources::ReadDifference;
pub use transfer_schedule::{Stops, transfer_schedule};

use unsnarl_model::{Fidelity, OutcomeKind, Plan, Policy, Trace};

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

    /// Returns whether this build has the function in which the recording has this event.
    fn has_function_of(&mut self, recorded_event: usize) -> bool;
}

/// The verdict on a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FixVerdict {
    /// The program fails.
    Failing,
    /// Every preemption occurred again, every read saw the same write, and the program ended normally.
    Fixed,
    /// The program ended normally, but this preemption of the recording cannot occur.
    Unreachable(MissedPreemption),
    /// The program ended normally or was stopped, but that says nothing about the recorded failure.
    CannotTell(Doubt),
}

/// The reason why there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The function of this recorded event is not in the new build, or its thread was not started, so the
    /// preemption there cannot be compared.
    UnknownCode(usize),
    /// All preemptions occurred, but the program then did something else.
    Read(ReadDifference),
    /// Several operations of the new build could be this recorded one, and they lead to different verdicts.
    Ambiguous(usize),
    /// A limit stopped the run.
    Stopped,
    /// It is the recorded build, and it did not fail again.
    NotReproduced,
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

/// Tries the schedule of a recorded failure on another build. `plan` determines how that build is run; its
/// prefix is as much of the recorded schedule as is known to mean the same in that build.
///
/// # Errors
/// The errors of the build's runs.
pub fn check<B: Build>(
    recorded: &Trace,
    labels: &[u64],
    plan: &Plan,
    build: &mut B,
) -> Result<FixCheck, B::Error> {
    let mut first = check_with(recorded, labels, plan, build, Preference::First)?;
    if first.verdict == FixVerdict::Failing {
        return Ok(first);
    }
    let new_labels = build.labels(&first.trace);
    let match_by = |preference| align(recorded, labels, &first.trace, &new_labels, preference);
    let (by_first, by_last) = (match_by(Preference::First), match_by(Preference::Last));
    let Some(ambiguous) = by_first.iter().zip(&by_last).position(|(a, b)| a != b) else { return Ok(first) };
    let last = check_with(recorded, labels, plan, build, Preference::Last)?;
    let runs = first.runs + last.runs;
    if last.verdict == FixVerdict::Failing {
        return Ok(FixCheck { runs, ..last });
    }
    if std::mem::discriminant(&first.verdict) != std::mem::discriminant(&last.verdict) {
        first.verdict = FixVerdict::CannotTell(Doubt::Ambiguous(ambiguous));
    }
    Ok(FixCheck { runs, ..first })
}

/// Tries the schedule, with this choice among operations that look alike.
fn check_with<B: Build>(
    recorded: &Trace,
    labels: &[u64],
    plan: &Plan,
    build: &mut B,
    preference: Preference,
) -> Result<FixCheck, B::Error> {
    let free_run = Plan { tail: Policy::Fair, prefix: Default::default(), ..plan.clone() };
    let mut trace = build.run(&Plan { prefix: plan.prefix.clone(), ..free_run.clone() })?;
    let mut runs = 1;
    if let Some(verdict) = verdict_of_run(&trace) {
        return Ok(FixCheck { verdict, trace, runs });
    }
    let mut stops = Stops::new();
    // The obstacle to a preemption at the recorded point; the obstacles at later points are less informative.
    let mut first: Option<MissedPreemption> = None;
    loop {
        let mut rounds = 0;
        loop {
            let matched = align(recorded, labels, &trace, &build.labels(&trace), preference);
            let prefix = transfer_schedule(recorded, &trace, &matched, &stops, Fidelity::Relaxed);
            let next = build.run(&Plan { prefix, ..free_run.clone() })?;
            (runs, rounds) = (runs + 1, rounds + 1);
            let settled = next.events == trace.events && next.sites == trace.sites;
            trace = next;
            if let Some(verdict) = verdict_of_run(&trace) {
                return Ok(FixCheck { verdict, trace, runs });
            }
            if settled || rounds == ROUNDS {
                break;
            }
        }
        let matched = align(recorded, labels, &trace, &build.labels(&trace), preference);
        let Some(left) = missed_preemption(recorded, &trace, &matched, &stops) else {
            let difference = read_sources::read_difference(recorded, &trace, &matched);
            let verdict = difference
                .map_or(FixVerdict::Fixed, |difference| FixVerdict::CannotTell(Doubt::Read(difference)));
            return Ok(FixCheck { verdict, trace, runs });
        };
        let missed = first.filter(|first| first.event == left.event).unwrap_or(left);
        first = Some(missed);
        // The preemption may be possible a little later, before the thread's next recorded operation.
        let stop = stops.entry(left.event).or_insert(0);
        *stop += 1;
        let most =
            transfer_schedule::detour(recorded, &trace, &matched, left.event - 1).count().min(MAX_STOPS);
        if matches!(left.reason, MissReason::Gone(_)) || *stop > most || runs > MAX_RUNS {
            let verdict = match missed.reason {
                MissReason::Gone(event) if !can_compare(recorded, &trace, event, build) => {
                    FixVerdict::CannotTell(Doubt::UnknownCode(event))
                }
                _ => FixVerdict::Unreachable(missed),
            };
            return Ok(FixCheck { verdict, trace, runs });
        }
    }
}

/// Returns the verdict if the run alone determines it, because it did not end normally.
fn verdict_of_run(trace: &Trace) -> Option<FixVerdict> {
    match trace.outcome.kind {
        OutcomeKind::Undecided(_) => Some(FixVerdict::CannotTell(Doubt::Stopped)),
        _ => trace.outcome.is_failure().then_some(FixVerdict::Failing),
    }
}

/// Returns whether the absence of a recorded event shows that the new build does not execute it there: its
/// thread exists, and its function does.
fn can_compare<B: Build>(recorded: &Trace, trace: &Trace, event: usize, build: &mut B) -> bool {
    let thread = recorded.thread_id(recorded.events[event].thread);
    trace.threads.iter().any(|other| other.id == *thread) && build.has_function_of(event)
}
