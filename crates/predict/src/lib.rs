//! Prediction of races and deadlocks in interleavings that did not happen, each with a witness.
//!
//! From one run, the analysis finds reorderings of its events that its synchronisation permits and that show
//! an error: two adjacent unordered accesses, or a cycle of threads that wait for each other. After
//! "Interleaving inference" (text: a trace model in CSP, a filter, a model checker, and replay to confirm).
//!
//! - `model/`: a window of the trace as threads of steps (section 2.1)
//! - `order.rs`, `races.rs`, `deadlocks.rs`: the filter (section 3) and the remaining candidates
//! - `lost_wake_ups.rs`: signals that are sent before any thread waits for them
//! - `sync_preserving.rs`: witnesses in near-linear time that keep the order of critical sections
//! - `search/`: witnesses by search that change it
//! - `check.rs`: a checker of all witnesses that shares no code with the above
//! - `csp.rs`: the same model as text for a refinement checker
//! - `confirm.rs`: confirmation of a witness by a run (section 2.3)
//!
//! Nothing here does I/O or starts a process: confirmation takes a [`WitnessRunner`].

#![forbid(unsafe_code)]

mod check;
mod confirm;
mod critical_sections;
mod csp;
mod deadlocks;
mod findings;
mod hash;
mod lost_wake_ups;
mod model;
mod order;
mod predict;
mod races;
mod search;
mod sync_preserving;
mod trace_inconsistency;
mod witness;

pub use check::{CheckedState, Checker, WitnessError};
pub use confirm::{
    ConfirmationResult, ConfirmationRun, ConfirmationVerdict, WitnessRunner, confirm_deadlock, confirm_race,
    is_same_race,
};
pub use csp::export;
pub use deadlocks::{PredictedDeadlock, WaitTarget, WaitingThread};
pub use findings::{ErrorSites, Statistics, WindowProgress};
pub use model::{ReadRule, SyncState};
pub use predict::{PredictOptions, Prediction, Predictor, predict};
pub use races::PredictedRace;
pub use trace_inconsistency::{InconsistencyReason, TraceInconsistency};
pub use witness::Witness;
