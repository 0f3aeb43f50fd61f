//! The trace model: section 2.1 of the paper, made of a window of a trace.
//!
//! A thread is a sequence of *steps*. What a step may not come before is told in four ways, which between them
//! hold all that the synchronisation primitives mean:
//!
//! - it **needs** other steps, whatever the order: the creation of its thread, the end of the thread that it
//!   joins, the signal that woke it, all arrivals at its barrier's round, the post whose token it took …
//! - it **takes** or **gives back** a lock, which excludes others as mutexes and read-write locks do. A semaphore
//!   that is used as a mutex is one here.
//! - it was **refused** a lock, and so must find it taken.
//! - it **sees** a write: a read must see the same one again, for otherwise the thread may do something else
//!   from there on. With [`Reads::Free`] only those must that threads use to wait for each other.
//!
//! Where this deviates from the paper: the paper lets every read see anything ([`Reads::Free`]) and leaves it to
//! the replay to find out. Here that is the second attempt. A condition whose wait never ran, because what it waits for had
//! come already, is recognised without instrumenting wait loops: the signal was given in the critical section
//! that wrote what the waiter then read under the same lock.
//!
//! What is not in the model: accesses to memory that only one thread uses or nobody writes, and accesses that
//! say nothing that the one before them has not said.

mod build;
mod cells;
mod locksets;
mod sections;
mod semaphores;
mod state;
mod uninstrumented;

pub(crate) use locksets::Locksets;
pub use state::{Holding, SyncState};

use cells::Cells;
use unsnarl_model::{SiteIx, ThreadIx};

/// What reads have to see for a reordering to count as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reads {
    /// The same write as in the trace. Then every thread does what it did, and nothing needs to be tried out.
    Same,
    /// Anything, as in the paper: only a run can tell whether the threads still do what they did. Atomic loads
    /// and reads by which threads wait for each other must see the same write nevertheless.
    Free,
}

/// No step, no event.
pub(crate) const NONE: u32 = u32::MAX;

/// What a cell held before the window; other contents are named by the step that wrote them, plus one.
pub(crate) const INITIAL: u32 = 0;

/// One operation of a thread that matters to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelStep {
    pub(crate) thread: ThreadIx,
    /// Which of its thread's steps.
    pub(crate) at: u32,
    /// The number of the event in the window; none if it was before.
    pub(crate) event: u32,
    pub(crate) site: SiteIx,
    pub(crate) action: StepAction,
    /// The locks that the thread holds before it, by the number of the set.
    pub(crate) held: u32,
    touches: (u32, u32),
    needs: (u32, u32),
    /// How many of its needs, the first ones, it waits for.
    awaited: u32,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepAction {
    /// Nothing that a lock or memory knows of.
    Other,
    /// It reads or writes shared memory.
    Access { writes: bool, atomic: bool, own_stack: bool },
    /// It takes a lock.
    Takes { lock: u32, shared: bool, blocks: bool },
    /// It gives a lock back.
    Gives { lock: u32, shared: bool },
    /// It found a lock taken.
    Refused { lock: u32, shared: bool },
    /// It waits for the end of a thread.
    Joins(ThreadIx),
}

/// A cell that a step touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellTouch {
    pub(crate) cell: u32,
    /// What must be there; [`NONE`] if anything may.
    pub(crate) sees: u32,
    pub(crate) writes: bool,
}

/// A wait that was ended by a signal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeUp {
    /// The wait begins.
    pub(crate) wait: u32,
    pub(crate) signal: u32,
    pub(crate) wake: u32,
}

/// A window of a trace as the search sees it.
#[derive(Debug)]
pub(crate) struct Model {
    /// In the order of the trace; needs point backwards.
    pub(crate) steps: Vec<ModelStep>,
    /// By thread: the numbers of its steps, in order.
    pub(crate) threads: Vec<Vec<u32>>,
    /// How many steps of each thread were done before the window.
    pub(crate) given: Vec<u32>,
    pub(crate) cells: Cells,
    /// The address of each lock.
    pub(crate) locks: Vec<u64>,
    pub(crate) locksets: Locksets,
    pub(crate) wake_ups: Vec<WakeUp>,
    /// By thread: the locks that it holds after its last step.
    pub(crate) held_at_end: Vec<u32>,
    /// What reads must see.
    pub(crate) reads: Reads,
    /// Steps that synchronise threads.
    pub(crate) synchronising: u64,
    touches: Vec<CellTouch>,
    needs: Vec<u32>,
}

impl Model {
    /// What a step touches.
    pub(crate) fn touches(&self, step: &ModelStep) -> &[CellTouch] {
        &self.touches[step.touches.0 as usize..step.touches.1 as usize]
    }

    /// What a step cannot do without, apart from what it sees.
    pub(crate) fn needs(&self, step: &ModelStep) -> &[u32] {
        &self.needs[step.needs.0 as usize..step.needs.1 as usize]
    }

    /// What the thread waits for where it is not done yet: the end of who is joined, a signal, a post, others' arrival
    /// at a barrier, the end of a once routine.
    pub(crate) fn awaited(&self, step: &ModelStep) -> &[u32] {
        &self.needs(step)[..step.awaited as usize]
    }

    /// What must be done for a step to come next, be it that it then waits.
    pub(crate) fn needs_to_come_next(&self, step: &ModelStep) -> &[u32] {
        &self.needs(step)[step.awaited as usize..]
    }

    pub(crate) fn step(&self, number: u32) -> &ModelStep {
        &self.steps[number as usize]
    }

    /// A thread's step.
    pub(crate) fn of_thread(&self, thread: usize, at: u32) -> Option<&ModelStep> {
        self.threads[thread].get(at as usize).map(|&number| self.step(number))
    }

    /// The locks that a thread holds after so many of its steps.
    pub(crate) fn held_after(&self, thread: usize, steps: u32) -> u32 {
        self.of_thread(thread, steps).map_or(self.held_at_end[thread], |next| next.held)
    }
}
