//! Operations on descriptors as text: `read 5 bytes from pipe 3`.

use unsnarl_model::{Channel, ChannelKind, Event, Op, Site, Trace, Wait};
use unsnarl_semantics::{DescriptorOp, DescriptorOpKind, OpResult, Operation};

/// Describes an operation.
pub(super) fn operation(op: &DescriptorOp, result: OpResult) -> String {
    let on = named(op.channel, op.descriptor);
    let value = op.outcome;
    match result {
        OpResult::Cancelled => return format!("{} {on}: cancelled", verb(op.kind)),
        OpResult::TimedOut => return format!("{} {on}: timed out", verb(op.kind)),
        OpResult::Failed | OpResult::Interrupted => {
            return format!("{} {on}: {}", verb(op.kind), error(value));
        }
        OpResult::Done | OpResult::Spurious => {}
    }
    match (op.kind, value) {
        (DescriptorOpKind::Open, 0) => format!("open {on}"),
        (DescriptorOpKind::Open, second) => format!("open {on} and {second}"),
        (DescriptorOpKind::Close, _) => format!("close {on}"),
        (DescriptorOpKind::Read, 0) => format!("read the end of {on}"),
        (DescriptorOpKind::Read, count) => format!("read {} from {on}", bytes(count)),
        (DescriptorOpKind::Write, count) => format!("write {} to {on}", bytes(count)),
        (DescriptorOpKind::Wait, 0) => format!("poll {on}: nothing ready"),
        (DescriptorOpKind::Wait, 1) => format!("wait for {on}: ready"),
        (DescriptorOpKind::Wait, count) => format!("wait for {on}: {count} are ready"),
        (DescriptorOpKind::Accept, socket) => format!("accept socket {socket} at {on}"),
        (DescriptorOpKind::Connect, _) => format!("connect {on}"),
        _ => format!("lock or unlock {on}"),
    }
}

/// Describes a wait, after "waits ".
pub(super) fn wait(trace: &Trace, wait: &Wait) -> String {
    let made = opened(trace, wait.addr).map(|(_, op)| op);
    let fd = made.map(|made| match wait.op {
        // A pipe is read at its first descriptor and written at its second.
        Op::FdWrite if is(wait.addr, ChannelKind::Pipe) => made.outcome,
        _ => made.descriptor,
    });
    let on = match fd {
        Some(fd) if is(wait.addr, ChannelKind::Pair) => {
            format!("socket pair {fd}, {}", made.map_or(0, |made| made.outcome))
        }
        Some(fd) => named(wait.addr, fd),
        None => {
            format!("a {}", Channel::from_addr(wait.addr).map_or("descriptor", |channel| channel.kind.name()))
        }
    };
    waiting(wait.op, &on)
}

/// Describes a wait by the operation that ended it.
pub(super) fn wait_ended_by(op: &DescriptorOp) -> String {
    let on = named(op.channel, op.descriptor);
    let awaited = match op.kind {
        DescriptorOpKind::Read => Op::FdRead,
        DescriptorOpKind::Write => Op::FdWrite,
        DescriptorOpKind::Accept => Op::FdAccept,
        DescriptorOpKind::Connect => Op::FdConnect,
        DescriptorOpKind::Lock => Op::FileLock,
        _ => Op::FdWait,
    };
    waiting(awaited, &on)
}

/// Returns where the object of a wait was created.
pub(crate) fn made_at(trace: &Trace, wait: &Wait) -> Option<Site> {
    opened(trace, wait.addr).map(|(event, _)| trace.user_site(event))
}

/// Returns the event that created the channel's descriptors.
fn opened(trace: &Trace, channel: u64) -> Option<(&Event, DescriptorOp)> {
    if is(channel, ChannelKind::Socket) {
        return None;
    }
    trace.events.iter().rev().find_map(|event| match Operation::decode(event) {
        Operation::Descriptor(op) if op.kind == DescriptorOpKind::Open && op.channel == channel => {
            Some((event, op))
        }
        _ => None,
    })
}

fn is(addr: u64, kind: ChannelKind) -> bool {
    Channel::from_addr(addr).is_some_and(|channel| channel.kind == kind)
}

fn waiting(op: Op, on: &str) -> String {
    match op {
        Op::FdRead => format!("to read from {on}"),
        Op::FdWrite => format!("to write to {on}"),
        Op::FdAccept => format!("for a connection at {on}"),
        Op::FdConnect => format!("to be connected by {on}"),
        Op::FileLock => "for a lock on a file".to_owned(),
        _ => format!("for {on}"),
    }
}

const fn verb(kind: DescriptorOpKind) -> &'static str {
    match kind {
        DescriptorOpKind::Open => "open",
        DescriptorOpKind::Close => "close",
        DescriptorOpKind::Read => "read from",
        DescriptorOpKind::Write => "write to",
        DescriptorOpKind::Wait => "wait for",
        DescriptorOpKind::Accept => "accept at",
        DescriptorOpKind::Connect => "connect",
        _ => "lock",
    }
}

fn named(addr: u64, fd: u64) -> String {
    match Channel::from_addr(addr) {
        Some(Channel { kind: ChannelKind::Several, .. }) => "descriptors".to_owned(),
        Some(channel) => format!("{} {fd}", channel.kind.name()),
        None => "a descriptor".to_owned(),
    }
}

pub(super) fn bytes(count: u64) -> String {
    format!("{count} byte{}", if count == 1 { "" } else { "s" })
}

/// Returns the names of common errors.
pub(super) fn error(number: u64) -> String {
    let name = match number {
        4 => "EINTR",
        9 => "EBADF",
        10 => "ECHILD, no such child",
        11 => "would block",
        22 => "EINVAL",
        24 => "EMFILE",
        32 => "EPIPE, the other end is closed",
        98 => "EADDRINUSE",
        104 => "ECONNRESET",
        107 => "ENOTCONN",
        110 => "ETIMEDOUT",
        111 => "ECONNREFUSED",
        115 => "in progress",
        _ => return format!("fails with error {number}"),
    };
    name.to_owned()
}
