//! The distinct failures of a search.

use unsnarl_model::{Signature, Trace};

/// A failure and its number of occurrences.
pub(crate) struct Failure {
    signature: Signature,
    /// The first trace with this failure.
    pub(crate) trace: Trace,
    pub(super) times: u64,
    /// The number of the run that found it first, from 1.
    pub(crate) run: u64,
}

/// Failures with distinct signatures, in order of first occurrence.
#[derive(Default)]
pub(crate) struct Failures(pub(crate) Vec<Failure>);

impl Failures {
    pub(super) fn add(&mut self, trace: Trace, run: u64) {
        let signature = trace.signature();
        match self.0.iter_mut().find(|known| known.signature == signature) {
            Some(known) => known.times += 1,
            None => self.0.push(Failure { signature, trace, times: 1, run }),
        }
    }
}
