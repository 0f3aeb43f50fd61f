//! Which plan to run next.
//!
//! A [`Strategy`] decides *between* runs; inside a run the plan's policy does. It starts no process
//! itself: whoever drives it runs the plans.

#![forbid(unsafe_code)]

mod random;

pub use random::Random;

use unsnarl_model::Plan;

/// An order in which to try plans.
///
/// The lifecycle: [`next`](Self::next) is asked for a plan, the plan is run, and so on until a run fails,
/// the budget is used up, or the strategy has nothing left to try.
pub trait Strategy: std::fmt::Debug {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// The next plan; none if everything was tried.
    fn next(&mut self) -> Option<Plan>;
}
