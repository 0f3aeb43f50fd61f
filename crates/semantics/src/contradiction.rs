//! Contradictions: events that cannot have happened after those before them.

use unsnarl_model::ThreadIx;

/// The ways in which an event can contradict the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// A lock is released by a thread that does not hold it.
    NotHeld(u64),
    /// A lock is acquired that another thread holds.
    HeldByAnother {
        /// The lock.
        lock: u64,
        /// The thread that holds it.
        holder: ThreadIx,
    },
    /// A wait on a condition without its mutex.
    WaitWithoutLock(u64),
    /// A wait ends that never began.
    NotWaiting,
    /// A thread is joined that was never created and never ran.
    JoinOfUnknownThread(u64),
    /// A thread joins itself.
    SelfJoin,
    /// A thread is created that already exists.
    DuplicateCreation(ThreadIx),
    /// A thread runs after it was joined.
    EventAfterJoin,
    /// A thread runs after its last event.
    EventAfterEnd,
}
