//! Runs each plan only once: the same plan yields the same trace.

use super::goal::Rank;
use crate::{Runner, static_order::hash::NumberHasher};
use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
};
use unsnarl_model::{Plan, Trace};

/// The number of events remembered in all. Of other runs only the result is remembered.
const MAX_EVENTS: usize = 2_000_000;

/// The work of a run apart from its events, in events.
const RUN: u64 = 5_000;

/// The result of a run.
pub(super) struct KnownRun {
    /// The rank that the trace has, or can be given by reordering, if it has been judged; inside, `None` if it fails in
    /// another way or not at all.
    pub(super) reach: Option<Option<Rank>>,
    pub(super) trace: Option<Trace>,
}

/// A runner that remembers its runs.
pub(super) struct RunCache<'a, R> {
    pub(super) runner: &'a mut R,
    /// The number of real runs.
    pub(super) runs: u64,
    /// The work of all runs, in events.
    pub(super) work: u64,
    known: HashMap<u64, KnownRun>,
    events: usize,
}

impl<'a, R: Runner> RunCache<'a, R> {
    pub(super) fn new(runner: &'a mut R) -> Self {
        Self { runner, runs: 0, work: 0, known: HashMap::new(), events: 0 }
    }

    /// Returns the result of a plan that was run before.
    pub(super) fn get(&self, plan: &Plan) -> Option<&KnownRun> {
        self.known.get(&key(plan))
    }

    pub(super) fn get_mut(&mut self, plan: &Plan) -> Option<&mut KnownRun> {
        self.known.get_mut(&key(plan))
    }

    /// Records the result of a run.
    pub(super) fn insert(&mut self, plan: &Plan, trace: &Trace, reach: Option<Option<Rank>>) {
        self.insert_at(key(plan), trace, reach);
    }

    fn insert_at(&mut self, key: u64, trace: &Trace, reach: Option<Option<Rank>>) {
        self.runs += 1;
        self.work += work_of(trace);
        self.events += trace.events.len();
        let trace = (self.events <= MAX_EVENTS).then(|| trace.clone());
        self.known.insert(key, KnownRun { reach, trace });
    }

    /// Returns the trace of a plan. `reach` judges it if it was not run before.
    pub(super) fn run(
        &mut self,
        plan: &Plan,
        reach: impl FnOnce(&Trace) -> Option<Option<Rank>>,
    ) -> Result<Trace, R::Error> {
        let key = key(plan);
        if let Some(KnownRun { trace: Some(trace), .. }) = self.known.get(&key) {
            return Ok(trace.clone());
        }
        let trace = self.runner.run(plan)?;
        self.insert_at(key, &trace, reach(&trace));
        Ok(trace)
    }
}

/// Returns the work of a run, in events.
pub(super) fn work_of(trace: &Trace) -> u64 {
    RUN + trace.events.len() as u64
}

/// Returns what distinguishes the plans of one simplification: their schedules.
fn key(plan: &Plan) -> u64 {
    let mut hasher = NumberHasher::default();
    plan.prefix.hash(&mut hasher);
    hasher.finish()
}
