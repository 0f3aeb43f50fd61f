//! What makes a trace unfit for prediction: it contradicts the meaning of its own operations.

use unsnarl_model::ThreadIx;

/// An event that cannot have happened after those before it.
///
/// From such a trace anything would follow, so there is no answer rather than a wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {} (thread number {}) {what}; nothing can be predicted from a trace that contradicts itself: correct it, or record it anew", .event + 1, .thread.0)]
pub struct Flaw {
    /// Which, from 0.
    pub event: u64,
    /// Whose.
    pub thread: ThreadIx,
    /// What is wrong with it.
    pub what: Contradiction,
}

/// What is wrong with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// A lock is given back by somebody who has not got it.
    #[error("gives back the lock {0:#x}, which it does not hold")]
    NotHeld(u64),
    /// A lock is taken that somebody else holds.
    #[error("takes the lock {lock:#x}, which thread number {} holds", .holder.0)]
    HeldByAnother {
        /// Which.
        lock: u64,
        /// By whom.
        holder: ThreadIx,
    },
    /// A wait on a condition without its mutex.
    #[error("waits on a condition without holding its mutex {0:#x}")]
    WaitsUnlocked(u64),
    /// A wait ends that never began.
    #[error("ends a wait that it never began")]
    NotWaiting,
    /// A thread is joined that nobody ever created and that never ran.
    #[error("joins thread number {0}, which was never created and never ran")]
    JoinsUnknown(u64),
    /// A thread runs after it was joined.
    #[error("is of a thread that was joined before")]
    RunsAfterJoin,
    /// A thread runs after its last event.
    #[error("is of a thread that ended before")]
    RunsAfterEnd,
    /// There are more events than can be numbered.
    #[error("is one too many to be looked at in one piece: use a window")]
    TooMany,
}
