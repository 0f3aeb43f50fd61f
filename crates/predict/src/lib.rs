//! Races and deadlocks in interleavings that did not happen, each with a witness.
//!
//! From one run, find reorderings of its events that its synchronisation allows and that show an error: two
//! accesses side by side that nothing orders, or threads that wait for each other in a circle. After
//! "Interleaving inference" (text: a trace model in CSP, a filter, a model checker, and replay to confirm).
//!
//! - `model/`: a window of the trace as threads of steps (section 2.1)
//! - `order.rs`, `races.rs`, `deadlocks.rs`: the filter (section 3) and what is left of it
//! - `lost_signals.rs`: signals that come before anybody waits for them
//! - `sync_preserving.rs`: witnesses in near-linear time, where the order of critical sections can stay
//! - `search/`: witnesses by search, where it cannot
//! - `check.rs`: every witness is looked at by a checker that shares no code with the above
//! - `csp.rs`: the same model as text for a refinement checker
//! - `confirm.rs`: what a run of the witness says of it (section 2.3)
//!
//! Nothing here does I/O or starts a process: confirmation takes a [`WitnessRunner`].

#![forbid(unsafe_code)]

mod check;
mod confirm;
mod critical_sections;
mod csp;
mod deadlocks;
mod findings;
mod flaw;
mod hash;
mod lost_signals;
mod model;
mod order;
mod predict;
mod races;
mod search;
mod sync_preserving;
mod witness;

pub use check::{Checker, Illegal};
pub use confirm::{
    ConfirmationResult, ConfirmationRun, ConfirmationVerdict, WitnessRunner, confirm_deadlock, confirm_race,
    is_same_race,
};
pub use csp::export;
pub use deadlocks::{PredictedDeadlock, WaitTarget, WaitingThread};
pub use findings::{ErrorSites, Statistics, WindowProgress};
pub use flaw::{Contradiction, Flaw};
pub use model::{Holding, Reads, SyncState};
pub use predict::{PredictOptions, Prediction, Predictor, predict};
pub use races::PredictedRace;
pub use witness::Witness;
