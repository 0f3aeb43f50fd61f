//! Vector clocks.

use alloc::vec::Vec;
use unsnarl_model::ThreadIx;

/// A moment of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Whose.
    pub thread: ThreadIx,
    /// Its own count, from 1.
    pub time: u32,
}

/// How much of each thread's past is known.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Clock(Vec<u32>);

impl Clone for Clock {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }

    /// In the memory that is there.
    fn clone_from(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }
}

impl Clock {
    /// How much of a thread's past.
    #[must_use]
    #[inline]
    pub fn of(&self, thread: ThreadIx) -> u32 {
        self.0.get(thread.index()).copied().unwrap_or(0)
    }

    /// Whether that moment is past.
    #[must_use]
    #[inline]
    pub fn knows(&self, epoch: Epoch) -> bool {
        self.of(epoch.thread) >= epoch.time
    }

    /// Knows from now on what the other knows.
    #[inline]
    pub fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }

    /// The thread's own time goes on.
    pub fn advance(&mut self, thread: ThreadIx) {
        if self.0.len() <= thread.index() {
            self.0.resize(thread.index() + 1, 0);
        }
        self.0[thread.index()] += 1;
    }
}
