//! Rounds of a loop that waits: if a round changes nothing and the next one finds the same values, it can be left out.
//!
//! A thread that polls a variable, tries a lock or sleeps until something has happened executes the same operations
//! with the same results again and again. Such rounds say nothing about the failure, and each may add two context
//! switches.

use super::Simplifier;
use crate::{
    Runner,
    dynamic::{Transformation, segment_order::relaxed_plan},
    livelock::waits,
};
use unsnarl_model::{Event, Flags, Op, ThreadIx, Trace};

/// The maximum number of events of a round.
const MAX_PERIOD: usize = 16;

impl<R: Runner> Simplifier<'_, R> {
    /// Leaves out repeated rounds: of all threads, or else of one; returns whether that improved the best trace.
    pub(super) fn drop_rounds(&mut self) -> Result<bool, R::Error> {
        let base = self.goal.best.clone();
        let repeated = repeated_rounds(&base);
        let mut threads: Vec<ThreadIx> = repeated.iter().map(|&at| base.events[at].thread).collect();
        threads.sort_unstable();
        threads.dedup();
        let each = threads.iter().copied().map(Some).filter(|_| threads.len() > 1);
        let choices: Vec<Option<ThreadIx>> =
            (!threads.is_empty()).then_some(None).into_iter().chain(each).collect();
        for choice in choices {
            if self.runs_left() == 0 {
                break;
            }
            let mut is_kept = vec![true; base.events.len()];
            let dropped =
                repeated.iter().filter(|&&at| choice.is_none_or(|thread| base.events[at].thread == thread));
            dropped.for_each(|&at| is_kept[at] = false);
            let order: Vec<usize> = (0..base.events.len()).filter(|&at| is_kept[at]).collect();
            let plan = relaxed_plan(&base, &order, &[]);
            if self.is_known_useless(&plan) {
                continue;
            }
            let actual = self.execute(&plan)?;
            if self.accept(actual, Transformation::RemoveLast)? {
                self.reorder_best_if_worth_it()?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the events of rounds that repeat the one before.
pub(super) fn repeated_rounds(trace: &Trace) -> Vec<usize> {
    let mut of_threads: Vec<Vec<usize>> = vec![Vec::new(); trace.threads.len()];
    trace.events.iter().enumerate().for_each(|(at, event)| of_threads[event.thread.index()].push(at));
    let mut repeated = Vec::new();
    for own in of_threads {
        let event = |at: usize| &trace.events[own[at]];
        let mut at = 0;
        while at < own.len() {
            let is_period = |&period: &usize| {
                at + 2 * period <= own.len()
                    && (at..at + period)
                        .all(|at| may_repeat(event(at)) && is_same(event(at), event(at + period)))
                    && (at..at + period).any(|at| waits(event(at)))
            };
            let Some(period) = (1..=MAX_PERIOD).find(is_period) else {
                at += 1;
                continue;
            };
            let mut next = at + period;
            while next < own.len() && is_same(event(next), event(next - period)) {
                next += 1;
            }
            let end = next - (next - at) % period;
            // Two equal rounds say no less than one, and it would take a run to find out.
            if end - at > 2 * period {
                repeated.extend_from_slice(&own[at + period..end]);
            }
            at = end;
        }
    }
    repeated
}

/// Returns whether an event may be part of a round: it waits, or belongs to what surrounds a check.
fn may_repeat(event: &Event) -> bool {
    waits(event) || matches!(event.op, Op::Lock | Op::Unlock | Op::CondWait)
}

/// Returns whether two events of a thread do the same with the same result.
fn is_same(a: &Event, b: &Event) -> bool {
    let result = |event: &Event| event.flags.0 & !Flags::PREEMPTS.0;
    (a.op, a.site, a.addr, a.value, result(a)) == (b.op, b.site, b.addr, b.value, result(b))
}
