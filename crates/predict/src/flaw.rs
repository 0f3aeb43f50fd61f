//! What makes a trace unfit for prediction: it contradicts the meaning of its own operations.

use unsnarl_model::ThreadIx;

/// An event that cannot have happened after those before it.
///
/// From such a trace anything would follow, so there is no answer rather than a wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Which, from 0.
    pub event: u64,
    /// Whose.
    pub thread: ThreadIx,
    /// What is wrong with it.
    pub contradiction: Contradiction,
}

/// What is wrong with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// A lock is given back by somebody who has not got it.
    NotHeld(u64),
    /// A lock is taken that somebody else holds.
    HeldByAnother {
        /// Which.
        lock: u64,
        /// By whom.
        holder: ThreadIx,
    },
    /// A wait on a condition without its mutex.
    WaitWithoutLock(u64),
    /// A wait ends that never began.
    NotWaiting,
    /// A thread is joined that nobody ever created and that never ran.
    JoinOfUnknownThread(u64),
    /// A thread joins itself.
    SelfJoin,
    /// A thread is created that is there already.
    DuplicateCreation(ThreadIx),
    /// A thread runs after it was joined.
    EventAfterJoin,
    /// A thread runs after its last event.
    EventAfterEnd,
    /// There are more events than can be numbered.
    TooManyEvents,
}

impl Flaw {
    /// The same in words, with the names that the reader knows; without what follows from it.
    #[must_use]
    pub fn describe(&self, lock: &dyn Fn(u64) -> String, thread: &dyn Fn(ThreadIx) -> String) -> String {
        let thread_name = thread(self.thread);
        let contradiction = match self.contradiction {
            Contradiction::NotHeld(it) => format!("gives back the lock {}, which it does not hold", lock(it)),
            Contradiction::HeldByAnother { lock: it, holder } => {
                format!("takes the lock {}, which {} holds", lock(it), thread(holder))
            }
            Contradiction::WaitWithoutLock(it) => {
                format!("waits on a condition without holding its mutex {}", lock(it))
            }
            Contradiction::NotWaiting => "ends a wait that it never began".into(),
            Contradiction::JoinOfUnknownThread(it) => {
                let known = u16::try_from(it).map_or_else(|_| it.to_string(), |it| thread(ThreadIx(it)));
                format!("joins {known}, which was never created and never ran")
            }
            Contradiction::SelfJoin => "joins itself".into(),
            Contradiction::DuplicateCreation(it) => format!("creates {}, which is there already", thread(it)),
            Contradiction::EventAfterJoin => "goes on after it was joined".into(),
            Contradiction::EventAfterEnd => "goes on after its end".into(),
            Contradiction::TooManyEvents => {
                return "there are too many events to be looked at in one piece: use a window".into();
            }
        };
        format!("{thread_name} {contradiction}")
    }
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let describe =
            self.describe(&|lock| format!("{lock:#x}"), &|thread| format!("thread number {}", thread.0));
        write!(
            f,
            "event {}: {describe}; nothing can be predicted from a trace that contradicts itself",
            self.event + 1
        )
    }
}

impl std::error::Error for Flaw {}
