//! Checks the dependence relation on real runs: two adjacent events of different threads that are independent can be
//! swapped, and the run replays to the same end.

use crate::check::run;
use unsnarl_exec::Executor;
use unsnarl_model::{Event, Fidelity, ObjectKind, Plan, Policy, Schedule, Trace};
use unsnarl_semantics::{
    Touch, depend,
    dependence::{Relation, Rules},
};

/// The number of pairs that are swapped in a trace.
const SWAPS: usize = 4;

/// Replays the trace with some pairs of adjacent, independent events swapped, each in a run of its own.
pub(crate) fn check(executor: &mut Executor, trace: &Trace) -> Result<(), String> {
    // Uninstrumented code synchronises by futexes, and what it accesses between events is no event.
    if trace.events.iter().any(|event| event.op.object_kind() == Some(ObjectKind::Futex)) {
        return Ok(());
    }
    let touches = touches(trace);
    let thread = |at: usize| trace.events[at].thread;
    // The last event stays last: the failure follows it.
    let independent: Vec<usize> = (0..trace.events.len().saturating_sub(2))
        .filter(|&at| thread(at) != thread(at + 1))
        .filter(|&at| !is_library_call(&trace.events[at]) && !is_library_call(&trace.events[at + 1]))
        .filter(|&at| !depend((thread(at), &touches[at]), (thread(at + 1), &touches[at + 1])))
        .collect();
    let step = independent.len().div_ceil(SWAPS).max(1);
    for &at in independent.iter().step_by(step) {
        let mut events = trace.events.clone();
        events.swap(at, at + 1);
        let again = run(executor, &plan(trace, &events))?;
        let (a, b) = (&trace.events[at], &trace.events[at + 1]);
        let pair = || format!("events {at} {:?} and {} {:?} are independent", a.op, at + 1, b.op);
        if (again.outcome.kind, &again.outcome.message) != (trace.outcome.kind, &trace.outcome.message) {
            let Trace { outcome, .. } = again;
            return Err(format!(
                "{}, but swapped the run ends by {:?} {}",
                pair(),
                outcome.kind,
                outcome.message
            ));
        }
        let actions = |trace: &Trace, events: &[Event]| -> Vec<_> {
            events.iter().map(|event| (trace.thread_id(event.thread).clone(), trace.action(event))).collect()
        };
        if actions(&again, &again.events) != actions(trace, &events) {
            return Err(format!("{}, but swapped the run has other events", pair()));
        }
    }
    Ok(())
}

/// Returns whether the event is an access by `strcpy` or a similar function. Its accesses are recorded together and
/// executed later, and compilers replace some calls by accesses that are no events.
fn is_library_call(event: &Event) -> bool {
    event.op.is_plain_access() && !matches!(event.size, 1 | 2 | 4 | 8 | 16)
}

/// Returns the plan that executes these events of a trace in this order.
fn plan(trace: &Trace, events: &[Event]) -> Plan {
    let mut prefix = trace.as_prefix(Fidelity::Exact);
    prefix.segments = Schedule::of(events).segments;
    prefix.actions = Trace { events: events.to_vec(), ..trace.clone() }.as_prefix(Fidelity::Exact).actions;
    Plan { prefix, tail: Policy::Stop, ..trace.plan.clone() }
}

fn touches(trace: &Trace) -> Vec<Vec<Touch>> {
    let mut relation = Relation::new(Rules { environment: true, ..Rules::of(trace) });
    let of = |event| {
        let mut touches = Vec::new();
        relation.touches(event, &mut touches);
        touches
    };
    trace.events.iter().map(of).collect()
}
