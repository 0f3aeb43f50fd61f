//! Touches: the resources that an operation reads or writes. Two operations of different threads depend on
//! each other if they touch a common resource and one of them writes it.

use crate::{ByteRange, Operation, Step};
use unsnarl_model::ThreadIx;

/// A resource other than bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedObject {
    /// A mutex or spin lock, by its address.
    Lock(u64),
    /// A read-write lock; acquiring it for reading reads it.
    RwLock(u64),
    /// A condition variable's waiters and wake-ups.
    Cond(u64),
    /// A semaphore's count.
    Semaphore(u64),
    /// A barrier's arrivals.
    Barrier(u64),
    /// One round of a barrier: arriving writes it, leaving reads it.
    Round(u64, u64),
    /// A once control or the guard of a static.
    Once(u64),
    /// The waiters and wake-ups of a futex.
    Futex(u64),
    /// The assignment of waiters to futexes; only a requeue writes it.
    Futexes,
    /// A thread's lifetime.
    Life(ThreadIx),
    /// The numbering of threads.
    Threads,
    /// The state "more than one thread exists": creations write it, and ends that it may depend on read it.
    Concurrency,
    /// The state that determines the addresses of allocated memory.
    Addresses,
    /// The object behind a descriptor.
    Channel(u64),
    /// All channels, and the descriptor numbers.
    Channels,
    /// A file or directory, by its path.
    File(u64),
    /// The position of the descriptors of a file, by its path.
    FilePosition(u64),
    /// The names in a directory, by its path.
    FileNames(u64),
    /// Signals and timers of all threads.
    Signals,
    /// Virtual time, as far as it jumps.
    Time,
}

impl SharedObject {
    /// Returns whether the program sees the object only if it looks at its environment: at addresses or the
    /// time.
    #[must_use]
    #[inline]
    pub const fn is_environment(self) -> bool {
        matches!(self, Self::Addresses | Self::Time)
    }
}

/// The kind of an access to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// Two reads commute.
    Reads,
    /// A write commutes with nothing.
    Writes,
}

impl AccessMode {
    /// Returns `Writes` if the operation changes the resource.
    #[must_use]
    #[inline]
    pub const fn writes_if(changes: bool) -> Self {
        if changes { Self::Writes } else { Self::Reads }
    }
}

/// A reason for an event to depend on others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Touches an object.
    SharedObject(SharedObject, AccessMode),
    /// Touches bytes of memory.
    Bytes(ByteRange, AccessMode),
    /// Comes after everything that the thread has done so far.
    After(ThreadIx),
    /// Comes before everything that the thread does from now on.
    Before(ThreadIx),
    /// Both `After` and `Before`.
    Pin(ThreadIx),
    /// Keeps its position among all events.
    Fence,
    /// No event will touch the object any more.
    Forget(SharedObject),
}

impl Touch {
    /// Builds a touch that reads the object.
    #[must_use]
    #[inline]
    pub const fn reads(object: SharedObject) -> Self {
        Self::SharedObject(object, AccessMode::Reads)
    }

    /// Builds a touch that writes the object.
    #[must_use]
    #[inline]
    pub const fn writes(object: SharedObject) -> Self {
        Self::SharedObject(object, AccessMode::Writes)
    }

    /// Returns whether only a program that looks at its environment can observe the touch.
    #[must_use]
    #[inline]
    pub const fn is_of_environment(&self) -> bool {
        matches!(self, Self::SharedObject(object, _) if object.is_environment())
    }

    /// Builds a touch that writes the object if `changes`, and reads it otherwise.
    #[must_use]
    #[inline]
    pub const fn writes_if(changes: bool, object: SharedObject) -> Self {
        Self::SharedObject(object, AccessMode::writes_if(changes))
    }
}

/// Emits the touches of a step that follow from the step alone. [`crate::dependence::Relation`] adds those
/// that depend on earlier steps.
#[inline]
pub fn touches(step: &Step, mut emit: impl FnMut(Touch)) {
    match &step.operation {
        Operation::Memory(op) => op.touches(step.result, &mut emit),
        Operation::Mutex(op) => op.touches(step.result, &mut emit),
        Operation::RwLock(op) => op.touches(step.result, &mut emit),
        Operation::Cond(op) => op.touches(step.result, &mut emit),
        Operation::Semaphore(op) => op.touches(step.result, &mut emit),
        Operation::Barrier(op) => op.touches(&mut emit),
        Operation::Once(op) => op.touches(&mut emit),
        Operation::Futex(op) => op.touches(step.result, &mut emit),
        Operation::Thread(op) => op.touches(step.thread, step.result, &mut emit),
        Operation::Descriptor(op) => op.touches(&mut emit),
        Operation::File(op) => op.touches(step.result, &mut emit),
        Operation::Signal(op) => op.touches(step.thread, &mut emit),
        Operation::Scheduling(op) => op.touches(&mut emit),
    }
    if step.result == crate::OpResult::TimedOut {
        emit(Touch::writes(SharedObject::Time));
    }
}

/// Returns whether the order of two operations of different threads matters, given their touches.
#[must_use]
pub fn depend(a: (ThreadIx, &[Touch]), b: (ThreadIx, &[Touch])) -> bool {
    let keeps_place = |touches: &[Touch], other: ThreadIx| {
        touches.iter().any(|touch| match *touch {
            Touch::Fence => true,
            Touch::After(thread) | Touch::Before(thread) | Touch::Pin(thread) => thread == other,
            _ => false,
        })
    };
    let one_writes = |how, too| how == AccessMode::Writes || too == AccessMode::Writes;
    let conflict = |a: &Touch, b: &Touch| match (*a, *b) {
        (Touch::SharedObject(a, how), Touch::SharedObject(b, too)) => a == b && one_writes(how, too),
        (Touch::Bytes(a, how), Touch::Bytes(b, too)) => a.overlaps(b) && one_writes(how, too),
        _ => false,
    };
    keeps_place(a.1, b.0) || keeps_place(b.1, a.0) || a.1.iter().any(|a| b.1.iter().any(|b| conflict(a, b)))
}
