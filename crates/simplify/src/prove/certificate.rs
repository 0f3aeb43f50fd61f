//! That a trace is minimal, in a form that can be checked again.

use super::{ProofLimits, ProofVerdict, prove};
use crate::{Cost, Runner};
use unsnarl_model::{Segment, Signature, Trace};

/// No schedule fails in this way with fewer context switches, or with as many and fewer preemptions.
///
/// It does not hold the search, but what the search came to: who checks it searches again and must come to the
/// same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// What failure.
    pub signature: Signature,
    /// What the trace costs.
    pub cost: Cost,
    /// Its schedule, by the trace's own numbers of threads.
    pub schedule: Vec<Segment>,
    /// How long a thread was expected to run at a stretch.
    pub in_a_row: u32,
    /// In how many rounds an idle loop was interrupted.
    pub rounds: u32,
    /// How often the program was run.
    pub executions: u64,
    /// How many states were gone through.
    pub states: u64,
    /// A sum over all of them.
    pub digest: u64,
}

impl Certificate {
    pub(super) fn new(
        trace: &Trace,
        limits: &ProofLimits,
        executions: u64,
        states: u64,
        digest: u64,
    ) -> Self {
        Self {
            signature: trace.signature(),
            cost: Cost::of(&trace.events),
            schedule: trace.schedule().segments,
            in_a_row: limits.in_a_row,
            rounds: limits.rounds,
            executions,
            states,
            digest,
        }
    }
}

/// Why a certificate does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch<E> {
    /// It is of something else.
    #[error("the certificate is of another trace: prove this one again")]
    OtherTrace,
    /// The schedule does not fail in this way, or at another cost.
    #[error(
        "the schedule does not lead to the failure any more: the program or its surroundings have changed"
    )]
    NoFailure,
    /// There is a better schedule.
    #[error("there is a schedule with {} context switches and {} preemptions: simplify again", .0.switches, .0.preemptions)]
    Better(Cost),
    /// The search went another way.
    #[error(
        "the search went through {actual} states and not {expected}: the program or its surroundings have changed"
    )]
    OtherStates {
        /// As the certificate says.
        expected: u64,
        /// As it turned out.
        actual: u64,
    },
    /// It could not be checked.
    #[error("the check did not come to its end")]
    Stopped(E),
}

/// Searches again: whether the certificate holds for the trace.
///
/// # Errors
/// If it does not, with the reason.
pub fn check<R: Runner>(
    certificate: &Certificate,
    trace: &Trace,
    runner: &mut R,
) -> Result<(), Mismatch<R::Error>> {
    let is_of = |trace: &Trace| {
        trace.signature() == certificate.signature && Cost::of(&trace.events) == certificate.cost
    };
    if !is_of(trace) || trace.schedule().segments != certificate.schedule {
        return Err(Mismatch::OtherTrace);
    }
    let again = runner.run(&trace.replay_plan()).map_err(Mismatch::Stopped)?;
    if !is_of(&again) {
        return Err(Mismatch::NoFailure);
    }
    let Certificate { in_a_row, rounds, .. } = *certificate;
    let limits = ProofLimits { executions: u64::MAX, in_a_row, rounds, ..ProofLimits::default() };
    let proof = prove(trace, runner, &limits, &mut |_, _| {});
    if let Some(stopped) = proof.stopped {
        return Err(Mismatch::Stopped(stopped));
    }
    match proof.verdict {
        ProofVerdict::Better(better) => Err(Mismatch::Better(Cost::of(&better.events))),
        ProofVerdict::Minimal(found)
            if (found.states, found.digest) == (certificate.states, certificate.digest) =>
        {
            Ok(())
        }
        ProofVerdict::Minimal(found) => {
            Err(Mismatch::OtherStates { expected: certificate.states, actual: found.states })
        }
        ProofVerdict::Unfinished => Err(Mismatch::OtherStates { expected: certificate.states, actual: 0 }),
    }
}
