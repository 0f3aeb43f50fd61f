//! Whether there is a better schedule at all: a search through all that ask for less.
//!
//! [`prove`] goes through the schedules with fewer context switches than a failing trace has, and then through
//! those with as many and fewer preemptions, at the same schedule points. Either it finds one that fails in the
//! same way; or there is none, and the trace is *proved minimal* within these points; or it runs out of its
//! budget, and says how far it got.
//!
//! The search is level by level, by the number of context switches. A state is what a schedule leads to. From a
//! state, each thread that can runs as far as it can, by one run of the program, and everywhere on its way it may
//! be interrupted: each of these is a state of the same level, and switching away from it leads to the next level.
//! Three things keep it small:
//!
//! - Schedules that differ only in the order of events that do not depend on each other lead to the same state,
//!   and it is gone into once (`static_order/fingerprint.rs`).
//! - Who is interrupted need not go on before somebody has done something that its next operation depends on:
//!   otherwise it might as well have done that operation before it was interrupted, at no more switches
//!   (`pending_conflicts.rs`). That holds for context switches; where preemptions are counted it is not used.
//! - Of threads that are seen to wait for a lock, a count or another thread's end, it is known that they cannot
//!   run.
//!
//! What is proved is proved as far as the events tell the whole story (see [`crate::static_order::relation`] on what they
//! do not tell), for threads that run no longer than [`ProofLimits::in_a_row`] points at a stretch, and for loops that
//! wait for something in vain no more often than [`ProofLimits::rounds`].

mod certificate;
mod level;
mod pending_conflicts;

pub use certificate::{Certificate, Mismatch, check};

use crate::{Cost, Runner};
use level::{Bound, LevelSearch};
use unsnarl_model::Trace;

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofLimits {
    /// No more runs than this.
    pub executions: u64,
    /// No thread is expected to run for longer than so many points without being interrupted.
    pub in_a_row: u32,
    /// A loop that finds the same thing over and over is interrupted in its first so many rounds only.
    pub rounds: u32,
    /// How many schedules are handed to the runner at once.
    pub batch: usize,
}

impl Default for ProofLimits {
    fn default() -> Self {
        Self { executions: 10_000, in_a_row: 1_000, rounds: 3, batch: 32 }
    }
}

/// What came of a search.
#[derive(Clone, Debug)]
pub enum ProofVerdict {
    /// There is no better schedule.
    Minimal(Certificate),
    /// Here is one.
    Better(Box<Trace>),
    /// The budget was used up.
    Unfinished,
}

/// A search, and how far it got.
#[derive(Clone, Debug)]
pub struct Proof<E> {
    /// What came of it.
    pub verdict: ProofVerdict,
    /// How often the program was run.
    pub executions: u64,
    /// No schedule with at most so many context switches fails in this way, if any number is proved.
    pub switches_ruled_out: Option<u64>,
    /// What ended the work early.
    pub stopped: Option<E>,
}

/// Looks for a schedule that fails as the trace does at a lower cost. `watch` is told how many runs there were, and
/// how many context switches are being tried.
pub fn prove<R: Runner>(
    trace: &Trace,
    runner: &mut R,
    limits: &ProofLimits,
    watch: &mut dyn FnMut(u64, u64),
) -> Proof<R::Error> {
    let cost = Cost::of(&trace.events);
    let mut proof =
        Proof { verdict: ProofVerdict::Unfinished, executions: 0, switches_ruled_out: None, stopped: None };
    let mut digest = 0;
    let mut states = 0;
    // First fewer context switches; then as many, and fewer preemptions.
    let fewer_switches =
        cost.switches.checked_sub(1).map(|switches| Bound { switches, preemptions: u64::MAX });
    let fewer_preemptions =
        cost.preemptions.checked_sub(1).map(|preemptions| Bound { switches: cost.switches, preemptions });
    for bound in [fewer_switches, fewer_preemptions].into_iter().flatten() {
        let mut search = LevelSearch::new(trace, bound, limits, proof.executions);
        let found = search.run(runner, watch);
        proof.executions = search.executions;
        if bound.preemptions == u64::MAX {
            proof.switches_ruled_out = search.switches_ruled_out;
        }
        digest = search.digest.wrapping_add(digest);
        states += search.states;
        match found {
            Ok(level::SearchOutcome::Better(better)) => {
                proof.verdict = ProofVerdict::Better(better);
                return proof;
            }
            Ok(level::SearchOutcome::Nothing) => {}
            Ok(level::SearchOutcome::OutOfBudget) => return proof,
            Err(stopped) => {
                proof.stopped = Some(stopped);
                return proof;
            }
        }
    }
    proof.verdict = ProofVerdict::Minimal(Certificate::new(trace, limits, proof.executions, states, digest));
    proof
}
