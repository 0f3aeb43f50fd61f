//! The fewest context switches that still fail.
//!
//! A failing trace with hundreds of context switches becomes one with the two or three that matter.
//! [`static_order`] changes the order of its events without running anything; [`dynamic`] changes the schedule and
//! runs it; [`combined`] does the one and then the other;
//! [`simulation`] tells what comes of a schedule without running it;
//! [`prove`] tells whether there is anything better, and [`test_preemptions`] what the preemptions that are left are for.
//!
//! Nothing here does I/O or starts a process: what needs to run a plan takes a [`Runner`], so that every
//! algorithm is tested on programs in memory as well as on real ones.

#![forbid(unsafe_code)]

pub mod combined;
mod cost;
pub mod dynamic;
mod preemption_test;
pub mod prove;
mod run;
pub mod simulation;
pub mod static_order;

pub use cost::Cost;
pub use preemption_test::{PreemptionTest, test_preemptions};
pub use run::{Choice, Runner};
