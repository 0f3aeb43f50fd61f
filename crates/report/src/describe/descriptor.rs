//! Operations on descriptors as text: `read 5 bytes from pipe 3`.

use unsnarl_model::{Channel, ChannelKind, Event, Flags, Op, Site, Trace, Wait};

/// Describes an event.
pub(super) fn event(event: &Event) -> String {
    let on = named(event.addr, event.size);
    let value = event.value;
    if event.flags.has(Flags::CANCELLED) {
        return format!("{} {on}: cancelled", verb(event.op));
    }
    if event.flags.has(Flags::TIMED_OUT) && event.op != Op::FdWait {
        return format!("{} {on}: time is up", verb(event.op));
    }
    if event.flags.has(Flags::FAILED) {
        return format!("{} {on}: {}", verb(event.op), error(value));
    }
    match event.op {
        Op::FdOpen if value > 0 => format!("open {on} and {value}"),
        Op::FdOpen => format!("open {on}"),
        Op::FdClose => format!("close {on}"),
        Op::FdRead if value == 0 => format!("read the end of {on}"),
        Op::FdRead => format!("read {} from {on}", bytes(value)),
        Op::FdWrite => format!("write {} to {on}", bytes(value)),
        Op::FdWait if value == 0 && event.flags.has(Flags::TIMED_OUT) => format!("wait for {on}: time is up"),
        Op::FdWait if value == 0 => format!("look at {on}: nothing"),
        Op::FdWait if value == 1 => format!("wait for {on}: ready"),
        Op::FdWait => format!("wait for {on}: {value} are ready"),
        Op::FdAccept => format!("accept socket {value} at {on}"),
        Op::FdConnect => format!("connect {on}"),
        _ => format!("lock or unlock {on}"),
    }
}

/// Describes a wait, after "waits ".
pub(super) fn wait(trace: &Trace, wait: &Wait) -> String {
    let made = opened(trace, wait.addr);
    let fd = made.map(|event| match wait.op {
        // A pipe is read at its first descriptor and written at its second.
        Op::FdWrite if is(wait.addr, ChannelKind::Pipe) => event.value,
        _ => event.size,
    });
    let on = match fd {
        Some(fd) if is(wait.addr, ChannelKind::Pair) => {
            format!("socket pair {fd}, {}", made.map_or(0, |m| m.value))
        }
        Some(fd) => named(wait.addr, fd),
        None => {
            format!("a {}", Channel::from_addr(wait.addr).map_or("descriptor", |channel| channel.kind.name()))
        }
    };
    waiting(wait.op, &on)
}

/// Describes a wait by the operation that ended it.
pub(super) fn wait_ended_by(event: &Event) -> String {
    waiting(event.op, &named(event.addr, event.size))
}

/// Returns where the object of a wait was created.
pub(crate) fn made_at(trace: &Trace, wait: &Wait) -> Option<Site> {
    opened(trace, wait.addr).map(|event| trace.user_site(event))
}

fn opened(trace: &Trace, addr: u64) -> Option<&Event> {
    trace
        .events
        .iter()
        .rev()
        .find(|event| event.op == Op::FdOpen && event.addr == addr && !is(addr, ChannelKind::Socket))
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

const fn verb(op: Op) -> &'static str {
    match op {
        Op::FdOpen => "open",
        Op::FdClose => "close",
        Op::FdRead => "read from",
        Op::FdWrite => "write to",
        Op::FdWait => "wait for",
        Op::FdAccept => "accept at",
        Op::FdConnect => "connect",
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

fn bytes(count: u64) -> String {
    format!("{count} byte{}", if count == 1 { "" } else { "s" })
}

/// Returns the names of common errors.
pub(super) fn error(number: u64) -> String {
    let name = match number {
        4 => "EINTR",
        9 => "EBADF",
        10 => "ECHILD, there is none",
        11 => "would block",
        22 => "EINVAL",
        24 => "EMFILE",
        32 => "EPIPE, nobody reads",
        98 => "EADDRINUSE",
        104 => "ECONNRESET",
        107 => "ENOTCONN",
        110 => "ETIMEDOUT",
        111 => "ECONNREFUSED",
        115 => "is under way",
        _ => return format!("fails with error {number}"),
    };
    name.to_owned()
}
