//! Runs only plans with unknown results: the same plan yields the same trace, and many other results can be
//! predicted.

use crate::{
    Choice, Runner,
    simulation::{EarlyStop, Simulation},
};
use std::collections::HashMap;
use unsnarl_model::{Plan, Trace};

/// The number of events remembered in all. Only few long traces fit, but there the same plan hardly ever
/// recurs.
const MAX_EVENTS: usize = 2_000_000;

/// A runner that learns from all runs.
pub(super) struct Simulator<'a, R> {
    pub(super) runner: &'a mut R,
    /// The number of real runs.
    pub(super) runs: u64,
    /// The number of plans whose result was known without a run.
    pub(super) simulated: u64,
    simulation: Simulation,
    known: HashMap<Plan, Trace>,
    events: usize,
}

/// Knowledge about a plan.
pub(super) enum PlanKnowledge {
    /// The trace of an earlier run.
    Executed(Trace),
    /// The predicted trace.
    Simulated(Trace),
    Unknown,
}

impl<'a, R: Runner> Simulator<'a, R> {
    /// Builds a simulator for runs of this program.
    pub(super) fn new(trace: &Trace, runner: &'a mut R) -> Self {
        Self {
            runner,
            runs: 0,
            simulated: 0,
            simulation: Simulation::of(trace),
            known: HashMap::new(),
            events: 0,
        }
    }

    /// Disables predictions.
    pub(super) fn disable_simulation(&mut self) {
        self.simulation.disable();
    }

    /// Returns the number of predictions that may have been wrong.
    pub(super) const fn mispredictions(&self) -> u32 {
        self.simulation.mispredictions()
    }

    /// Returns what is known about a plan; with `early_stop`, perhaps only a prefix of the run.
    pub(super) fn lookup(&self, plan: &Plan, early_stop: Option<EarlyStop>) -> PlanKnowledge {
        match self.known.get(plan) {
            Some(trace) => PlanKnowledge::Executed(trace.clone()),
            None => self
                .simulation
                .simulate(plan, early_stop)
                .map_or(PlanKnowledge::Unknown, PlanKnowledge::Simulated),
        }
    }

    /// Returns the enabled threads of the latest runs, if they are known for each of them.
    pub(super) fn choices(&mut self, runs: usize) -> Vec<Vec<Choice>> {
        Some(self.runner.choices()).filter(|choices| choices.len() == runs).unwrap_or_default()
    }

    /// Records the result of a plan. A prediction must agree with it.
    pub(super) fn learn(&mut self, plan: &Plan, trace: &Trace, choices: &[Choice]) {
        self.runs += 1;
        let predicted = self.simulation.simulate(plan, None);
        if predicted.is_some_and(|predicted| !Simulation::is_right(&predicted, trace)) {
            self.simulation.distrust_events();
        }
        self.simulation.learn(trace, choices);
        self.events += trace.events.len();
        if self.events <= MAX_EVENTS {
            self.known.insert(plan.clone(), trace.clone());
        }
    }
}

/// Runs only plans with unknown results.
impl<R: Runner> Runner for Simulator<'_, R> {
    type Error = R::Error;

    fn run(&mut self, plan: &Plan) -> Result<Trace, R::Error> {
        if let PlanKnowledge::Executed(trace) = self.lookup(plan, None) {
            return Ok(trace);
        }
        let trace = self.runner.run(plan)?;
        let choices = self.choices(1).pop().unwrap_or_default();
        self.learn(plan, &trace, &choices);
        Ok(trace)
    }

    fn check_interrupt(&self) -> Result<(), R::Error> {
        self.runner.check_interrupt()
    }

    fn run_bounded(&mut self, plan: &Plan, early_stop: EarlyStop) -> Result<Trace, R::Error> {
        match self.lookup(plan, Some(early_stop)) {
            PlanKnowledge::Executed(trace) => Ok(trace),
            PlanKnowledge::Simulated(trace) => {
                self.simulated += 1;
                Ok(trace)
            }
            PlanKnowledge::Unknown => self.run(plan),
        }
    }
}
