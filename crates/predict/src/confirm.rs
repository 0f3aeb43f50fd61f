//! Section 2.3: the program itself follows a witness, observed by a happens-before detector.
//!
//! Deviations from the paper: all events are ordered, not only synchronisation, and the run ends where the
//! witness cannot be followed. If reads saw other writes and a thread took another path, the schedule is
//! followed once more with relaxed fidelity: the error may occur all the same.

use crate::{deadlocks::PredictedDeadlock, races::PredictedRace};
use unsnarl_model::{Conflict, ConflictKind, Divergence, Fidelity, OutcomeKind, Plan, Site, ThreadIx, Trace};

/// Runs the program by a plan.
pub trait WitnessRunner {
    /// The reason why the program cannot be run, or must not be any more.
    type Error;

    /// Runs the plan.
    ///
    /// # Errors If the run is not possible.
    fn run(&mut self, plan: &Plan) -> Result<ConfirmationRun, Self::Error>;
}

#[derive(Clone, Debug)]
pub struct ConfirmationRun {
    /// The executed trace.
    pub trace: Trace,
    /// The point where it left the plan.
    pub divergence: Option<Divergence>,
}

/// The verdict of the program on a prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfirmationVerdict {
    /// The error occurred.
    Confirmed,
    /// The witness cannot be followed: a thread that should run is not enabled.
    Infeasible(Divergence),
    /// A thread took another path than in the trace.
    Diverged(Divergence),
    /// The witness was followed, and the error did not occur.
    NotReproduced,
}

impl ConfirmationVerdict {
    /// Returns the verdict as one word.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Infeasible(_) => "infeasible",
            Self::Diverged(_) => "diverged",
            Self::NotReproduced => "not reproduced",
        }
    }
}

/// A verdict with the run that it is based on.
#[derive(Clone, Debug)]
pub struct ConfirmationResult {
    pub verdict: ConfirmationVerdict,
    /// The run with the error, if it occurred.
    pub trace: Option<Trace>,
    /// The number of runs.
    pub runs: u32,
}

/// Tests a predicted race.
///
/// # Errors
/// The errors of the runner.
pub fn confirm_race<R: WitnessRunner>(
    trace: &Trace,
    race: &PredictedRace,
    runner: &mut R,
) -> Result<ConfirmationResult, R::Error> {
    let sides = race.sides.map(|side| trace.site(&side));
    let shows = |run: &Trace| run.races.iter().any(|found| is_at(trace, run, sides, found));
    let mut confirmed = confirm(&|fidelity| race.witness.plan(trace, fidelity), runner, &shows)?;
    for witness in &race.others {
        if confirmed.verdict == ConfirmationVerdict::Confirmed {
            break;
        }
        let other = confirm(&|fidelity| witness.plan(trace, fidelity), runner, &shows)?;
        let runs = confirmed.runs + other.runs;
        // For a race that is not confirmed, the verdict of its first witness is reported.
        confirmed = if other.verdict == ConfirmationVerdict::Confirmed { other } else { confirmed };
        confirmed.runs = runs;
    }
    Ok(confirmed)
}

/// Tests a predicted deadlock.
///
/// # Errors
/// The errors of the runner.
pub fn confirm_deadlock<R: WitnessRunner>(
    trace: &Trace,
    deadlock: &PredictedDeadlock,
    runner: &mut R,
) -> Result<ConfirmationResult, R::Error> {
    let threads: Vec<ThreadIx> = deadlock.cycle.iter().map(|waits| waits.thread).collect();
    let plan = |fidelity| deadlock.witness.plan(trace, fidelity);
    confirm(&plan, runner, &|run| has_deadlock(trace, run, &threads))
}

fn confirm<R: WitnessRunner>(
    plan: &dyn Fn(Fidelity) -> Plan,
    runner: &mut R,
    shows: &dyn Fn(&Trace) -> bool,
) -> Result<ConfirmationResult, R::Error> {
    let exact = runner.run(&plan(Fidelity::Exact))?;
    let Some(divergence) = exact.divergence else {
        let shown = shows(&exact.trace);
        let verdict = if shown { ConfirmationVerdict::Confirmed } else { ConfirmationVerdict::NotReproduced };
        return Ok(ConfirmationResult { verdict, trace: shown.then_some(exact.trace), runs: 1 });
    };
    let relaxed = runner.run(&plan(Fidelity::Relaxed))?;
    if relaxed.divergence.is_none() && shows(&relaxed.trace) {
        return Ok(ConfirmationResult {
            verdict: ConfirmationVerdict::Confirmed,
            trace: Some(relaxed.trace),
            runs: 2,
        });
    }
    let verdict = if divergence.actual.is_some() {
        ConfirmationVerdict::Diverged(divergence)
    } else {
        ConfirmationVerdict::Infeasible(divergence)
    };
    Ok(ConfirmationResult { verdict, trace: None, runs: 2 })
}

/// Returns whether a race of a run is the one predicted from another trace: it has the same two sites.
#[must_use]
pub fn is_same_race(trace: &Trace, race: &PredictedRace, run: &Trace, found: &Conflict) -> bool {
    is_at(trace, run, race.sides.map(|side| trace.site(&side)), found)
}

fn is_at(trace: &Trace, run: &Trace, sites: [Site; 2], found: &Conflict) -> bool {
    let expected = ordered_pair(sites.map(|site| place(trace, site)));
    found.kind == ConflictKind::Race
        && ordered_pair(found.sides.map(|side| place(run, side.site))) == expected
}

/// Returns whether a run ended with these threads waiting for each other.
fn has_deadlock(trace: &Trace, run: &Trace, threads: &[ThreadIx]) -> bool {
    let waits = |thread: &ThreadIx| {
        let id = trace.thread_id(*thread);
        run.outcome.waits.iter().any(|wait| run.thread_id(wait.thread) == id)
    };
    run.outcome.kind == OutcomeKind::Deadlock && threads.iter().all(waits)
}

type ModuleOffset<'a> = (&'a str, u64);

fn place(trace: &Trace, site: Site) -> ModuleOffset<'_> {
    let module = trace.modules.get(usize::from(site.module.0));
    (module.map_or("", |module| module.path.as_str()), site.offset)
}

fn ordered_pair([a, b]: [ModuleOffset<'_>; 2]) -> [ModuleOffset<'_>; 2] {
    if a <= b { [a, b] } else { [b, a] }
}
