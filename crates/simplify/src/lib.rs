//! Trace simplification: the fewest context switches that still fail.
//!
//! A failing trace with hundreds of context switches becomes one with the two or three that matter.
//! [`static_order`] reorders its events without running anything; [`dynamic`] changes the schedule and runs
//! it; [`combined`] does both in turn. [`prove`] determines whether there is anything better; [`test_preemptions`] determines the effect of each
//! remaining preemption.
//!
//! Nothing here does I/O or starts a process. Algorithms that run plans take a [`Runner`], so each of them is
//! tested on programs in memory as well as on real ones.

#![forbid(unsafe_code)]

pub mod combined;
mod cost;
pub mod dynamic;
mod livelock;
mod preemption_test;
pub mod prove;
mod run;
pub mod static_order;

pub use cost::Cost;
pub use preemption_test::{PreemptionTest, test_preemptions};
pub use run::Runner;
