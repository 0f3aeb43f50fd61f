//! Runs each plan only once: the same plan yields the same trace.

use crate::Runner;
use std::collections::HashMap;
use unsnarl_model::{Plan, Trace};

/// The number of events remembered in all. Only few long traces fit, but there the same plan hardly ever
/// recurs.
const MAX_EVENTS: usize = 2_000_000;

/// A runner that remembers its runs.
pub(super) struct RunCache<'a, R> {
    pub(super) runner: &'a mut R,
    /// The number of real runs.
    pub(super) runs: u64,
    traces: HashMap<Plan, Trace>,
    events: usize,
}

impl<'a, R: Runner> RunCache<'a, R> {
    pub(super) fn new(runner: &'a mut R) -> Self {
        Self { runner, runs: 0, traces: HashMap::new(), events: 0 }
    }

    /// Returns the trace of a plan that was run before.
    pub(super) fn get(&self, plan: &Plan) -> Option<&Trace> {
        self.traces.get(plan)
    }

    /// Records the result of a run.
    pub(super) fn insert(&mut self, plan: &Plan, trace: &Trace) {
        self.runs += 1;
        self.events += trace.events.len();
        if self.events <= MAX_EVENTS {
            self.traces.insert(plan.clone(), trace.clone());
        }
    }
}

impl<R: Runner> Runner for RunCache<'_, R> {
    type Error = R::Error;

    fn run(&mut self, plan: &Plan) -> Result<Trace, R::Error> {
        if let Some(trace) = self.get(plan) {
            return Ok(trace.clone());
        }
        let trace = self.runner.run(plan)?;
        self.insert(plan, &trace);
        Ok(trace)
    }

    fn check_interrupt(&self) -> Result<(), R::Error> {
        self.runner.check_interrupt()
    }
}
