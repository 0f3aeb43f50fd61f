//! The same plan gives the same trace: it need not be run twice.

use crate::Runner;
use std::collections::HashMap;
use unsnarl_model::{Plan, Trace};

/// Events that are remembered in all. Long traces are few: there the same plan hardly comes again.
const MOST_EVENTS: usize = 2_000_000;

/// A runner that remembers what came of each plan.
pub(super) struct Remembered<'a, R> {
    pub(super) runner: &'a mut R,
    /// How often the program was really run.
    pub(super) runs: u64,
    known: HashMap<Plan, Trace>,
    events: usize,
}

impl<'a, R> Remembered<'a, R> {
    pub(super) fn new(runner: &'a mut R) -> Self {
        Self { runner, runs: 0, known: HashMap::new(), events: 0 }
    }

    fn note(&mut self, plan: &Plan, trace: &Trace) {
        self.runs += 1;
        self.events += trace.events.len();
        if self.events <= MOST_EVENTS {
            self.known.insert(plan.clone(), trace.clone());
        }
    }
}

impl<R: Runner> Runner for Remembered<'_, R> {
    type Error = R::Error;

    fn run(&mut self, plan: &Plan) -> Result<Trace, R::Error> {
        if let Some(trace) = self.known.get(plan) {
            return Ok(trace.clone());
        }
        let trace = self.runner.run(plan)?;
        self.note(plan, &trace);
        Ok(trace)
    }

    fn run_until(
        &mut self,
        plans: &[Plan],
        accept: &mut dyn FnMut(usize, &Trace) -> bool,
    ) -> Result<Vec<Trace>, R::Error> {
        let mut traces: Vec<Trace> = Vec::new();
        let mut accepted = false;
        while traces.len() < plans.len() && !accepted {
            let left = &plans[traces.len()..];
            if let Some(trace) = self.known.get(&left[0]) {
                accepted = accept(traces.len(), trace);
                traces.push(trace.clone());
                continue;
            }
            let new = left.iter().take_while(|plan| !self.known.contains_key(plan)).count();
            let run = self.runner.run_until(&left[..new], &mut |at, trace| {
                accepted = accept(traces.len() + at, trace);
                accepted
            })?;
            left.iter().zip(&run).for_each(|(plan, trace)| self.note(plan, trace));
            traces.extend(run);
        }
        Ok(traces)
    }
}
