//! Confirms each witness by running the program.

use crate::{
    judge::{add_stacks, judge},
    options::FailOn,
    traces,
};
use anyhow::Result;
use indicatif::ProgressBar;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};
use unsnarl_exec::{Error, Executor, Settings};
use unsnarl_model::{Conflict, ConflictKind, Limit, Plan, Trace};
use unsnarl_predict::{
    ConfirmationRun, ConfirmationVerdict, PredictedRace, Prediction, WitnessRunner, confirm_deadlock,
    confirm_race, is_same_race,
};

/// A prediction's result.
pub(super) struct CheckedPrediction {
    /// `None` if it was not tried.
    pub(super) verdict: Option<ConfirmationVerdict>,
    /// The path of the failing trace.
    pub(super) trace: Option<PathBuf>,
}

impl CheckedPrediction {
    pub(super) fn is_confirmed(&self) -> bool {
        self.verdict == Some(ConfirmationVerdict::Confirmed)
    }
}

/// Results of all predictions, in their order.
pub(super) struct Confirmation {
    /// Races of the recorded order itself that no prediction covers, and the trace with them.
    pub(super) observed: Vec<Conflict>,
    pub(super) observed_in: Option<PathBuf>,
    pub(super) races: Vec<CheckedPrediction>,
    pub(super) deadlocks: Vec<CheckedPrediction>,
    pub(super) interrupted: bool,
    /// The time was used up before all were tried.
    pub(super) time_is_up: bool,
    pub(super) runs: u64,
    /// The number of runs that were stopped by a limit.
    pub(super) undecided: u64,
    /// A trace could not be saved.
    pub(super) not_saved: bool,
}

impl Confirmation {
    /// Saves a trace with a confirmed error. If that fails, the error was printed, and the others are still tried.
    fn save(&mut self, run: &Trace, suffix: &str) -> Option<PathBuf> {
        let saved = traces::save_as(run, None, &named(run, suffix));
        self.not_saved |= saved.is_err();
        saved.inspect_err(|error| eprintln!("error: {error:#}")).ok()
    }

    /// Returns the result if nothing was tried.
    pub(super) const fn none() -> Self {
        Self {
            observed: Vec::new(),
            observed_in: None,
            races: Vec::new(),
            deadlocks: Vec::new(),
            interrupted: false,
            time_is_up: false,
            runs: 0,
            undecided: 0,
            not_saved: false,
        }
    }
}

/// Tries all predictions until interrupted, or until the time is used up.
pub(super) fn confirm(
    trace: &Trace,
    prediction: &Prediction,
    (interrupt, until): (&Arc<AtomicBool>, Option<Instant>),
    bar: &ProgressBar,
) -> Result<Confirmation> {
    traces::check_directory(traces::WriteAdvice::ChangeDirectory)?;
    let settings =
        Settings { serve: true, interrupt: Some(Arc::clone(interrupt)), until, ..Settings::default() };
    let executor = Executor::new(trace.program.clone(), settings)?;
    let mut program = ProgramRunner { executor, runs: 0, undecided: 0 };
    let mut confirmation = Confirmation::none();
    let result = try_all(trace, prediction, &mut program, &mut confirmation, bar);
    (confirmation.runs, confirmation.undecided) = (program.runs, program.undecided);
    match result {
        Err(_) if interrupt.load(Ordering::Relaxed) => confirmation.interrupted = true,
        Err(error) if matches!(error.downcast_ref(), Some(Error::Interrupted)) => {
            confirmation.time_is_up = true;
        }
        other => other?,
    }
    Ok(confirmation)
}

fn try_all(
    trace: &Trace,
    prediction: &Prediction,
    program: &mut ProgramRunner,
    confirmation: &mut Confirmation,
    bar: &ProgressBar,
) -> Result<()> {
    let all = prediction.races.len() + prediction.deadlocks.len();
    let update_progress = |tried: usize| {
        bar.set_message(format!("trying witness {} of {all}", tried + 1));
        bar.tick();
    };
    // A run with a race often has several. The first run repeats the recording with race detection: some races need no
    // other order, such as those around relaxed atomics.
    let mut shown: Vec<(Trace, Option<PathBuf>)> = Vec::new();
    let again = program.run(&Plan { conflicts: true, ..trace.replay_plan() })?;
    let is_race = |conflict: &Conflict| conflict.kind == ConflictKind::Race;
    if again.divergence.is_none() && again.trace.races.iter().any(is_race) {
        let mut run = again.trace;
        judge(&mut run, &[FailOn::Race]);
        add_stacks(&mut run);
        let path = confirmation.save(&run, "race");
        confirmation.observed = not_predicted(trace, prediction, &run);
        confirmation.observed_in.clone_from(&path);
        shown.push((run, path));
    }
    for (tried, race) in prediction.races.iter().enumerate() {
        update_progress(tried);
        if let Some((_, path)) = shown.iter().find(|(run, _)| position(trace, race, run).is_some()) {
            let trace = path.clone();
            confirmation
                .races
                .push(CheckedPrediction { verdict: Some(ConfirmationVerdict::Confirmed), trace });
            continue;
        }
        let confirmed = confirm_race(trace, race, program)?;
        let mut checked = CheckedPrediction { verdict: Some(confirmed.verdict), trace: None };
        if let Some(mut run) = confirmed.trace {
            // The trace is saved for its first race.
            if let Some(at) = position(trace, race, &run) {
                run.races[..=at].rotate_right(1);
            }
            judge(&mut run, &[FailOn::Race]);
            add_stacks(&mut run);
            checked.trace = confirmation.save(&run, "race");
            shown.push((run, checked.trace.clone()));
        }
        confirmation.races.push(checked);
    }
    for (tried, deadlock) in prediction.deadlocks.iter().enumerate() {
        update_progress(prediction.races.len() + tried);
        let confirmed = confirm_deadlock(trace, deadlock, program)?;
        let path = confirmed.trace.and_then(|run| confirmation.save(&run, "deadlock"));
        confirmation.deadlocks.push(CheckedPrediction { verdict: Some(confirmed.verdict), trace: path });
    }
    Ok(())
}

/// Returns which of a run's races is the predicted one.
fn position(trace: &Trace, race: &PredictedRace, run: &Trace) -> Option<usize> {
    run.races.iter().position(|found| is_same_race(trace, race, run, found))
}

/// Returns the races of a run that no prediction covers, one for each pair of sites.
fn not_predicted(trace: &Trace, prediction: &Prediction, run: &Trace) -> Vec<Conflict> {
    let mut all: Vec<Conflict> = Vec::new();
    let places = |race: &Conflict| {
        let [a, b] = race.sides.map(|side| side.site);
        (a.min(b), a.max(b))
    };
    for found in run.races.iter().filter(|race| race.kind == ConflictKind::Race) {
        let predicted = prediction.races.iter().any(|race| is_same_race(trace, race, run, found));
        if !predicted && all.iter().all(|known| places(known) != places(found)) {
            all.push(*found);
        }
    }
    all
}

fn named(trace: &Trace, suffix: &str) -> String {
    let program = trace.program.path.rsplit('/').next().unwrap_or_default();
    format!("{program}-{suffix}")
}

struct ProgramRunner {
    executor: Executor,
    runs: u64,
    undecided: u64,
}

impl WitnessRunner for ProgramRunner {
    type Error = anyhow::Error;

    fn run(&mut self, plan: &Plan) -> Result<ConfirmationRun> {
        let run = self.executor.run(plan)?;
        self.runs += 1;
        let divergence = run.divergence();
        let limit = run.undecided().map(|(limit, _)| limit);
        self.undecided += u64::from(limit.is_some_and(|limit| limit != Limit::Plan));
        Ok(ConfirmationRun { trace: run.trace(), divergence })
    }
}
