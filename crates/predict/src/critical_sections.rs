//! The critical sections of a model, by lock and thread.

use crate::model::{Model, StepAction};
use unsnarl_model::ThreadIx;

/// All critical sections.
#[derive(Debug)]
pub(crate) struct CriticalSections {
    /// Indexed by lock.
    locks: Vec<Vec<LockUses>>,
    /// By thread: its acquisitions in order, each with the lock.
    pub(crate) of_thread: Vec<Vec<(u32, u32)>>,
    /// By acquiring step: the releasing step.
    release_of: Vec<u32>,
}

/// The acquisitions of one lock by one thread, in order.
#[derive(Debug)]
pub(crate) struct LockUses {
    pub(crate) thread: ThreadIx,
    pub(crate) exclusive: Vec<u32>,
    pub(crate) shared: Vec<u32>,
}

impl CriticalSections {
    pub(crate) fn of(model: &Model) -> Self {
        let mut critical_sections = Self {
            locks: Vec::new(),
            of_thread: vec![Vec::new(); model.threads.len()],
            release_of: vec![crate::model::NONE; model.steps.len()],
        };
        critical_sections.locks.resize_with(model.locks.len(), Vec::new);
        let mut open: crate::hash::Map<(u32, u32), u32> = crate::hash::Map::default();
        for (step, number) in model.steps.iter().zip(0..) {
            let thread = step.thread;
            match step.action {
                StepAction::Acquires { lock, shared, .. } => {
                    critical_sections.of_thread[thread.index()].push((step.at, lock));
                    let all = &mut critical_sections.locks[lock as usize];
                    let mine = all.iter().position(|by| by.thread == thread).unwrap_or_else(|| {
                        all.push(LockUses { thread, exclusive: Vec::new(), shared: Vec::new() });
                        all.len() - 1
                    });
                    let list = if shared { &mut all[mine].shared } else { &mut all[mine].exclusive };
                    list.push(number);
                    open.insert((thread.0.into(), lock), number);
                }
                StepAction::Releases { lock, .. } => {
                    if let Some(acquisition) = open.remove(&(thread.0.into(), lock)) {
                        critical_sections.release_of[acquisition as usize] = number;
                    }
                }
                _ => {}
            }
        }
        critical_sections
    }

    /// Returns the threads that acquire this lock.
    pub(crate) fn of_lock(&self, lock: u32) -> &[LockUses] {
        &self.locks[lock as usize]
    }

    /// Returns the step that releases what this step acquires, if any.
    pub(crate) fn release_of(&self, acquisition: u32) -> Option<u32> {
        Some(self.release_of[acquisition as usize]).filter(|&step| step != crate::model::NONE)
    }
}

/// Returns the last of these steps of one thread that is among its first `done` ones.
pub(crate) fn last_within(model: &Model, steps: &[u32], done: u32) -> Option<u32> {
    let count = steps.partition_point(|&number| model.step(number).at < done);
    count.checked_sub(1).map(|last| steps[last])
}
