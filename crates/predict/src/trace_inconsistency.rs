//! Inconsistent traces: traces that contradict the semantics of their own operations are unfit for prediction.

use unsnarl_model::ThreadIx;
use unsnarl_semantics::Contradiction;

/// An event that cannot have happened after those before it.
///
/// Anything would follow from such a trace, so no answer is given rather than a wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceInconsistency {
    /// The number of the event, from 0.
    pub event: u64,
    pub thread: ThreadIx,
    pub reason: InconsistencyReason,
}

/// The reason why a trace is unfit for prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InconsistencyReason {
    /// An event contradicts the earlier ones.
    Contradiction(Contradiction),
    /// There are more events than can be numbered.
    TooManyEvents,
}

impl TraceInconsistency {
    /// Describes the inconsistency with the given names, but not its consequences.
    #[must_use]
    pub fn describe(&self, lock: &dyn Fn(u64) -> String, thread: &dyn Fn(ThreadIx) -> String) -> String {
        let thread_name = thread(self.thread);
        let InconsistencyReason::Contradiction(contradiction) = self.reason else {
            return "there are too many events for one analysis: use a smaller --window".into();
        };
        let contradiction = match contradiction {
            Contradiction::NotHeld(it) => format!("releases lock {}, which it does not hold", lock(it)),
            Contradiction::HeldByAnother { lock: it, holder } => {
                format!("acquires lock {}, which {} holds", lock(it), thread(holder))
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
            Contradiction::DuplicateCreation(it) => format!("creates {}, which already exists", thread(it)),
            Contradiction::EventAfterJoin => "runs after it was joined".into(),
            Contradiction::EventAfterEnd => "runs after its end".into(),
        };
        format!("{thread_name} {contradiction}")
    }
}

impl std::fmt::Display for TraceInconsistency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let describe =
            self.describe(&|lock| format!("{lock:#x}"), &|thread| format!("thread number {}", thread.0));
        write!(
            f,
            "event {}: {describe}; nothing can be predicted from a trace that contradicts itself",
            self.event
        )
    }
}

impl std::error::Error for TraceInconsistency {}
