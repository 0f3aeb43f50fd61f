//! A simulated run, for tests of pickers here and of algorithms built on them.

use crate::{RunView, ThreadSet};
use alloc::{vec, vec::Vec};
use unsnarl_model::{Action, ModuleIx, Op, Site, ThreadIx};

/// Threads that are ready, waiting for a timeout or blocked, and their next operations.
#[derive(Debug)]
pub struct Toy {
    current: ThreadIx,
    ready: ThreadSet,
    by_timeout: ThreadSet,
    yields: Vec<bool>,
    next: Vec<Action>,
    at: Vec<Option<u16>>,
    /// The thread with the earliest deadline, among those waiting for a timeout.
    pub earliest_timeout: Option<ThreadIx>,
}

impl Toy {
    /// Creates so many threads, all of them ready; main ran last.
    #[must_use]
    pub fn new(threads: u16) -> Self {
        let mut ready = ThreadSet::new();
        (0..threads).for_each(|ix| ready.set(ThreadIx(ix), true));
        let nothing = Action { op: Op::Yield, site: Site::default() };
        Self {
            current: ThreadIx::MAIN,
            ready,
            by_timeout: ThreadSet::new(),
            yields: vec![false; threads as usize],
            next: vec![nothing; threads as usize],
            at: vec![None; threads as usize],
            earliest_timeout: None,
        }
    }

    /// Makes the thread the one that ran last.
    pub fn run(&mut self, thread: ThreadIx) {
        self.current = thread;
    }

    /// Blocks the thread.
    pub fn block(&mut self, thread: ThreadIx) {
        self.ready.set(thread, false);
        self.by_timeout.set(thread, false);
    }

    /// Lets the thread go on only by a timeout.
    pub fn set_by_timeout(&mut self, thread: ThreadIx) {
        self.ready.set(thread, false);
        self.by_timeout.set(thread, true);
        self.earliest_timeout = self.earliest_timeout.or(Some(thread));
    }

    /// Sets whether the thread yields to others.
    pub fn set_yields(&mut self, thread: ThreadIx, yields: bool) {
        self.yields[thread.index()] = yields;
    }

    /// Sets the thread's next operation and makes the thread ready.
    pub fn next(&mut self, thread: ThreadIx, op: Op, offset: u64) {
        self.ready.set(thread, true);
        self.next[thread.index()] = Action { op, site: Site { module: ModuleIx(0), offset } };
        self.at[thread.index()] = None;
    }

    /// Puts the thread's next operation at this site of the plan.
    pub fn put(&mut self, thread: ThreadIx, place: u16) {
        self.at[thread.index()] = Some(place);
    }
}

impl RunView for Toy {
    fn current(&self) -> ThreadIx {
        self.current
    }

    fn ready(&self) -> &ThreadSet {
        &self.ready
    }

    fn by_timeout(&self) -> &ThreadSet {
        &self.by_timeout
    }

    fn earliest_timeout(&self) -> Option<ThreadIx> {
        self.earliest_timeout
    }

    fn yields(&self, thread: ThreadIx) -> bool {
        self.yields[thread.index()]
    }

    fn is_about_to(&self, thread: ThreadIx, action: &Action) -> bool {
        self.next[thread.index()] == *action
    }

    fn conflict(&self, a: ThreadIx, b: ThreadIx) -> bool {
        // A site stands for the object here.
        let (a, b) = (self.next[a.index()], self.next[b.index()]);
        a.site == b.site && !(a.op.only_reads() && b.op.only_reads())
    }

    fn is_at(&self, thread: ThreadIx, place: u16) -> bool {
        self.at[thread.index()] == Some(place)
    }

    fn resolve_thread(&self, in_plan: ThreadIx) -> Option<ThreadIx> {
        (in_plan.index() < self.next.len()).then_some(in_plan)
    }
}
