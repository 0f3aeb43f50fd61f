//! Decoding: an event as a typed operation with its result.

use crate::{
    BarrierOp, CondOp, DescriptorOp, FileOp, FutexOp, MemoryOp, MutexOp, OnceOp, OpResult, RwLockOp,
    SchedulingOp, SemaphoreOp, SignalOp, ThreadOp,
};
use unsnarl_model::{Event, Flags, Op, SiteIx, ThreadIx};

/// An event with its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The executing thread.
    pub thread: ThreadIx,
    /// The number of the event.
    pub number: u64,
    /// The site in the code.
    pub site: SiteIx,
    /// The executed operation.
    pub operation: Operation,
    /// The result of the operation.
    pub result: OpResult,
    flags: Flags,
}

/// A visible operation, by the kind of object that it acts on. Each family has its own file, which defines
/// what its operations touch, acquire, release and wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// On memory.
    Memory(MemoryOp),
    /// On a mutex or spin lock.
    Mutex(MutexOp),
    /// On a read-write lock.
    RwLock(RwLockOp),
    /// On a condition variable.
    Cond(CondOp),
    /// On a semaphore.
    Semaphore(SemaphoreOp),
    /// On a barrier.
    Barrier(BarrierOp),
    /// On a once control or the guard of a static.
    Once(OnceOp),
    /// On a futex.
    Futex(FutexOp),
    /// On a thread.
    Thread(ThreadOp),
    /// On file descriptors and child processes.
    Descriptor(DescriptorOp),
    /// On files.
    File(FileOp),
    /// On signals and timers.
    Signal(SignalOp),
    /// On the scheduler alone.
    Scheduling(SchedulingOp),
}

impl Step {
    /// Decodes the event with this number.
    #[must_use]
    #[inline]
    pub fn decode(event: &Event, number: u64) -> Self {
        let result = OpResult::of(event);
        let operation = Operation::decode(event);
        Self { thread: event.thread, number, site: event.site, operation, result, flags: event.flags }
    }

    /// Returns whether the operation does not wait without limit: it has a deadline, or it is a try.
    #[must_use]
    #[inline]
    pub const fn bounded(&self) -> bool {
        self.flags.has(Flags::BOUNDED)
    }

    /// Returns whether the operation was executed inside an undivided region: no other thread could run, unless
    /// this one had to wait.
    #[must_use]
    #[inline]
    pub const fn undivided(&self) -> bool {
        self.flags.has(Flags::UNDIVIDED)
    }

    /// Returns whether the thread entered an undivided region after this operation, before its next one.
    #[must_use]
    #[inline]
    pub const fn enters_region(&self) -> bool {
        self.flags.has(Flags::ENTERS_REGION)
    }

    /// Returns whether the thread has executed uninstrumented code before this operation that may have ordered it
    /// after everything done so far.
    #[must_use]
    #[inline]
    pub const fn may_be_ordered(&self) -> bool {
        self.flags.has(Flags::MAY_BE_ORDERED)
    }

    /// Returns whether the operation took effect.
    #[must_use]
    #[inline]
    pub const fn succeeded(&self) -> bool {
        self.result.succeeded()
    }
}

impl Operation {
    /// Decodes the operation of an event. Nothing else in the project knows what the fields of an event mean,
    /// apart from the runtime and the codecs, which write them.
    #[must_use]
    #[inline]
    pub fn decode(event: &Event) -> Self {
        match event.op {
            Op::Read
            | Op::Write
            | Op::AtomicLoad
            | Op::AtomicStore
            | Op::AtomicRmw
            | Op::AtomicCas
            | Op::Alloc
            | Op::Free
            | Op::Fence => Self::Memory(MemoryOp::decode(event)),
            Op::LockInit | Op::LockDestroy | Op::Lock | Op::TryLock | Op::Unlock => {
                Self::Mutex(MutexOp::decode(event))
            }
            Op::RwInit
            | Op::RwDestroy
            | Op::ReadLock
            | Op::TryReadLock
            | Op::WriteLock
            | Op::TryWriteLock
            | Op::RwUnlock => Self::RwLock(RwLockOp::decode(event)),
            Op::CondInit | Op::CondDestroy | Op::CondWait | Op::CondWake | Op::Signal | Op::Broadcast => {
                Self::Cond(CondOp::decode(event))
            }
            Op::SemInit | Op::SemDestroy | Op::SemWait | Op::SemTryWait | Op::SemPost | Op::SemGet => {
                Self::Semaphore(SemaphoreOp::decode(event))
            }
            Op::BarrierInit | Op::BarrierDestroy | Op::BarrierArrive | Op::BarrierLeave => {
                Self::Barrier(BarrierOp::decode(event))
            }
            Op::OnceBegin | Op::OnceEnd | Op::OncePass => Self::Once(OnceOp::decode(event)),
            Op::FutexWait | Op::FutexWoken | Op::FutexWake | Op::FutexRequeue => {
                Self::Futex(FutexOp::decode(event))
            }
            Op::Start
            | Op::End
            | Op::Exit
            | Op::Create
            | Op::Join
            | Op::Detach
            | Op::Cancel
            | Op::Cancelled => Self::Thread(ThreadOp::decode(event)),
            Op::FdOpen
            | Op::FdClose
            | Op::FdRead
            | Op::FdWrite
            | Op::FdWait
            | Op::FdAccept
            | Op::FdConnect
            | Op::FileLock
            | Op::ChildStart
            | Op::ChildWait => Self::Descriptor(DescriptorOp::decode(event)),
            Op::FileRead
            | Op::FileWrite
            | Op::FileCreate
            | Op::FileRemove
            | Op::FileRename
            | Op::FileList => Self::File(FileOp::decode(event)),
            Op::SigAction
            | Op::SigMask
            | Op::SigSend
            | Op::SigHandle
            | Op::SigWait
            | Op::SigPause
            | Op::TimerSet
            | Op::TimerFire => Self::Signal(SignalOp::decode(event)),
            Op::Yield | Op::Sleep | Op::Point | Op::Checkpoint => {
                Self::Scheduling(SchedulingOp::decode(event))
            }
        }
    }

    /// Returns the memory access that the operation is, if any.
    #[must_use]
    #[inline]
    pub const fn access(&self) -> Option<&crate::Access> {
        match self {
            Self::Memory(MemoryOp::Access(access)) => Some(access),
            _ => None,
        }
    }

    /// Returns the address of the synchronisation object that the operation acts on, or the number of a channel;
    /// `None` for memory, threads, signals and operations without an object.
    #[must_use]
    pub const fn object(&self) -> Option<u64> {
        Some(match self {
            Self::Mutex(op) => op.lock(),
            Self::RwLock(op) => op.lock(),
            Self::Cond(op) => op.cond(),
            Self::Semaphore(op) => op.semaphore(),
            Self::Barrier(op) => op.barrier(),
            Self::Once(op) => op.once(),
            Self::Futex(op) => op.futex(),
            Self::Descriptor(op) => op.channel,
            Self::File(op) => op.file.object(),
            Self::Memory(_) | Self::Thread(_) | Self::Signal(_) | Self::Scheduling(_) => return None,
        })
    }

    /// Returns the bytes that the operation accesses, allocates or frees.
    #[must_use]
    pub const fn bytes(&self) -> Option<crate::ByteRange> {
        match self {
            Self::Memory(MemoryOp::Access(access)) => Some(access.range),
            Self::Memory(MemoryOp::Alloc(block) | MemoryOp::Free(block)) => Some(*block),
            _ => None,
        }
    }

    /// Returns the event that woke the thread, or sent the signal that it takes.
    #[must_use]
    pub const fn waker(&self) -> Option<u64> {
        match *self {
            Self::Cond(CondOp::Wake { waker, .. })
            | Self::Futex(FutexOp::Woken { waker, .. })
            | Self::Signal(SignalOp::Handle { waker, .. } | SignalOp::Wait { waker, .. }) => waker,
            _ => None,
        }
    }
}
