//! The goal: the same failure at a lower cost.

use crate::Cost;
use unsnarl_model::{Signature, Trace};

/// The cost of a trace and its events: the lower the better. Every result that is kept has a lower rank than the one
/// before, so simplification ends.
pub(super) type Rank = (Cost, usize);

/// Returns the value to compare: the lower the better.
pub(super) fn rank(trace: &Trace) -> Rank {
    (Cost::of(&trace.events), trace.events.len())
}

/// The failure to keep, and the best trace with it.
pub(super) struct Goal {
    pub(super) signature: Signature,
    pub(super) best: Trace,
    pub(super) rank: Rank,
}

impl Goal {
    pub(super) fn of(trace: Trace) -> Self {
        Self { signature: trace.signature(), rank: rank(&trace), best: trace }
    }

    /// Returns whether the trace has the same failure.
    pub(super) fn is_same_failure(&self, actual: &Trace) -> bool {
        actual.signature() == self.signature
    }

    /// Returns whether the trace has the same failure and is better than the best.
    pub(super) fn is_met_by(&self, actual: &Trace) -> bool {
        rank(actual) < self.rank && self.is_same_failure(actual)
    }
}
