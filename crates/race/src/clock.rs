//! Vector clocks; each covers two relations at once.

use alloc::vec::Vec;
use unsnarl_model::ThreadIx;

/// A point in one thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    pub thread: ThreadIx,
    /// The thread's own count, from 1.
    pub time: u32,
}

/// The number of threads whose times are stored inline. Most programs have no more, so their clocks need no
/// heap memory.
const NEAR: usize = 8;

/// Happens-before by all edges, and without the edges of locks.
const ALL: usize = 0;
const WITHOUT_LOCKS: usize = 1;

/// For each thread, how much of its past is known: by all edges, and without those of locks. The second is
/// never ahead of the first. Joining and publishing update both with the same few instructions.
#[derive(Debug, Default)]
pub(crate) struct VectorClock {
    near: [[u32; NEAR]; 2],
    far: Vec<[u32; 2]>,
}

impl Clone for VectorClock {
    fn clone(&self) -> Self {
        Self { near: self.near, far: self.far.clone() }
    }

    /// Reuses the memory already allocated.
    #[inline]
    fn clone_from(&mut self, other: &Self) {
        self.near = other.near;
        if !self.far.is_empty() || !other.far.is_empty() {
            self.far.clone_from(&other.far);
        }
    }
}

impl VectorClock {
    /// Returns whether the epoch is in the past.
    #[inline]
    pub(crate) fn includes(&self, epoch: Epoch) -> bool {
        self.of(ALL, epoch.thread) >= epoch.time
    }

    /// Returns whether the epoch is in the past without the edges of locks.
    #[inline]
    pub(crate) fn includes_without_locks(&self, epoch: Epoch) -> bool {
        self.of(WITHOUT_LOCKS, epoch.thread) >= epoch.time
    }

    #[inline]
    fn of(&self, relation: usize, thread: ThreadIx) -> u32 {
        match self.near[relation].get(thread.index()) {
            Some(&time) => time,
            None => self.far.get(thread.index() - NEAR).map_or(0, |times| times[relation]),
        }
    }

    /// Puts the epoch and everything before it into the past.
    #[inline]
    pub(crate) fn set(&mut self, epoch: Epoch) {
        let ix = epoch.thread.index();
        if ix < NEAR {
            self.near[ALL][ix] = epoch.time;
            self.near[WITHOUT_LOCKS][ix] = epoch.time;
        } else {
            self.set_far(ix - NEAR, epoch.time);
        }
    }

    #[cold]
    fn set_far(&mut self, ix: usize, time: u32) {
        self.grow(ix + 1);
        self.far[ix] = [time; 2];
    }

    /// Like [`Self::set`], but by an edge of a lock.
    #[inline]
    pub(crate) fn set_by_lock(&mut self, epoch: Epoch) {
        let ix = epoch.thread.index();
        if ix < NEAR {
            self.near[ALL][ix] = epoch.time;
        } else {
            self.grow(ix - NEAR + 1);
            self.far[ix - NEAR][ALL] = epoch.time;
        }
    }

    /// Joins the other clock into this one.
    #[inline]
    pub(crate) fn join(&mut self, other: &Self) {
        raise(&mut self.near[ALL], &other.near[ALL]);
        raise(&mut self.near[WITHOUT_LOCKS], &other.near[WITHOUT_LOCKS]);
        if !other.far.is_empty() {
            self.join_far(&[ALL, WITHOUT_LOCKS], other);
        }
    }

    /// Like [`Self::join`], but by an edge of a lock.
    #[inline]
    pub(crate) fn join_by_lock(&mut self, other: &Self) {
        raise(&mut self.near[ALL], &other.near[ALL]);
        if !other.far.is_empty() {
            self.join_far(&[ALL], other);
        }
    }

    #[cold]
    fn join_far(&mut self, relations: &[usize], other: &Self) {
        self.grow(other.far.len());
        for (mine, theirs) in self.far.iter_mut().zip(&other.far) {
            relations.iter().for_each(|&relation| mine[relation] = mine[relation].max(theirs[relation]));
        }
    }

    /// Puts everything up to now into the past, but only by edges that include those of locks.
    #[inline]
    pub(crate) fn join_all(&mut self, now: &ThreadTimes) {
        raise(&mut self.near[ALL], &now.near);
        if !now.far.is_empty() {
            self.grow(now.far.len());
            self.far.iter_mut().zip(&now.far).for_each(|(mine, &time)| mine[ALL] = mine[ALL].max(time));
        }
    }

    fn grow(&mut self, len: usize) {
        if self.far.len() < len {
            self.far.resize(len, [0; 2]);
        }
    }
}

#[inline]
fn raise(mine: &mut [u32; NEAR], theirs: &[u32; NEAR]) {
    mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
}

/// Each thread's current time, which no clock is ahead of.
#[derive(Debug)]
pub(crate) struct ThreadTimes {
    near: [u32; NEAR],
    far: Vec<u32>,
}

impl Default for ThreadTimes {
    fn default() -> Self {
        Self { near: [1; NEAR], far: Vec::new() }
    }
}

impl ThreadTimes {
    /// Returns the thread's current epoch. A thread's time starts with the first query about it.
    #[inline]
    pub(crate) fn of(&mut self, thread: ThreadIx) -> Epoch {
        Epoch { thread, time: *self.at(thread) }
    }

    /// Advances the thread's time.
    #[inline]
    pub(crate) fn advance(&mut self, thread: ThreadIx) {
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
            self.far.resize(ix + 1, 1);
        }
        &mut self.far[ix]
    }

    /// Advances the time of every thread.
    #[inline]
    pub(crate) fn advance_all(&mut self) {
        self.near.iter_mut().chain(&mut self.far).for_each(|time| *time += 1);
    }
}
