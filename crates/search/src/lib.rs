//! Which plan to run next.
//!
//! A [`Strategy`] decides *between* runs; inside a run the plan's policy does. It starts no process
//! itself: whoever drives it runs the plans and tells it what came of them.

#![forbid(unsafe_code)]

mod pct;
mod portfolio;
mod walk;

pub use pct::Pct;
pub use portfolio::Portfolio;
pub use walk::Walk;

use unsnarl_model::Plan;

/// An order in which to try plans.
///
/// The lifecycle: [`next`](Self::next) is asked for a plan, the plan is run, [`learn`](Self::learn) is told
/// of it, and so on until a run fails, the budget is used up, or the strategy has nothing left to try.
pub trait Strategy: std::fmt::Debug {
    /// Its name on the command line.
    fn name(&self) -> String;

    /// The next plan; none if everything was tried.
    fn next(&mut self) -> Option<Plan>;

    /// What came of the last plan.
    fn learn(&mut self, _seen: &Seen) {}
}

/// What a strategy gets to know of a run.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// How many points it had.
    pub points: u64,
}
