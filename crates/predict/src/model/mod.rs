//! The trace model: section 2.1 of the paper, built from a window of a trace.
//!
//! A thread is a sequence of *steps*. Four kinds of constraint on the order of steps capture the semantics of
//! all synchronisation primitives:
//!
//! - a step **needs** other steps in every order: the creation of its thread, the end of the thread that it
//!   joins, the signal that woke it, all arrivals at its barrier's round, the post whose token it took …
//! - it **takes** or **gives back** a lock, which excludes others as mutexes and read-write locks do. A
//!   semaphore that is used as a mutex counts as one.
//! - it was **refused** a lock, and so must find it held.
//! - it **sees** a write: a read must see the same one again, because otherwise the thread may behave
//!   differently from there on. With [`ReadRule::Free`] this applies only to reads by which threads wait for
//!   each other.
//!
//! Deviations from the paper: the paper lets every read see anything ([`ReadRule::Free`]) and leaves it to the
//! replay to find out. Here that is the second attempt. A condition whose wait never ran, because its
//! predicate was already true, is recognised without instrumenting wait loops: the signal was sent in the
//! critical section that wrote the data which the waiter then read under the same lock.
//!
//! Not in the model: accesses to memory that only one thread uses or no thread writes, and accesses that add
//! nothing to the one before them.

mod build;
mod cells;
mod locksets;
mod sections;
mod semaphores;
mod state;
mod uninstrumented;

pub(crate) use locksets::Locksets;
pub use state::SyncState;

use cells::CellMap;
use unsnarl_model::{SiteIx, ThreadIx};

/// The writes that reads must see in a legal reordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReadRule {
    /// The same write as in the trace. Then every thread behaves the same, and no run is needed.
    Same,
    /// Anything, as in the paper: only a run shows whether the threads still behave the same. Atomic loads
    /// and reads by which threads wait for each other must see the same write nevertheless.
    Free,
}

/// No step, no event.
pub(crate) const NONE: u32 = u32::MAX;

/// The contents of a cell before the window; other contents are numbered by the step that wrote them, plus
/// one.
pub(crate) const INITIAL: u32 = 0;

/// One operation of a thread that matters to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelStep {
    pub(crate) thread: ThreadIx,
    /// Its index among its thread's steps.
    pub(crate) at: u32,
    /// The index of the event in the window; `NONE` if it was before.
    pub(crate) event: u32,
    pub(crate) site: SiteIx,
    pub(crate) action: StepAction,
    /// The lockset of the thread before the step.
    pub(crate) held: u32,
    touches: (u32, u32),
    needs: (u32, u32),
    /// The number of its needs, from the first, that it waits for.
    awaited: u32,
}

/// The effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepAction {
    /// No effect on locks or memory.
    Other,
    /// Reads or writes shared memory.
    Access { writes: bool, atomic: bool, own_stack: bool },
    /// Acquires a lock.
    Acquires { lock: u32, shared: bool, waits: bool },
    /// Releases a lock.
    Releases { lock: u32, shared: bool },
    /// Finds a lock held.
    Refused { lock: u32, shared: bool },
    /// Waits for the end of a thread.
    Joins(ThreadIx),
}

/// A cell that a step touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellTouch {
    pub(crate) cell: u32,
    /// The contents it must see; [`NONE`] if anything may be there.
    pub(crate) sees: u32,
    pub(crate) writes: bool,
}

/// A wait that was ended by a signal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignalledWait {
    /// The step that begins the wait.
    pub(crate) wait: u32,
    pub(crate) signal: u32,
    pub(crate) wake: u32,
}

/// A window of a trace as the search sees it.
#[derive(Debug)]
pub(crate) struct Model {
    /// In the order of the trace; needs refer to earlier steps.
    pub(crate) steps: Vec<ModelStep>,
    /// By thread: the numbers of its steps, in order.
    pub(crate) threads: Vec<Vec<u32>>,
    /// By thread: the number of steps before the window.
    pub(crate) given: Vec<u32>,
    pub(crate) cells: CellMap,
    /// The address of each lock.
    pub(crate) locks: Vec<u64>,
    pub(crate) locksets: Locksets,
    pub(crate) signalled_waits: Vec<SignalledWait>,
    /// By thread: its lockset after its last step.
    pub(crate) held_at_end: Vec<u32>,
    /// The writes that reads must see.
    pub(crate) reads: ReadRule,
    /// The number of steps that synchronise threads.
    pub(crate) synchronising: u64,
    touches: Vec<CellTouch>,
    needs: Vec<u32>,
}

impl Model {
    /// Returns the cells that a step touches.
    pub(crate) fn touches(&self, step: &ModelStep) -> &[CellTouch] {
        &self.touches[step.touches.0 as usize..step.touches.1 as usize]
    }

    /// Returns the needs of a step, apart from the writes that it sees.
    pub(crate) fn needs(&self, step: &ModelStep) -> &[u32] {
        &self.needs[step.needs.0 as usize..step.needs.1 as usize]
    }

    /// Returns the needs that the thread waits for if they are not done yet: the end of the joined thread, a
    /// signal, a post, arrivals at a barrier, the end of a once routine.
    pub(crate) fn awaited(&self, step: &ModelStep) -> &[u32] {
        &self.needs(step)[..step.awaited as usize]
    }

    /// Returns the needs for a step to come next, even if the thread then waits.
    pub(crate) fn needs_to_come_next(&self, step: &ModelStep) -> &[u32] {
        &self.needs(step)[step.awaited as usize..]
    }

    pub(crate) fn step(&self, number: u32) -> &ModelStep {
        &self.steps[number as usize]
    }

    /// Returns a thread's step by its index.
    pub(crate) fn of_thread(&self, thread: usize, at: u32) -> Option<&ModelStep> {
        self.threads[thread].get(at as usize).map(|&number| self.step(number))
    }

    /// Returns the lockset of a thread after this many of its steps.
    pub(crate) fn held_after(&self, thread: usize, steps: u32) -> u32 {
        self.of_thread(thread, steps).map_or(self.held_at_end[thread], |next| next.held)
    }
}
