//! Running plans: the interface of everything that runs the program again.

use unsnarl_model::{Plan, Trace};

/// Runs a program by plans. The same plan yields the same trace.
pub trait Runner {
    /// Why a plan could not be run, or why work must stop: it ends the work, and the best result so far is
    /// kept.
    type Error;

    /// Runs the plan.
    ///
    /// # Errors If the program cannot be run, or the work must stop.
    fn run(&mut self, plan: &Plan) -> Result<Trace, Self::Error>;

    /// Checks whether the work may continue; long computations without runs call this now and then.
    ///
    /// # Errors If the work must stop.
    fn check_interrupt(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Announces plans, some or all of which are run next.
    fn announce_plans(&mut self, _: &[Plan]) {}

    /// Runs these plans in order until `accept` returns true for a trace. Returns the traces up to and
    /// including that one, or all of them.
    ///
    /// A runner may run several at once; but `accept` must be called in the order of the plans, and runs
    /// beyond the accepted one are discarded. So the result does not depend on how many run at once.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`run`](Self::run).
    fn run_until(
        &mut self,
        plans: &[Plan],
        accept: &mut dyn FnMut(usize, &Trace) -> bool,
    ) -> Result<Vec<Trace>, Self::Error> {
        let mut traces = Vec::new();
        for (at, plan) in plans.iter().enumerate() {
            let trace = self.run(plan)?;
            let accepted = accept(at, &trace);
            traces.push(trace);
            if accepted {
                break;
            }
        }
        Ok(traces)
    }
}
