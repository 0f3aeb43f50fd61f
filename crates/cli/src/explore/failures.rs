//! The distinct failures of a search.

use super::found::SavedTrace;
use unsnarl_model::{Signature, Trace};

/// A failure and its number of occurrences.
pub(crate) struct Failure {
    signature: Signature,
    /// The first trace with this failure.
    pub(crate) trace: Trace,
    pub(super) times: u64,
    /// The number of the run that found it first, from 1.
    pub(crate) run: u64,
    /// The result of its replay.
    pub(super) check: String,
    pub(crate) saved: SavedTrace,
}

/// Failures with distinct signatures, in order of first occurrence.
#[derive(Default)]
pub(crate) struct Failures(pub(crate) Vec<Failure>);

impl Failures {
    /// Counts another occurrence of a known failure; returns false if it is not known.
    pub(super) fn count(&mut self, signature: &Signature) -> bool {
        let known = self.0.iter_mut().find(|known| known.signature == *signature);
        known.map(|known| known.times += 1).is_some()
    }

    pub(super) fn add(&mut self, trace: Trace, run: u64, check: String, saved: SavedTrace) {
        self.0.push(Failure { signature: trace.signature(), trace, times: 1, run, check, saved });
    }
}
