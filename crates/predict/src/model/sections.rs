//! The critical sections that sent a signal. A thread whose wait loop found its condition true did not wait, but it
//! depends on the section that made the condition true (section 3 of the paper).

use crate::hash::Set;
use unsnarl_model::ThreadIx;

/// The part of a thread from acquiring its first lock to releasing its last one.
pub(super) type SectionId = u32;

#[derive(Debug, Default)]
pub(super) struct SignallingSections {
    count: SectionId,
    /// By thread: its current section, or its last one if it has not synchronised since.
    now: Vec<Option<SectionId>>,
    signalled: Set<SectionId>,
}

impl SignallingSections {
    fn slot(&mut self, thread: ThreadIx) -> &mut Option<SectionId> {
        if self.now.len() <= thread.index() {
            self.now.resize(thread.index() + 1, None);
        }
        &mut self.now[thread.index()]
    }

    /// Records that the thread acquires its first lock.
    pub(super) fn enter(&mut self, thread: ThreadIx) {
        self.count += 1;
        *self.slot(thread) = Some(self.count);
    }

    /// Records that the thread signals a condition, in its section or right after it.
    pub(super) fn signal(&mut self, thread: ThreadIx) {
        if let Some(section) = *self.slot(thread) {
            self.signalled.insert(section);
        }
    }

    /// Records that the thread synchronises otherwise, outside of any section.
    pub(super) fn part(&mut self, thread: ThreadIx) {
        *self.slot(thread) = None;
    }

    /// Returns the thread's section.
    pub(super) fn of(&mut self, thread: ThreadIx) -> Option<SectionId> {
        *self.slot(thread)
    }

    /// Returns whether the section sent a signal.
    pub(super) fn signalled(&self, section: SectionId) -> bool {
        self.signalled.contains(&section)
    }
}
