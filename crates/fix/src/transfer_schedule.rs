//! Translates a schedule to the sites of another build.

use std::collections::BTreeMap;
use unsnarl_model::{Fidelity, Prefix, Schedule, Trace};

/// How far a thread runs on before it is preempted: by the number of the recorded preempting event, the
/// number of additional events of the new build there.
pub type Stops = BTreeMap<usize, usize>;

/// Returns the schedule of `old` with the corresponding events of `new`. Events without a counterpart in the
/// new build are left out; its additional events are detours, which relaxed fidelity permits.
#[must_use]
pub fn transfer_schedule(
    old: &Trace,
    new: &Trace,
    matched: &[Option<usize>],
    stops: &Stops,
    fidelity: Fidelity,
) -> Prefix {
    let mut schedule = Schedule::default();
    let mut actions = Vec::new();
    for (at, (event, number)) in old.events.iter().zip(matched).enumerate() {
        let Some(number) = *number else { continue };
        let further = stops.get(&(at + 1)).copied().unwrap_or(0);
        for number in [number].into_iter().chain(detour(old, new, matched, at).take(further)) {
            schedule.push(event.thread);
            actions.push(new.action(&new.events[number]).into());
        }
    }
    Prefix {
        threads: old.threads.iter().map(|thread| thread.id.clone()).collect(),
        modules: new.modules.iter().map(|module| module.path.clone()).collect(),
        segments: schedule.segments,
        actions,
        fidelity,
    }
}

/// Returns the events in `new` between this recorded event and the thread's next recorded event. Empty if
/// there is no next one, because the thread may have been about to execute any of them.
pub(crate) fn detour<'a>(
    old: &'a Trace,
    new: &'a Trace,
    matched: &'a [Option<usize>],
    event: usize,
) -> impl Iterator<Item = usize> + 'a {
    let thread = old.events[event].thread;
    let next =
        (event + 1..old.events.len()).find(|&at| old.events[at].thread == thread && matched[at].is_some());
    let end = next.and_then(|at| matched[at]).unwrap_or(0);
    let is_its = move |at: &usize| new.thread_id(new.events[*at].thread) == old.thread_id(thread);
    (matched[event].map_or(end, |at| at + 1)..end).filter(is_its)
}
