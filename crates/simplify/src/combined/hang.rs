//! Hangs: a run that never ends must not be one that merely was not allowed to.
//!
//! A schedule that lets one thread poll until the limit looks like a hang, although the threads that would end it never
//! got to run. So a schedule with a hang counts only if the program still hangs when its prefix ends where the last
//! thing happened, and everybody is served from then on. Of a livelock that run is kept, because its rounds are fair.

use super::{Simplifier, rounds::repeated_rounds};
use crate::{
    Runner,
    dynamic::{Transformation, segment_order::relaxed_plan},
    livelock::{is_livelock, waits},
};
use unsnarl_model::{Plan, Trace};

impl<R: Runner> Simplifier<'_, R> {
    /// Makes an executed trace the best one, if it is better; returns whether it is.
    pub(super) fn accept(&mut self, actual: Trace, transformation: Transformation) -> Result<bool, R::Error> {
        if !self.goal.is_met_by(&actual) {
            return Ok(false);
        }
        let Some(fair) = fair_plan(&actual) else {
            self.adopt(actual, transformation);
            return Ok(true);
        };
        if self.runs_left() == 0 {
            return Ok(false);
        }
        let served = self.execute(&fair)?;
        let is_hang = self.goal.is_same_failure(&served);
        let kept = if is_livelock(&actual) { served } else { actual };
        let is_better = is_hang && self.goal.is_met_by(&kept);
        if is_better {
            self.adopt(kept, transformation);
        }
        Ok(is_better)
    }
}

/// Returns the plan of a hang up to the last event that changed something, without the rounds that its threads waited
/// until then, and with a fair end; `None` for other failures, and for runs that keep changing something.
fn fair_plan(trace: &Trace) -> Option<Plan> {
    if !is_livelock(trace) && trace.outcome.limit().is_none() {
        return None;
    }
    let mut is_repeated = vec![false; trace.events.len()];
    repeated_rounds(trace).into_iter().for_each(|at| is_repeated[at] = true);
    let is_idle = |at: &usize| is_repeated[*at] || waits(&trace.events[*at]);
    let end = (0..trace.events.len()).rfind(|at| !is_idle(at)).map_or(0, |last| last + 1);
    let order: Vec<usize> = (0..end).filter(|&at| !is_repeated[at]).collect();
    (order.len() < trace.events.len()).then(|| relaxed_plan(trace, &order, &[]))
}
