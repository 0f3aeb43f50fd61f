//! What a failure depends on, without the rest.
//!
//! A crash, a failed assertion or an exit is one thread's doing: it follows that thread's last event, whatever the
//! others do after what it depends on. So the events that no path of the dependence graph leads from can be left
//! out, and the failure follows all the same. That is Tinertia's *Remove Last* for all threads at once and
//! without a run.

use super::{Granularity, Graph, Rules, reorder::reordered};
use unsnarl_model::{OutcomeKind, ThreadIx, Trace, Wait};

/// The trace without the events that its failure does not depend on; none if all of them may matter.
#[must_use]
pub fn causal_past(trace: &Trace, rules: Rules) -> Option<Trace> {
    let roots = roots(trace)?;
    // What comes last does so by time only, not because it needs the others.
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

/// The threads whose last events the failure follows; none if it is everybody's doing.
fn roots(trace: &Trace) -> Option<Vec<ThreadIx>> {
    let last = trace.events.last()?.thread;
    match trace.outcome.kind {
        OutcomeKind::Signal(_)
        | OutcomeKind::Assertion
        | OutcomeKind::Abort
        | OutcomeKind::Exception
        | OutcomeKind::Panic => Some(vec![trace.outcome.thread.unwrap_or(last)]),
        OutcomeKind::Exit(_) => Some(vec![last]),
        OutcomeKind::Deadlock => circle(&trace.outcome.waits, last),
        OutcomeKind::Livelock
        | OutcomeKind::Timeout
        | OutcomeKind::Race
        | OutcomeKind::Misuse
        | OutcomeKind::Check => None,
    }
}

/// The threads that wait for each other, the one that came last among them.
fn circle(waits: &[Wait], last: ThreadIx) -> Option<Vec<ThreadIx>> {
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
