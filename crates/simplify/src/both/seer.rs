//! Running only what is not known: the same plan gives the same trace, and what comes of many others can be told.

use crate::{
    Choice, Runner,
    foresee::{Enough, Foresight},
};
use std::collections::HashMap;
use unsnarl_model::{Plan, Trace};

/// Events that are remembered in all. Long traces are few: there the same plan hardly comes again.
const MOST_EVENTS: usize = 2_000_000;

/// A runner that learns from all runs.
pub(super) struct Seer<'a, R> {
    pub(super) runner: &'a mut R,
    /// How often the program was really run.
    pub(super) runs: u64,
    /// Of how many plans it was known what comes of them.
    pub(super) foreseen: u64,
    foresight: Foresight,
    known: HashMap<Plan, Trace>,
    events: usize,
}

/// What is known of a plan.
pub(super) enum Known {
    /// It was run.
    Ran(Trace),
    /// This would come of it.
    Would(Trace),
    No,
}

impl<'a, R: Runner> Seer<'a, R> {
    /// For runs like this one.
    pub(super) fn new(trace: &Trace, runner: &'a mut R) -> Self {
        Self {
            runner,
            runs: 0,
            foreseen: 0,
            foresight: Foresight::of(trace),
            known: HashMap::new(),
            events: 0,
        }
    }

    /// Nothing is told any more of what was not run.
    pub(super) fn lose_foresight(&mut self) {
        self.foresight.lose();
    }

    /// How often something that was told may have been wrong.
    pub(super) const fn doubts(&self) -> u32 {
        self.foresight.doubts()
    }

    /// What is known of a plan; with `enough`, perhaps only the beginning.
    pub(super) fn know(&self, plan: &Plan, enough: Option<Enough>) -> Known {
        match self.known.get(plan) {
            Some(trace) => Known::Ran(trace.clone()),
            None => self.foresight.tell(plan, enough).map_or(Known::No, Known::Would),
        }
    }

    /// Who could go on in the latest runs, if that is told of each of them.
    pub(super) fn choices(&mut self, runs: usize) -> Vec<Vec<Choice>> {
        Some(self.runner.choices()).filter(|choices| choices.len() == runs).unwrap_or_default()
    }

    /// This came of a plan. What was told of it must be the same.
    pub(super) fn learn(&mut self, plan: &Plan, trace: &Trace, choices: &[Choice]) {
        self.runs += 1;
        let told = self.foresight.tell(plan, None);
        if told.is_some_and(|told| !Foresight::is_right(&told, trace)) {
            self.foresight.doubt();
        }
        self.foresight.learn(trace, choices);
        self.events += trace.events.len();
        if self.events <= MOST_EVENTS {
            self.known.insert(plan.clone(), trace.clone());
        }
    }
}

/// Runs only what is not known.
impl<R: Runner> Runner for Seer<'_, R> {
    type Error = R::Error;

    fn run(&mut self, plan: &Plan) -> Result<Trace, R::Error> {
        if let Known::Ran(trace) = self.know(plan, None) {
            return Ok(trace);
        }
        let trace = self.runner.run(plan)?;
        let choices = self.choices(1).pop().unwrap_or_default();
        self.learn(plan, &trace, &choices);
        Ok(trace)
    }

    fn go_on(&self) -> Result<(), R::Error> {
        self.runner.go_on()
    }

    fn run_as_far(&mut self, plan: &Plan, enough: Enough) -> Result<Trace, R::Error> {
        match self.know(plan, Some(enough)) {
            Known::Ran(trace) => Ok(trace),
            Known::Would(trace) => {
                self.foreseen += 1;
                Ok(trace)
            }
            Known::No => self.run(plan),
        }
    }
}
