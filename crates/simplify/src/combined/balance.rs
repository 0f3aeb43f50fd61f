//! Weighs our own work against that of the runs.
//!
//! Both are counted, not measured, so that the result is the same on every machine. One unit is an executed event.

use super::goal::Rank;
use unsnarl_model::Trace;

/// The work of reordering one event by its dependences.
const REORDERING: u64 = 5;

/// The work that is always allowed.
const ALWAYS: u64 = 200_000;

/// The work of analyses that are worth it only where runs take as long.
#[derive(Debug, Default)]
pub(super) struct Balance {
    spent: u64,
}

impl Balance {
    /// Returns whether the orders of one more trace may be searched, beside runs of this much work; counts them if so.
    pub(super) fn allows(&mut self, trace: &Trace, orders: u64, runs: u64) -> bool {
        let more = REORDERING * orders * trace.events.len() as u64;
        let allowed = self.spent + more <= ALWAYS + runs;
        if allowed {
            self.spent += more;
        }
        allowed
    }
}

/// An executed trace, judged.
pub(super) struct Judgement {
    /// The rank that the trace has or can be given by reordering; `None` if it does not have the failure.
    pub(super) reach: Option<Rank>,
    /// The orders that keep its dependences, if they were searched.
    pub(super) orders: Option<Vec<Trace>>,
}
