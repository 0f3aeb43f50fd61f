//! Proofs of minimality that can be checked again.

use super::{ProofLimits, ProofVerdict, prove};
use crate::{Cost, Runner};
use unsnarl_model::{Segment, Signature, Trace};

/// No schedule has this failure with fewer context switches, or with as many and fewer preemptions.
///
/// The proof contains the result of the search, not the search itself: checking it repeats the search,
/// which must have the same result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The failure.
    pub signature: Signature,
    /// The cost of the trace.
    pub cost: Cost,
    /// The schedule, by the trace's own thread numbers.
    pub schedule: Vec<Segment>,
    /// The maximum number of consecutive points of a thread that was considered.
    pub in_a_row: u32,
    /// The number of rounds in which an idle loop was interrupted.
    pub rounds: u32,
    /// The number of runs.
    pub executions: u64,
    /// The number of states visited.
    pub states: u64,
    /// A checksum over all states.
    pub digest: u64,
}

impl Proof {
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

/// The reason why a proof does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch<E> {
    /// It belongs to another trace.
    #[error("the proof is of another trace: prove this one again")]
    OtherTrace,
    /// The schedule does not have this failure, or has it at another cost.
    #[error(
        "the schedule does not lead to the failure any more: the program or its surroundings have changed"
    )]
    NoFailure,
    /// There is a better schedule.
    #[error("there is a schedule with {} context switches and {} preemptions: simplify again", .0.switches, .0.preemptions)]
    Better(Cost),
    /// The search visited other states.
    #[error(
        "the search went through {actual} states and not {expected}: the program or its surroundings have changed"
    )]
    OtherStates {
        /// The number in the proof.
        expected: u64,
        /// The number that was found now.
        actual: u64,
    },
    /// The check was interrupted.
    #[error("the check did not come to its end")]
    Stopped(E),
}

/// Checks by a new search that the proof holds for the trace.
///
/// # Errors If it does not, with the reason.
pub fn check<R: Runner>(proof: &Proof, trace: &Trace, runner: &mut R) -> Result<(), Mismatch<R::Error>> {
    let is_of = |trace: &Trace| trace.signature() == proof.signature && Cost::of(&trace.events) == proof.cost;
    if !is_of(trace) || trace.schedule().segments != proof.schedule {
        return Err(Mismatch::OtherTrace);
    }
    let again = runner.run(&trace.replay_plan()).map_err(Mismatch::Stopped)?;
    if !is_of(&again) {
        return Err(Mismatch::NoFailure);
    }
    let Proof { in_a_row, rounds, .. } = *proof;
    let limits = ProofLimits { executions: u64::MAX, in_a_row, rounds, ..ProofLimits::default() };
    let search = prove(trace, runner, &limits, &mut |_, _| {});
    if let Some(stopped) = search.stopped {
        return Err(Mismatch::Stopped(stopped));
    }
    match search.verdict {
        ProofVerdict::Better(better) => Err(Mismatch::Better(Cost::of(&better.events))),
        ProofVerdict::Minimal(found) if (found.states, found.digest) == (proof.states, proof.digest) => {
            Ok(())
        }
        ProofVerdict::Minimal(found) => {
            Err(Mismatch::OtherStates { expected: proof.states, actual: found.states })
        }
        ProofVerdict::Unfinished => Err(Mismatch::OtherStates { expected: proof.states, actual: 0 }),
    }
}
