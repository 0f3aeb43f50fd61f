//! Lost wake-ups. In the trace, a signal woke a waiting thread. If the signal came before the wait, it would wake
//! nobody, and the thread would wait for ever.
//!
//! The paper's model cannot show this, because there a signal is kept until a thread waits. Here the
//! candidates are the pairs of a wait and the signal that ended it, unless the waiting thread reads something
//! under its mutex that the other one changes before it signals: then the thread would see the change and not
//! wait. Whether the thread waits nevertheless, and whether no other thread signals, only a run can decide.

use crate::{
    deadlocks::{PredictedDeadlock, WaitTarget, WaitingThread},
    findings::{ErrorSites, Findings},
    model::{Model, StepAction, WakeUp},
    predict::PredictOptions,
    search::{SearchResult, Searcher},
    sync_preserving::Closure,
    witness::{Window, Witness},
};
use std::collections::BTreeSet;

/// Searches a window for signals that can be lost.
pub(crate) fn signals(
    search: &Searcher<'_>,
    window: &Window<'_>,
    options: &PredictOptions,
    findings: &mut Findings,
) {
    let model = search.model;
    for wake_up in &model.wake_ups {
        let (wait, signal) = (model.step(wake_up.wait), model.step(wake_up.signal));
        let places = ErrorSites::new(vec![wait.site, signal.site]);
        if findings.is_settled(&places) || read_before_wait(model, wake_up) {
            continue;
        }
        findings.suspect(&places, model.reads);
        let witness = match sync_preserving(search, wake_up) {
            Some(ideal) => {
                findings.figures.sync_preserving += 1;
                Witness::in_trace_order(model, window, &ideal, &[wake_up.wait])
            }
            None => {
                let mut left = findings.budget(&places, model.reads, options.budget);
                match search.reach_after(&[wake_up.signal], &[wake_up.wait], &mut left) {
                    SearchResult::Found(steps) => {
                        findings.figures.searched += 1;
                        Witness::thread_by_thread(model, window, &steps, &[wake_up.wait])
                    }
                    SearchResult::Impossible => {
                        findings.spent(places, model.reads, left);
                        continue;
                    }
                    SearchResult::Undecided => {
                        findings.undecided(places, model.reads);
                        continue;
                    }
                }
            }
        };
        let number = |event: u32| window.first + u64::from(event);
        // The mutex is released during the wait.
        let stays_held =
            |lock: u32| !matches!(wait.action, StepAction::Gives { lock: mutex, .. } if mutex == lock);
        let held = model.locksets.of(wait.held).iter().filter(|held| stays_held(held.lock));
        let waits = WaitingThread {
            thread: wait.thread,
            event: number(wait.event),
            site: wait.site,
            holds: held.map(|held| model.locks[held.lock as usize]).collect(),
            target: WaitTarget::Lost(number(signal.event)),
        };
        findings.deadlock(places, PredictedDeadlock { cycle: vec![waits], witness });
    }
}

/// Returns the signal's causal past in the order of the trace, without the wait.
fn sync_preserving(search: &Searcher<'_>, wake_up: &WakeUp) -> Option<Vec<u32>> {
    let Searcher { model, order, critical_sections, .. } = *search;
    let mut closure = Closure::new(model, order, critical_sections);
    closure.bring_to(wake_up.wait);
    closure.include(wake_up.signal);
    (!closure.stuck && !closure.has(wake_up.wait)).then_some(closure.ideal)
}

/// Returns whether the thread, since it acquired its mutex, accessed something that the other thread changed
/// after that and before it signalled.
fn read_before_wait(model: &Model, wake_up: &WakeUp) -> bool {
    let (wait, signal) = (model.step(wake_up.wait), model.step(wake_up.signal));
    let StepAction::Gives { lock: mutex, .. } = wait.action else { return true };
    let mut looked: BTreeSet<u32> = BTreeSet::new();
    let mut since = wake_up.wait;
    for &number in model.threads[wait.thread.index()][..wait.at as usize].iter().rev() {
        let step = model.step(number);
        if matches!(step.action, StepAction::Takes { lock, .. } if lock == mutex) {
            break;
        }
        since = number;
        looked.extend(model.touches(step).iter().map(|touch| touch.cell));
    }
    let changes = |number: &&u32| {
        **number > since
            && model
                .touches(model.step(**number))
                .iter()
                .any(|touch| touch.writes && looked.contains(&touch.cell))
    };
    model.threads[signal.thread.index()][..signal.at as usize].iter().rev().any(|number| changes(&number))
}
