//! Tests of preemptions: why one is needed, shown by a run without it.

use crate::{Runner, dynamic::segment_order::prefix_of};
use unsnarl_model::{Flags, Outcome, Plan, PlannedAction, Policy, ThreadIx, Trace};

/// A preemption of a trace, and the outcome if the thread is not preempted there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreemptionTest {
    /// The number of the preempting event.
    pub event: usize,
    /// The preempted thread.
    pub thread: ThreadIx,
    /// The outcome of a run in which the thread continues until it blocks.
    pub outcome_without: Outcome,
    /// True if that is the same failure: then this preemption does not matter.
    pub still_fails: bool,
}

/// Runs the program once for each preemption of a trace, without that preemption.
///
/// # Errors If a run fails.
pub fn test_preemptions<R: Runner>(trace: &Trace, runner: &mut R) -> Result<Vec<PreemptionTest>, R::Error> {
    let preempts = |&at: &usize| trace.events[at].flags.has(Flags::PREEMPTS);
    let mut tests = Vec::new();
    for event in (1..trace.events.len()).filter(preempts) {
        let run = runner.run(&plan_without_preemption(trace, event))?;
        let still_fails = run.signature() == trace.signature();
        let thread = trace.events[event - 1].thread;
        tests.push(PreemptionTest { event, thread, outcome_without: run.outcome, still_fails });
    }
    Ok(tests)
}

/// Returns the trace's schedule, except that the thread preempted by this event continues until it blocks:
/// through its later events, and beyond. The remaining events of the other threads follow.
fn plan_without_preemption(trace: &Trace, event: usize) -> Plan {
    let thread = trace.events[event - 1].thread;
    let (before, after) = trace.events.split_at(event);
    let actions_of = |events: &[unsnarl_model::Event], own: bool| -> Vec<(ThreadIx, PlannedAction)> {
        let selected = events.iter().filter(|event| (event.thread == thread) == own);
        selected.map(|event| (event.thread, trace.action(event).into())).collect()
    };
    let mut steps: Vec<(ThreadIx, PlannedAction)> =
        before.iter().map(|event| (event.thread, trace.action(event).into())).collect();
    steps.extend(actions_of(after, true));
    steps.push((thread, PlannedAction::RunUntilBlocked));
    steps.extend(actions_of(after, false));
    Plan { prefix: prefix_of(trace, steps), tail: Policy::Fair, ..trace.plan.clone() }
}
