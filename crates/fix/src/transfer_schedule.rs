//! A schedule in the places of another build.

use std::collections::BTreeMap;
use unsnarl_model::{Fidelity, Prefix, Schedule, Trace};

/// How far a thread still goes before it is stopped: for the number of a recorded event that preempts, how many of the
/// events that the new build has there beside the recorded ones.
pub type Stops = BTreeMap<usize, usize>;

/// The schedule of `old` with what each of its events is called in the build of `new`. What the new build does not do
/// is left out; what it does beside it is a detour, which the relaxed rules allow.
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
            actions.push(new.action(&new.events[number]));
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

/// What the thread of this recorded event does in `new` after it and before the next thing that is recorded of it; nothing
/// where nothing more is recorded, since it may have been about to do any of it.
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
