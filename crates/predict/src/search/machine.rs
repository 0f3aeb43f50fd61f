//! The state of a partial reordering: which steps are enabled, which are safe, execution and undo.

use super::{
    Searcher,
    bounds::Bounds,
    classes::{Class, ClassEntry},
};
use crate::{
    hash::spread,
    model::{ModelStep, NONE, StepAction},
};

/// The positions of all threads, the contents of memory, and the holders of locks.
#[derive(Debug)]
pub(super) struct SearchMachine<'a> {
    search: &'a Searcher<'a>,
    bounds: &'a Bounds,
    /// By thread: the number of steps done.
    pub(super) at: Vec<u32>,
    /// By cell: the class of its contents.
    memory: Vec<Class>,
    locks: Vec<LockState>,
    /// By class: the number of pending reads that must, and that may, see it.
    must_see: Vec<u32>,
    may_see: Vec<u32>,
    /// By cell: the number of writes that may still occur.
    writes_left: Vec<u32>,
    /// The executed steps, and the contents that they overwrote.
    pub(super) done: Vec<u32>,
    overwritten: Vec<Class>,
    /// A hash of the state.
    pub(super) fingerprint: u128,
    /// The number of threads that are not yet where they must be.
    missing: usize,
}

#[derive(Clone, Debug, Default)]
struct LockState {
    /// The exclusive holder, plus one.
    owner: u32,
    readers: u32,
    /// The number of pending acquisitions that must, and that may, occur: exclusive ones and all.
    must_exclusive: u32,
    must_any: u32,
    may_exclusive: u32,
    may_any: u32,
}

impl<'a> SearchMachine<'a> {
    pub(super) fn new(search: &'a Searcher<'a>, bounds: &'a Bounds) -> Self {
        let Searcher { model, classes, .. } = *search;
        let mut machine = Self {
            search,
            bounds,
            at: model.given.clone(),
            memory: classes.initial.clone(),
            locks: vec![LockState::default(); model.locks.len()],
            must_see: vec![0; classes.count],
            may_see: vec![0; classes.count],
            writes_left: vec![0; model.cells.count()],
            done: Vec::new(),
            overwritten: Vec::new(),
            fingerprint: 0,
            missing: 0,
        };
        for (thread, steps) in model.threads.iter().enumerate() {
            let (given, must, may) = (model.given[thread], bounds.must[thread], bounds.may[thread]);
            machine.missing += usize::from(given < must);
            for &number in &steps[..may as usize] {
                let step = model.step(number);
                if step.at < given {
                    machine.lock(step);
                } else {
                    machine.expect(number, step, step.at < must);
                }
            }
        }
        machine
    }

    /// Counts the accesses and acquisitions of a pending step.
    fn expect(&mut self, number: u32, step: &ModelStep, must: bool) {
        for entry in self.search.classes.entries(number) {
            if entry.sees != NONE {
                self.must_see[entry.sees as usize] += u32::from(must);
                self.may_see[entry.sees as usize] += 1;
            }
            self.writes_left[entry.cell as usize] += u32::from(entry.writes);
        }
        if let StepAction::Acquires { lock, shared, .. } = step.action {
            let lock = &mut self.locks[lock as usize];
            let exclusive = u32::from(!shared);
            lock.may_any += 1;
            lock.may_exclusive += exclusive;
            lock.must_any += u32::from(must);
            lock.must_exclusive += if must { exclusive } else { 0 };
        }
    }

    /// Returns whether all threads are where they must be.
    pub(super) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// Returns the next step of a thread.
    pub(super) fn next(&self, thread: usize) -> Option<u32> {
        if self.at[thread] >= self.bounds.may[thread] {
            return None;
        }
        self.search.model.threads[thread].get(self.at[thread] as usize).copied()
    }

    /// Returns whether the thread must still continue.
    pub(super) fn must_continue(&self, thread: usize) -> bool {
        self.at[thread] < self.bounds.must[thread]
    }

    /// Returns whether a thread's next step is enabled.
    pub(super) fn is_enabled(&self, number: u32) -> bool {
        let Searcher { model, classes, .. } = *self.search;
        let step = model.step(number);
        let is_done = |number: u32| {
            let step = model.step(number);
            self.at[step.thread.index()] > step.at
        };
        if !model.needs(step).iter().all(|&needed| is_done(needed)) {
            return false;
        }
        match step.action {
            StepAction::Access { .. } => classes
                .entries(number)
                .iter()
                .all(|entry| self.can_touch(entry, self.must_continue(step.thread.index()))),
            StepAction::Acquires { lock, shared, .. } => self.can_acquire(number, step, lock, shared),
            StepAction::Refused { lock, shared } => {
                let lock = &self.locks[lock as usize];
                let other = lock.owner != 0 && lock.owner != u32::from(step.thread.0) + 1;
                other || (!shared && lock.readers > 0)
            }
            StepAction::Releases { .. } | StepAction::Joins(_) => true,
            // A signal that a wake-up needs must find the thread waiting.
            StepAction::Other => classes.waits.get(&number).is_none_or(|waits| {
                waits.iter().all(|&(wait, wake)| {
                    let wake = model.step(wake);
                    wake.at >= self.bounds.may[wake.thread.index()] || is_done(wait)
                })
            }),
        }
    }

    fn can_touch(&self, entry: &ClassEntry, must: bool) -> bool {
        let there = self.memory[entry.cell as usize];
        let sees = entry.sees == NONE || entry.sees == there;
        // Reads that must see the current contents have to occur before they are overwritten.
        let own = u32::from(must && entry.sees == there);
        sees && (!entry.writes || there == NONE || self.must_see[there as usize] <= own)
    }

    fn can_acquire(&self, number: u32, step: &ModelStep, lock: u32, shared: bool) -> bool {
        let LockState { owner, readers, must_exclusive, must_any, .. } = self.locks[lock as usize];
        if owner != 0 || (!shared && readers > 0) {
            return false;
        }
        // A thread that never releases the lock must be the last to acquire it.
        let release_at = self
            .search
            .critical_sections
            .release_of(number)
            .map(|release| self.search.model.step(release).at);
        let never_releases = release_at.is_none_or(|at| at >= self.bounds.may[step.thread.index()]);
        let own = u32::from(self.must_continue(step.thread.index()));
        !never_releases || if shared { must_exclusive == 0 } else { must_any == own }
    }

    /// Returns whether an enabled step is safe: it disables no other step, now or later.
    pub(super) fn is_safe(&self, number: u32) -> bool {
        let Searcher { model, classes, .. } = *self.search;
        match model.step(number).action {
            StepAction::Access { writes: false, .. } => true,
            StepAction::Access { .. } => classes.entries(number).iter().all(|entry| {
                let there = self.memory[entry.cell as usize];
                let own = u32::from(entry.sees != NONE && entry.sees == there);
                let uninstrumented = there == NONE || self.may_see[there as usize] <= own;
                let free = entry.makes == NONE || self.may_see[entry.makes as usize] == 0;
                !entry.writes || (uninstrumented && (free || self.writes_left[entry.cell as usize] <= 1))
            }),
            StepAction::Acquires { lock, shared, .. } => {
                let lock = &self.locks[lock as usize];
                if shared { lock.may_exclusive == 0 } else { lock.may_any == 1 }
            }
            _ => true,
        }
    }

    /// Executes a thread's next step.
    pub(super) fn execute(&mut self, number: u32) {
        let Searcher { model, classes, .. } = *self.search;
        let step = model.step(number);
        let thread = step.thread.index();
        let must = self.must_continue(thread);
        for entry in classes.entries(number) {
            if entry.sees != NONE {
                self.must_see[entry.sees as usize] -= u32::from(must);
                self.may_see[entry.sees as usize] -= 1;
            }
            if entry.writes {
                self.writes_left[entry.cell as usize] -= 1;
                let before = self.set(entry.cell, entry.makes);
                self.overwritten.push(before);
            }
        }
        self.lock(step);
        if let StepAction::Acquires { lock, shared, .. } = step.action {
            let lock = &mut self.locks[lock as usize];
            let exclusive = u32::from(!shared);
            lock.may_any -= 1;
            lock.may_exclusive -= exclusive;
            lock.must_any -= u32::from(must);
            lock.must_exclusive -= if must { exclusive } else { 0 };
        }
        self.advance(thread, self.at[thread] + 1);
        self.missing -= usize::from(must && !self.must_continue(thread));
        self.done.push(number);
    }

    /// Undoes the last step.
    pub(super) fn undo(&mut self) {
        let Some(number) = self.done.pop() else { return };
        let Searcher { model, classes, .. } = *self.search;
        let step = model.step(number);
        let thread = step.thread.index();
        let had_to_go_on = self.must_continue(thread);
        self.advance(thread, self.at[thread] - 1);
        let must = self.must_continue(thread);
        self.missing += usize::from(must && !had_to_go_on);
        for entry in classes.entries(number).iter().rev() {
            if entry.sees != NONE {
                self.must_see[entry.sees as usize] += u32::from(must);
                self.may_see[entry.sees as usize] += 1;
            }
            if entry.writes {
                self.writes_left[entry.cell as usize] += 1;
                if let Some(before) = self.overwritten.pop() {
                    self.set(entry.cell, before);
                }
            }
        }
        match step.action {
            StepAction::Acquires { lock, shared, .. } => {
                let lock = &mut self.locks[lock as usize];
                let exclusive = u32::from(!shared);
                lock.may_any += 1;
                lock.may_exclusive += exclusive;
                lock.must_any += u32::from(must);
                lock.must_exclusive += if must { exclusive } else { 0 };
                if shared {
                    lock.readers -= 1;
                } else {
                    lock.owner = 0;
                }
            }
            StepAction::Releases { lock, shared: true } => self.locks[lock as usize].readers += 1,
            StepAction::Releases { lock, shared: false } => {
                self.locks[lock as usize].owner = u32::from(step.thread.0) + 1;
            }
            _ => {}
        }
    }

    fn lock(&mut self, step: &ModelStep) {
        match step.action {
            StepAction::Acquires { lock, shared: true, .. } => self.locks[lock as usize].readers += 1,
            StepAction::Acquires { lock, shared: false, .. } => {
                self.locks[lock as usize].owner = u32::from(step.thread.0) + 1;
            }
            StepAction::Releases { lock, shared: true } => self.locks[lock as usize].readers -= 1,
            StepAction::Releases { lock, shared: false } => self.locks[lock as usize].owner = 0,
            _ => {}
        }
    }

    fn advance(&mut self, thread: usize, to: u32) {
        let from = std::mem::replace(&mut self.at[thread], to);
        self.fingerprint ^= spread(thread as u64, from.into()) ^ spread(thread as u64, to.into());
    }

    /// Sets the contents of a cell; returns the previous contents.
    fn set(&mut self, cell: u32, class: Class) -> Class {
        let before = std::mem::replace(&mut self.memory[cell as usize], class);
        let name = |class: Class| spread(u64::from(cell) | 1 << 40, class.into());
        self.fingerprint ^= name(before) ^ name(class);
        before
    }
}
