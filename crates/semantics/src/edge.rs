//! Happens-before edges: what an operation learns from others, and what it publishes.

use crate::{Operation, Step};
use unsnarl_model::Order;

/// One end of a happens-before edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The thread comes after everything that was released there.
    Acquire(SyncPoint),
    /// Everything that the thread has done comes before a later acquire there.
    Release(SyncPoint),
    /// The thread comes after the event with this number.
    Woken(u64),
    /// The thread comes before the wake-ups that name this event: this many, or unknown.
    Wakes(Option<u64>),
    /// An access to an atomic variable, ordered by the rules of C11.
    Atomic(AtomicEdge),
    /// A fence, by the rules of C11.
    Fence(Order),
    /// Uninstrumented code may have ordered the thread after everything done up to now.
    Unobserved,
}

/// An object or moment that links a release to later acquires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncPoint {
    /// A mutex, a spin lock, or the writers of a read-write lock. The order of critical sections is
    /// arbitrary, so some analyses ignore these edges.
    Lock(u64),
    /// The readers of a read-write lock, which writers wait for. Also an edge of a lock.
    Readers(u64),
    /// A semaphore, once control, futex, channel, file or signal, by its address or number.
    Object(u64),
    /// A round of a barrier.
    Round(u64, u64),
    /// The beginning or end of the thread with this number.
    Life(u64),
    /// The guard of a static, which compilers also check by an atomic load.
    Guard(u64),
    /// Every channel: a wait may be for data written to any of them.
    AnyChannel,
    /// All timers.
    Timers,
}

/// An access to an atomic variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicEdge {
    /// Its address.
    pub variable: u64,
    /// True if the value was read.
    pub loads: bool,
    /// True if the value was written.
    pub stores: bool,
    /// The memory order.
    pub order: Order,
    /// True if the variable did not have the value that instrumented code had stored last.
    pub foreign: bool,
}

/// Emits the edges of a step, in the order in which they apply.
#[inline]
pub fn edges(step: &Step, mut emit: impl FnMut(Edge)) {
    if step.may_be_ordered() {
        emit(Edge::Unobserved);
    }
    match &step.operation {
        Operation::Memory(op) => op.edges(emit),
        Operation::Mutex(op) => op.edges(step.result, emit),
        Operation::RwLock(op) => op.edges(step.result, emit),
        Operation::Cond(op) => op.edges(step.result, emit),
        Operation::Semaphore(op) => op.edges(step.result, emit),
        Operation::Barrier(op) => op.edges(emit),
        Operation::Once(op) => op.edges(step.result, emit),
        Operation::Futex(op) => op.edges(step.result, emit),
        Operation::Thread(op) => op.edges(step.thread, step.result, emit),
        Operation::Descriptor(op) => op.edges(step.result, emit),
        Operation::File(op) => op.edges(emit),
        Operation::Signal(op) => op.edges(step.result, emit),
        Operation::Scheduling(_) => {}
    }
}

/// Returns whether an operation with this memory order acquires.
#[must_use]
#[inline]
pub const fn acquires(order: Order) -> bool {
    matches!(order, Order::Consume | Order::Acquire | Order::AcqRel | Order::SeqCst)
}

/// Returns whether an operation with this memory order releases.
#[must_use]
#[inline]
pub const fn releases(order: Order) -> bool {
    matches!(order, Order::Release | Order::AcqRel | Order::SeqCst)
}
