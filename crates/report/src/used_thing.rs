//! The objects that events act on, and their effect, for comparing the events of several threads.

use unsnarl_model::Event;
use unsnarl_semantics::{
    Access, AccessKind, ByteRange, CondOp, MemoryOp, MutexOp, Operation, RwLockOp, SemaphoreOp, succeeded,
};

/// Something that several threads can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsedThing {
    /// A lock, a condition variable and so on, by its address.
    Object(u64),
    Memory(ByteRange),
}

impl UsedThing {
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let operation = Operation::decode(event);
        operation.bytes().map(Self::Memory).or_else(|| operation.object().map(Self::Object))
    }

    /// Returns whether both are, at least in part, the same.
    pub(crate) fn meets(self, other: Self) -> bool {
        match (self, other) {
            (Self::Object(a), Self::Object(b)) => a == b,
            (Self::Memory(a), Self::Memory(b)) => a.overlaps(b),
            _ => false,
        }
    }
}

/// Returns the access of an event that only reads.
pub(crate) fn read_by(event: &Event) -> Option<Access> {
    let operation = Operation::decode(event);
    let access = operation.access()?;
    matches!(access.kind, AccessKind::Read | AccessKind::Load).then_some(*access)
}

/// Returns the verb for an event that other threads can observe, and whether its effect is permanent.
pub(crate) fn effect_of(event: &Event) -> Option<(&'static str, bool)> {
    if !succeeded(event) {
        return None;
    }
    Some(match Operation::decode(event) {
        Operation::Memory(MemoryOp::Access(access)) => match access.kind {
            AccessKind::Read | AccessKind::Load => ("read", false),
            AccessKind::Write | AccessKind::Store => ("wrote", true),
            AccessKind::Update | AccessKind::CompareExchange => ("updated", true),
        },
        Operation::Memory(MemoryOp::Free(_)) => ("freed", true),
        Operation::Mutex(MutexOp::Lock { attempt: false, .. })
        | Operation::RwLock(RwLockOp::Lock { attempt: false, .. }) => ("locked", false),
        Operation::Mutex(MutexOp::Destroy { .. })
        | Operation::RwLock(RwLockOp::Destroy { .. })
        | Operation::Cond(CondOp::Destroy { .. })
        | Operation::Semaphore(SemaphoreOp::Destroy { .. }) => ("destroyed", true),
        Operation::Cond(CondOp::Signal { .. }) => ("signalled", true),
        Operation::Semaphore(SemaphoreOp::Post { .. }) => ("posted", true),
        Operation::Semaphore(SemaphoreOp::Wait { attempt: false, .. }) => ("took", true),
        _ => return None,
    })
}
