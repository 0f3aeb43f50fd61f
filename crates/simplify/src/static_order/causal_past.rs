//! The causal past of a failure: the events it depends on.
//!
//! A crash, a failed assertion or an exit is caused by one thread: it follows that thread's last event,
//! whatever the other threads do beyond the events that it depends on. So events without a path in the
//! dependence graph to the failure can be left out without changing it. That is Tinertia's *Remove Last* for
//! all threads at once and without a run.

use super::{Granularity, Graph, Rules, reorder::reordered};
use unsnarl_model::{OutcomeKind, ThreadIx, Trace, Wait};

/// Returns the trace without the events that its failure does not depend on; `None` if all of them may
/// matter.
#[must_use]
pub fn causal_past(trace: &Trace, rules: Rules) -> Option<Trace> {
    let roots = roots(trace)?;
    // The last event is last only in time, not because it depends on the others.
    let graph = Graph::of_trace(&trace.events, Rules { end: false, ..rules }, Granularity::Event);
    let needed = graph.events_before(&roots);
    let mut seen = vec![0; needed.len()];
    let order: Vec<usize> = (0..trace.events.len())
        .filter(|&at| {
            let thread = trace.events[at].thread.index();
            seen[thread] += 1;
            seen[thread] <= needed[thread]
        })
        .collect();
    (order.len() < trace.events.len()).then(|| reordered(trace, &order))
}

/// Returns the threads whose last events the failure follows; `None` if all threads are involved.
fn roots(trace: &Trace) -> Option<Vec<ThreadIx>> {
    let last = trace.events.last()?.thread;
    match trace.outcome.kind {
        OutcomeKind::Signal(_)
        | OutcomeKind::Assertion
        | OutcomeKind::Abort
        | OutcomeKind::Exception
        | OutcomeKind::Panic => Some(vec![trace.outcome.thread.unwrap_or(last)]),
        OutcomeKind::Exit(_) => Some(vec![last]),
        OutcomeKind::Deadlock => wait_cycle(&trace.outcome.waits, last),
        OutcomeKind::Livelock
        | OutcomeKind::Undecided(_)
        | OutcomeKind::Race
        | OutcomeKind::Misuse
        | OutcomeKind::Check => None,
    }
}

/// Returns the cycle of threads that wait for each other, starting with the last one to block.
fn wait_cycle(waits: &[Wait], last: ThreadIx) -> Option<Vec<ThreadIx>> {
    let mut members = vec![last];
    loop {
        let wait = waits.iter().find(|wait| Some(&wait.thread) == members.last())?;
        match wait.holders.first()? {
            &holder if holder == last => return Some(members),
            holder if members.contains(holder) => return None,
            &holder => members.push(holder),
        }
    }
}
