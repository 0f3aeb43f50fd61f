//! Proof of minimality: a search through all cheaper schedules.
//!
//! [`prove`] searches the schedules with fewer context switches than a failing trace has, and then those with
//! as many and fewer preemptions, at the same schedule points. Either it finds one that fails in the same
//! way; or there is none, and the trace is *proved minimal* within these points; or it exhausts its budget
//! and reports how far it got.
//!
//! The search proceeds level by level, by the number of context switches. A state is the result of a
//! schedule. From a state, each enabled thread runs as far as it can, in one run of the program, and may be
//! interrupted at every point of that run: each such point is a state of the same level, and switching away
//! from it leads to the next level. Three facts keep the search small:
//!
//! - Schedules that differ only in the order of independent events lead to the same state, which is visited
//!   once (`static_order/fingerprint.rs`).
//! - An interrupted thread need not continue before another thread has done something that its next operation
//!   depends on. Otherwise, executing that operation before the interruption needs no more
//!   switches (`pending_conflicts.rs`). That holds for context switches; it is not used when preemptions
//!   are counted.
//! - A thread that is seen to wait for a lock, a semaphore or another thread's end is known to be blocked.
//!
//! The proof assumes that every interaction between threads is an event ([`crate::static_order::relation`] lists the
//! exceptions). It holds for threads that run for at most [`ProofLimits::in_a_row`] consecutive points, and for loops
//! that wait without success for at most [`ProofLimits::rounds`] rounds.

mod level;
mod pending_conflicts;
mod proof;

pub use proof::{Mismatch, Proof, check};

use crate::{Cost, Runner};
use level::{Bound, LevelSearch};
use unsnarl_model::Trace;

/// Limits of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofLimits {
    /// The maximum number of runs.
    pub executions: u64,
    /// The maximum number of consecutive points of a thread.
    pub in_a_row: u32,
    /// The number of first rounds in which a loop that finds the same state again and again is interrupted.
    pub rounds: u32,
    /// The number of schedules handed to the runner at once.
    pub batch: usize,
}

impl Default for ProofLimits {
    fn default() -> Self {
        Self { executions: 10_000, in_a_row: 1_000, rounds: 3, batch: 32 }
    }
}

/// The verdict of a search.
#[derive(Clone, Debug)]
pub enum ProofVerdict {
    /// There is no better schedule.
    Minimal(Proof),
    /// A better schedule.
    Better(Box<Trace>),
    /// The budget is exhausted.
    Unfinished,
}

/// The result of a search, and how far it got.
#[derive(Clone, Debug)]
pub struct ProofSearchResult<E> {
    /// The verdict.
    pub verdict: ProofVerdict,
    /// The number of runs.
    pub executions: u64,
    /// No schedule with at most this many context switches has this failure; `None` if nothing is proved.
    pub switches_ruled_out: Option<u64>,
    /// The error that ended the work early.
    pub stopped: Option<E>,
}

/// Searches for a schedule with the trace's failure at a lower cost. `watch` receives the number of runs and
/// the number of context switches being tried.
pub fn prove<R: Runner>(
    trace: &Trace,
    runner: &mut R,
    limits: &ProofLimits,
    watch: &mut dyn FnMut(u64, u64),
) -> ProofSearchResult<R::Error> {
    let cost = Cost::of(&trace.events);
    let mut result = ProofSearchResult {
        verdict: ProofVerdict::Unfinished,
        executions: 0,
        switches_ruled_out: None,
        stopped: None,
    };
    let mut digest = 0;
    let mut states = 0;
    // First fewer context switches; then as many, and fewer preemptions.
    let fewer_switches =
        cost.switches.checked_sub(1).map(|switches| Bound { switches, preemptions: u64::MAX });
    let fewer_preemptions =
        cost.preemptions.checked_sub(1).map(|preemptions| Bound { switches: cost.switches, preemptions });
    for bound in [fewer_switches, fewer_preemptions].into_iter().flatten() {
        let mut search = LevelSearch::new(trace, bound, limits, result.executions);
        let found = search.run(runner, watch);
        result.executions = search.executions;
        if bound.preemptions == u64::MAX {
            result.switches_ruled_out = search.switches_ruled_out;
        }
        digest = search.digest.wrapping_add(digest);
        states += search.states;
        match found {
            Ok(level::SearchOutcome::Better(better)) => {
                result.verdict = ProofVerdict::Better(better);
                return result;
            }
            Ok(level::SearchOutcome::Nothing) => {}
            Ok(level::SearchOutcome::OutOfBudget) => return result,
            Err(stopped) => {
                result.stopped = Some(stopped);
                return result;
            }
        }
    }
    result.verdict = ProofVerdict::Minimal(Proof::new(trace, limits, result.executions, states, digest));
    result
}
