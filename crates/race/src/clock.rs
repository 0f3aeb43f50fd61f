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

/// How many threads' times lie in the clock itself. Most programs have no more, and their clocks no memory to follow.
const NEAR: usize = 8;

/// How much of each thread's past is known.
#[derive(Debug, Default)]
pub struct Clock {
    near: [u32; NEAR],
    far: Vec<u32>,
}

impl Clone for Clock {
    fn clone(&self) -> Self {
        Self { near: self.near, far: self.far.clone() }
    }

    /// In the memory that is there.
    #[inline]
    fn clone_from(&mut self, other: &Self) {
        self.near = other.near;
        if !self.far.is_empty() || !other.far.is_empty() {
            self.far.clone_from(&other.far);
        }
    }
}

impl Clock {
    /// How much of a thread's past.
    #[must_use]
    #[inline]
    pub fn of(&self, thread: ThreadIx) -> u32 {
        let ix = thread.index();
        if ix < NEAR { self.near[ix] } else { self.far.get(ix - NEAR).copied().unwrap_or(0) }
    }

    /// The present moment of the thread whose clock it is.
    #[must_use]
    #[inline]
    pub fn now(&self, thread: ThreadIx) -> Epoch {
        Epoch { thread, time: self.of(thread) }
    }

    /// That moment is past from now on.
    #[inline]
    pub fn learn(&mut self, epoch: Epoch) {
        let time = self.at(epoch.thread);
        *time = (*time).max(epoch.time);
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
        for (mine, theirs) in self.near.iter_mut().zip(&other.near) {
            *mine = (*mine).max(*theirs);
        }
        if !other.far.is_empty() {
            self.join_far(other);
        }
    }

    #[cold]
    fn join_far(&mut self, other: &Self) {
        if self.far.len() < other.far.len() {
            self.far.resize(other.far.len(), 0);
        }
        self.far.iter_mut().zip(&other.far).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }

    /// The thread's own time goes on.
    #[inline]
    pub fn advance(&mut self, thread: ThreadIx) {
        *self.at(thread) += 1;
    }

    #[inline]
    fn at(&mut self, thread: ThreadIx) -> &mut u32 {
        match thread.index().checked_sub(NEAR) {
            None => &mut self.near[thread.index()],
            Some(ix) => self.far_at(ix),
        }
    }

    #[cold]
    fn far_at(&mut self, ix: usize) -> &mut u32 {
        if self.far.len() <= ix {
            self.far.resize(ix + 1, 0);
        }
        &mut self.far[ix]
    }
}
