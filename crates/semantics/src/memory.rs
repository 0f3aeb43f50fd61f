//! Memory. Plain and atomic accesses, fences, allocation.
//!
//! | operation | enabled | effect | touches | happens-before |
//! | --- | --- | --- | --- | --- |
//! | read, load | always | none | reads its bytes | a load acquires as its order says |
//! | write, store, update | always | changes its bytes | writes its bytes | releases and acquires as its order says |
//! | compare-exchange | always | like an update if it succeeds, like a load if not | likewise | likewise |
//! | fence | always | none | nothing | orders the thread's relaxed accesses |
//! | allocate, free | always | the block becomes other memory | writes its bytes; the addresses of later blocks | none |

use crate::{
    AccessMode, ByteRange, OpResult,
    edge::{AtomicEdge, Edge},
    touch::{SharedObject, Touch},
};
use unsnarl_model::{Event, Flags, Op, Order};

/// An operation on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryOp {
    /// An access.
    Access(Access),
    /// A block is allocated: earlier accesses to its addresses were to other memory.
    Alloc(ByteRange),
    /// A block is freed: no thread may access it any more.
    Free(ByteRange),
    /// A fence with this order.
    Fence(Order),
}

/// A memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The bytes.
    pub range: ByteRange,
    /// The kind of access.
    pub kind: AccessKind,
    /// True if it depends on the contents.
    pub reads: bool,
    /// True if it changes the contents; false for a compare-exchange that failed.
    pub writes: bool,
    /// The memory order of an atomic access.
    pub order: Order,
    /// A value of the first eight bytes.
    pub value: AccessValue,
    /// True if the bytes are on the thread's own stack.
    pub own_stack: bool,
    /// True if an atomic variable did not have the value that instrumented code had stored last, or that
    /// value is unknown.
    pub foreign: bool,
}

/// The kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// A plain read.
    Read,
    /// A plain write.
    Write,
    /// An atomic load.
    Load,
    /// An atomic store.
    Store,
    /// An atomic read-modify-write.
    Update,
    /// An atomic compare-and-exchange.
    CompareExchange,
}

impl AccessKind {
    /// Returns whether such an access can change the memory.
    #[must_use]
    pub const fn may_write(self) -> bool {
        !matches!(self, Self::Read | Self::Load)
    }
}

/// A value of the accessed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessValue {
    /// The value that was read.
    Read(u64),
    /// The value that a plain write replaced.
    Replaced(u64),
    /// The value that an atomic operation left behind.
    Left(u64),
}

impl AccessValue {
    /// Returns the value itself.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Read(value) | Self::Replaced(value) | Self::Left(value) => value,
        }
    }
}

impl Access {
    /// Returns whether the access is atomic.
    #[must_use]
    #[inline]
    pub const fn is_atomic(&self) -> bool {
        !matches!(self.kind, AccessKind::Read | AccessKind::Write)
    }
}

impl MemoryOp {
    #[inline]
    pub(crate) fn decode(event: &Event) -> Self {
        let range = ByteRange::new(event.addr, event.size);
        let (kind, reads, writes) = match event.op {
            Op::Read => (AccessKind::Read, true, false),
            Op::Write => (AccessKind::Write, false, true),
            Op::AtomicLoad => (AccessKind::Load, true, false),
            Op::AtomicStore => (AccessKind::Store, false, true),
            Op::AtomicRmw => (AccessKind::Update, true, true),
            Op::AtomicCas => (AccessKind::CompareExchange, true, true),
            Op::Alloc => return Self::Alloc(range),
            Op::Free => return Self::Free(range),
            _ => return Self::Fence(event.order),
        };
        let value = match kind {
            AccessKind::Read | AccessKind::Load => AccessValue::Read(event.value),
            AccessKind::Write => AccessValue::Replaced(event.value),
            AccessKind::Store | AccessKind::Update | AccessKind::CompareExchange => {
                AccessValue::Left(event.value)
            }
        };
        Self::Access(Access {
            range,
            kind,
            reads,
            writes: writes && crate::succeeded(event),
            order: event.order,
            value,
            own_stack: event.flags.has(Flags::OWN_STACK),
            foreign: event.flags.has(Flags::FOREIGN),
        })
    }

    #[inline]
    pub(crate) fn touches(&self, result: OpResult, emit: &mut impl FnMut(Touch)) {
        match *self {
            Self::Access(access) => {
                emit(Touch::Bytes(access.range, AccessMode::writes_if(access.writes)));
            }
            Self::Alloc(block) => {
                if result.succeeded() {
                    emit(Touch::Bytes(block, AccessMode::Writes));
                }
                emit(Touch::writes(SharedObject::Addresses));
            }
            Self::Free(block) => {
                emit(Touch::Bytes(block, AccessMode::Writes));
                emit(Touch::writes(SharedObject::Addresses));
            }
            Self::Fence(_) => {}
        }
    }

    #[inline]
    pub(crate) fn edges(&self, mut emit: impl FnMut(Edge)) {
        match *self {
            Self::Access(access) if access.is_atomic() => emit(Edge::Atomic(AtomicEdge {
                variable: access.range.first,
                loads: access.reads,
                stores: access.writes,
                order: access.order,
                foreign: access.foreign,
            })),
            Self::Fence(order) => emit(Edge::Fence(order)),
            Self::Access(_) | Self::Alloc(_) | Self::Free(_) => {}
        }
    }
}
