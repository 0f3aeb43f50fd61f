//! Running plans: what everything that executes a program anew is generic over.

use crate::simulation::EarlyStop;
use unsnarl_model::{Plan, Trace};

/// Who of the first 64 threads, a bit for each, could go on at a point of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Choice {
    /// All of them.
    pub can_run: u64,
    /// Those who would rather not: they yield or spin, or their time would have to be up.
    pub yields: u64,
}

/// Runs a program by a plan, again and again. The same plan gives the same trace.
pub trait Runner {
    /// Why a plan could not be run, or why it should not be: that ends the work, and the best so far is kept.
    type Error;

    /// One run.
    ///
    /// # Errors
    /// If the program cannot be run, or the work is to end.
    fn run(&mut self, plan: &Plan) -> Result<Trace, Self::Error>;

    /// One run, of which only so much matters: if it has more context switches than are [`EarlyStop`], what comes back
    /// may end early.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    fn run_bounded(&mut self, plan: &Plan, _: EarlyStop) -> Result<Trace, Self::Error> {
        self.run(plan)
    }

    /// Whether the work may go on: what takes long without a run asks this now and then.
    ///
    /// # Errors
    /// If the work is to end.
    fn check_interrupt(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Who could go on before each event of the runs that came back last, a list for each of them; or nothing.
    fn choices(&mut self) -> Vec<Vec<Choice>> {
        Vec::new()
    }

    /// These plans, or some of them, are run next.
    fn announce_plans(&mut self, _: &[Plan]) {}

    /// Runs these plans in order until `accept` says yes to the trace of one. What comes back are the traces up to
    /// and with that one, or all of them.
    ///
    /// A runner may run several at once; but `accept` must be asked in the order of the plans, and what was run
    /// beyond the accepted one is thrown away. So the result does not depend on how many run at once.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
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
