//! File descriptors and child processes. What they do depends on the kernel and on other processes, so whether
//! one can proceed is unknown.
//!
//! | operation | enabled | effect | touches | happens-before |
//! | --- | --- | --- | --- | --- |
//! | open | always | a descriptor exists | writes all channels | none |
//! | close | always | a descriptor is gone | writes all channels | releases its channel |
//! | read | unknown | takes data | writes its channel | acquires its channel if it succeeded |
//! | write | unknown | adds data | writes its channel | releases its channel |
//! | wait (poll, select) | unknown | none | writes all channels | acquires all channels |
//! | accept | unknown | a descriptor exists | writes all channels | acquires its channel |
//! | connect | unknown | the peer can accept | writes all channels | releases its channel |
//! | lock of a file | unknown | as its arguments say | writes all channels | acquires and releases it |
//! | child start | always | a process runs | writes all channels | acquires and releases the children |
//! | child wait | unknown | the process is gone | writes all channels | acquires the children |
//!
//! Operations that write all channels access several, or determine the descriptor numbers of later opens.

use crate::{
    OpResult,
    edge::{Edge, SyncPoint},
    machine::Enabled,
    touch::{SharedObject, Touch},
};
use unsnarl_model::{Event, Op};

/// `EAGAIN` of Linux: no data was there.
const WOULD_BLOCK: u64 = 11;

/// An operation on a file descriptor or a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorOp {
    /// The kind of operation.
    pub kind: DescriptorOpKind,
    /// The [`unsnarl_model::Channel`], encoded.
    pub channel: u64,
    /// The descriptor's number.
    pub descriptor: u64,
    /// The number of bytes or ready descriptors, another descriptor, or a process id; the error number if the
    /// operation failed.
    pub outcome: u64,
}

/// The kind of operation on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorOpKind {
    /// Descriptors are created.
    Open,
    /// A descriptor is closed, or one direction of a socket is shut down.
    Close,
    /// Data is read.
    Read,
    /// Data is written.
    Write,
    /// `poll`, `select` and similar calls.
    Wait,
    /// A connection is accepted.
    Accept,
    /// A connection is established.
    Connect,
    /// A file lock is acquired, released or queried.
    Lock,
    /// A child process is started.
    ChildStart,
    /// A child process is waited for.
    ChildWait,
}

impl DescriptorOp {
    #[inline]
    pub(crate) fn decode(event: &Event) -> Self {
        let kind = match event.op {
            Op::FdOpen => DescriptorOpKind::Open,
            Op::FdClose => DescriptorOpKind::Close,
            Op::FdRead => DescriptorOpKind::Read,
            Op::FdWrite => DescriptorOpKind::Write,
            Op::FdWait => DescriptorOpKind::Wait,
            Op::FdAccept => DescriptorOpKind::Accept,
            Op::FdConnect => DescriptorOpKind::Connect,
            Op::FileLock => DescriptorOpKind::Lock,
            Op::ChildStart => DescriptorOpKind::ChildStart,
            _ => DescriptorOpKind::ChildWait,
        };
        Self { kind, channel: event.addr, descriptor: event.size, outcome: event.value }
    }

    #[inline]
    pub(crate) fn touches(&self, emit: &mut impl FnMut(Touch)) {
        match self.kind {
            // Both ends change the contents of a pipe or socket.
            DescriptorOpKind::Read | DescriptorOpKind::Write => {
                emit(Touch::reads(SharedObject::Channels));
                emit(Touch::writes(SharedObject::Channel(self.channel)));
            }
            _ => emit(Touch::writes(SharedObject::Channels)),
        }
    }

    #[inline]
    pub(crate) fn edges(&self, result: OpResult, mut emit: impl FnMut(Edge)) {
        let channel = SyncPoint::Object(self.channel);
        match self.kind {
            // A wait may be for data written to any channel.
            DescriptorOpKind::Write | DescriptorOpKind::Close | DescriptorOpKind::Connect => {
                emit(Edge::Release(channel));
                emit(Edge::Release(SyncPoint::AnyChannel));
            }
            DescriptorOpKind::Read | DescriptorOpKind::Accept if self.found_nothing(result) => {}
            // Everything before the start of a child happens before the wait that learns of its end.
            DescriptorOpKind::Read | DescriptorOpKind::Accept | DescriptorOpKind::ChildWait => {
                emit(Edge::Acquire(channel));
            }
            DescriptorOpKind::Lock | DescriptorOpKind::ChildStart => {
                emit(Edge::Acquire(channel));
                emit(Edge::Release(channel));
            }
            DescriptorOpKind::Wait => emit(Edge::Acquire(SyncPoint::AnyChannel)),
            DescriptorOpKind::Open => {}
        }
    }

    /// Returns whether the operation ended without learning anything from the other end.
    const fn found_nothing(&self, result: OpResult) -> bool {
        match result {
            OpResult::Cancelled | OpResult::TimedOut | OpResult::Interrupted => true,
            OpResult::Failed => self.outcome == WOULD_BLOCK,
            OpResult::Done | OpResult::Spurious => false,
        }
    }

    pub(crate) const fn enabled(&self) -> Enabled {
        match self.kind {
            DescriptorOpKind::Open | DescriptorOpKind::Close | DescriptorOpKind::ChildStart => Enabled::Yes,
            _ => Enabled::Unknown,
        }
    }
}
