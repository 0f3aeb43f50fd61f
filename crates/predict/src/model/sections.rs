//! Which critical sections gave a signal: by them, threads wait for each other (section 3 of the paper: wait loops
//! whose wait never ran).

use crate::hash::Set;
use unsnarl_model::ThreadIx;

/// A stretch of a thread from its taking a lock while it held none to its giving back the last one.
pub(super) type SectionId = u32;

#[derive(Debug, Default)]
pub(super) struct SignallingSections {
    count: SectionId,
    /// By thread: the section that it is in, or was in just before, with no synchronisation since.
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

    /// The thread takes its first lock.
    pub(super) fn enter(&mut self, thread: ThreadIx) {
        self.count += 1;
        *self.slot(thread) = Some(self.count);
    }

    /// The thread signals a condition, in its section or right after it.
    pub(super) fn signal(&mut self, thread: ThreadIx) {
        if let Some(section) = *self.slot(thread) {
            self.signalled.insert(section);
        }
    }

    /// The thread, outside of any section, synchronises otherwise.
    pub(super) fn part(&mut self, thread: ThreadIx) {
        *self.slot(thread) = None;
    }

    /// The section that the thread is in.
    pub(super) fn of(&mut self, thread: ThreadIx) -> Option<SectionId> {
        *self.slot(thread)
    }

    /// Whether a signal came with it.
    pub(super) fn signalled(&self, section: SectionId) -> bool {
        self.signalled.contains(&section)
    }
}
