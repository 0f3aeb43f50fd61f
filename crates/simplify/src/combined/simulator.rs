//! Running only what is not known: the same plan gives the same trace, and what comes of many others can be told.

use crate::{
    Choice, Runner,
    simulation::{EarlyStop, Simulation},
};
use std::collections::HashMap;
use unsnarl_model::{Plan, Trace};

/// Events that are remembered in all. Long traces are few: there the same plan hardly comes again.
const MAX_EVENTS: usize = 2_000_000;

/// A runner that learns from all runs.
pub(super) struct Simulator<'a, R> {
    pub(super) runner: &'a mut R,
    /// How often the program was really run.
    pub(super) runs: u64,
    /// Of how many plans it was known what comes of them.
    pub(super) simulated: u64,
    simulation: Simulation,
    known: HashMap<Plan, Trace>,
    events: usize,
}

/// What is known of a plan.
pub(super) enum PlanKnowledge {
    /// It was run.
    Executed(Trace),
    /// This would come of it.
    Simulated(Trace),
    Unknown,
}

impl<'a, R: Runner> Simulator<'a, R> {
    /// For runs like this one.
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

    /// Nothing is told any more of what was not run.
    pub(super) fn disable_simulation(&mut self) {
        self.simulation.disable();
    }

    /// How often something that was told may have been wrong.
    pub(super) const fn mispredictions(&self) -> u32 {
        self.simulation.mispredictions()
    }

    /// What is known of a plan; with `early_stop`, perhaps only the beginning.
    pub(super) fn lookup(&self, plan: &Plan, early_stop: Option<EarlyStop>) -> PlanKnowledge {
        match self.known.get(plan) {
            Some(trace) => PlanKnowledge::Executed(trace.clone()),
            None => self
                .simulation
                .simulate(plan, early_stop)
                .map_or(PlanKnowledge::Unknown, PlanKnowledge::Simulated),
        }
    }

    /// Who could go on in the latest runs, if that is told of each of them.
    pub(super) fn choices(&mut self, runs: usize) -> Vec<Vec<Choice>> {
        Some(self.runner.choices()).filter(|choices| choices.len() == runs).unwrap_or_default()
    }

    /// This came of a plan. What was told of it must be the same.
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

/// Runs only what is not known.
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
