//! Lost wake-ups. In the trace, a signal woke a waiting thread. If the signal came before the wait, it would wake
//! nobody, and the thread would wait for ever.
//!
//! The paper's model cannot show this, because there a signal is kept until a thread waits. Here the
//! candidates are the pairs of a wait and the signal that ended it. A pair is no candidate if the waiting
//! thread reads something under its mutex that the other one changes before it signals: then the thread would
//! see the change and not wait. Whether it waits nevertheless, or another thread signals, only a run can show.

use crate::{
    deadlocks::{PredictedDeadlock, WaitTarget, WaitingThread},
    findings::{ErrorSites, Findings},
    model::{Model, SignalledWait, StepAction},
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
    for signalled_wait in &model.signalled_waits {
        let (wait, signal) = (model.step(signalled_wait.wait), model.step(signalled_wait.signal));
        let places = ErrorSites::new(vec![wait.site, signal.site]);
        if findings.is_settled(&places) || read_before_wait(model, signalled_wait) {
            continue;
        }
        findings.suspect(&places, model.reads);
        let witness = match sync_preserving(search, signalled_wait) {
            Some(frontier) => {
                findings.figures.sync_preserving += 1;
                Witness::in_trace_order(model, window, &frontier, &[signalled_wait.wait])
            }
            None => {
                let mut left = findings.budget(&places, model.reads, options.budget);
                match search.reach_after(&[signalled_wait.signal], &[signalled_wait.wait], &mut left) {
                    SearchResult::Found(steps) => {
                        findings.figures.searched += 1;
                        Witness::thread_by_thread(model, window, &steps, &[signalled_wait.wait])
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
            |lock: u32| !matches!(wait.action, StepAction::Releases { lock: mutex, .. } if mutex == lock);
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
fn sync_preserving(search: &Searcher<'_>, signalled_wait: &SignalledWait) -> Option<Vec<u32>> {
    let Searcher { model, order, critical_sections, .. } = *search;
    let mut closure = Closure::new(model, order, critical_sections);
    closure.extend_to(signalled_wait.wait);
    closure.include(signalled_wait.signal);
    (!closure.stuck && !closure.has(signalled_wait.wait)).then_some(closure.frontier)
}

/// Returns whether the thread, since it acquired its mutex, accessed something that the other thread changed
/// after that and before it signalled.
fn read_before_wait(model: &Model, signalled_wait: &SignalledWait) -> bool {
    let (wait, signal) = (model.step(signalled_wait.wait), model.step(signalled_wait.signal));
    let StepAction::Releases { lock: mutex, .. } = wait.action else { return true };
    let mut read_cells: BTreeSet<u32> = BTreeSet::new();
    let mut since = signalled_wait.wait;
    for &number in model.threads[wait.thread.index()][..wait.at as usize].iter().rev() {
        let step = model.step(number);
        if matches!(step.action, StepAction::Acquires { lock, .. } if lock == mutex) {
            break;
        }
        since = number;
        read_cells.extend(model.touches(step).iter().map(|touch| touch.cell));
    }
    let changes = |number: &&u32| {
        **number > since
            && model
                .touches(model.step(**number))
                .iter()
                .any(|touch| touch.writes && read_cells.contains(&touch.cell))
    };
    model.threads[signal.thread.index()][..signal.at as usize].iter().rev().any(|number| changes(&number))
}
