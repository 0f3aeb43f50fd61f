//! Conflicts that must occur before an interrupted thread continues.

use unsnarl_model::{Event, Op, ThreadId};
use unsnarl_semantics::{AccessMode, Touch};

/// A thread that was interrupted before this operation, although it was enabled: another thread must first do
/// something that the operation depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PendingConflict {
    pub(super) thread: ThreadId,
    /// The touches of the operation; everything that it may write counts as written.
    touches: Vec<Touch>,
}

impl PendingConflict {
    pub(super) fn new(thread: ThreadId, event: &Event, touches: &[Touch]) -> Self {
        let reads =
            event.op.only_reads() || matches!(event.op, Op::ReadLock | Op::OncePass | Op::BarrierLeave);
        let mut touches = touches.to_vec();
        for touch in &mut touches {
            if let Touch::SharedObject(_, how) | Touch::Bytes(_, how) = touch
                && !reads
            {
                *how = AccessMode::Writes;
            }
        }
        Self { thread, touches }
    }

    /// Returns whether an event with these touches resolves the conflict.
    pub(super) fn is_resolved_by(&self, thread: &ThreadId, touches: &[Touch]) -> bool {
        *thread != self.thread && touches.iter().any(|b| self.touches.iter().any(|a| conflict(a, b)))
    }
}

/// Returns whether two operations with these touches depend on each other. When in doubt, they do.
fn conflict(a: &Touch, b: &Touch) -> bool {
    let one_writes = |a, b| a == AccessMode::Writes || b == AccessMode::Writes;
    match (*a, *b) {
        (Touch::SharedObject(a, how_a), Touch::SharedObject(b, how_b)) => a == b && one_writes(how_a, how_b),
        (Touch::Bytes(a, how_a), Touch::Bytes(b, how_b)) => a.overlaps(b) && one_writes(how_a, how_b),
        (Touch::SharedObject(..), Touch::Bytes(..)) | (Touch::Bytes(..), Touch::SharedObject(..)) => false,
        (Touch::Forget(_), _) | (_, Touch::Forget(_)) => false,
        _ => true,
    }
}
