//! Operations as text.

mod child;
mod descriptor;
mod signal;

use crate::objects::ObjectNames;
use unsnarl_model::{Event, Flags, ObjectKind, Op, Order, ThreadIx, Trace, Wait};

pub(crate) use descriptor::made_at;

/// Describes an event, like `lock m` or `write hits (was 0)`.
pub(crate) fn event(trace: &Trace, objects: &ObjectNames, number: usize) -> String {
    let event = &trace.events[number];
    let on = || objects.at(trace, number);
    let value = event.value;
    let shown = || number_of(value, event.size);
    let failed = event.flags.has(Flags::FAILED);
    let words = match event.op {
        Op::Start | Op::End | Op::Yield => event.op.name().to_owned(),
        Op::Exit => format!("exit with status {}", value as i32),
        Op::Create | Op::Join | Op::Detach | Op::Cancel => {
            format!("{} {}", event.op.name(), thread(trace, value))
        }
        Op::Cancelled => "is cancelled".to_owned(),
        Op::LockInit | Op::RwInit | Op::CondInit => format!("init {}", on()),
        Op::LockDestroy | Op::RwDestroy | Op::CondDestroy | Op::SemDestroy | Op::BarrierDestroy => {
            format!("destroy {}", on())
        }
        Op::Lock if value > 1 && !failed => format!("lock {} (depth {value})", on()),
        Op::Lock => format!("lock {}", on()),
        Op::Unlock if value > 0 && !failed => format!("unlock {} (depth {value} left)", on()),
        Op::Unlock | Op::RwUnlock => format!("unlock {}", on()),
        Op::TryLock | Op::TryReadLock | Op::TryWriteLock if failed => {
            return format!("{} {}: taken", event.op.name(), on());
        }
        Op::TryLock | Op::ReadLock | Op::TryReadLock | Op::WriteLock | Op::TryWriteLock => {
            format!("{} {}", event.op.name(), on())
        }
        Op::CondWait => match objects.lock(value) {
            Some(mutex) => format!("cond wait {}, releases {mutex}", on()),
            None => format!("cond wait {}", on()),
        },
        Op::CondWake | Op::FutexWoken => format!("{} {}{}", event.op.name(), on(), woken_by(trace, event)),
        Op::Signal if value == 0 => format!("signal {} (nobody waits)", on()),
        Op::Signal => format!("signal {}", on()),
        Op::Broadcast | Op::FutexWake | Op::FutexRequeue => {
            let affected = if event.op == Op::FutexRequeue { event.size } else { value };
            match affected {
                0 => return format!("{} {} (nobody waits)", event.op.name(), on()),
                _ => format!("{} {} (wakes {affected})", event.op.name(), on()),
            }
        }
        Op::SemInit => format!("init {} (count {value})", on()),
        Op::SemTryWait if failed => return format!("sem try wait {}: none left", on()),
        Op::SemWait | Op::SemTryWait | Op::SemPost => format!("{} {} (now {value})", event.op.name(), on()),
        Op::SemGet => format!("sem value {} = {value}", on()),
        Op::BarrierInit => format!("init {} (for {value})", on()),
        Op::BarrierArrive | Op::BarrierLeave | Op::OnceBegin | Op::OnceEnd => {
            format!("{} {}", event.op.name(), on())
        }
        Op::OncePass => format!("once {}: done already", on()),
        Op::FutexWait if failed => return format!("futex wait {}: changed, is {}", on(), shown()),
        Op::FutexWait => format!("futex wait {} (is {})", on(), shown()),
        Op::AtomicLoad => format!("atomic load {} = {}{}", on(), shown(), order(event)),
        Op::AtomicStore => format!("atomic store {} ← {}{}", on(), shown(), order(event)),
        Op::AtomicRmw => format!("atomic update {} ← {}{}", on(), shown(), order(event)),
        Op::AtomicCas if failed => {
            return format!("compare-exchange {} fails (is {}){}", on(), shown(), order(event));
        }
        Op::AtomicCas => format!("compare-exchange {} ← {}{}", on(), shown(), order(event)),
        Op::Fence => format!("fence ({})", event.order.name()),
        Op::Read => format!("read {} = {}", on(), shown()),
        Op::Write => format!("write {} (was {})", on(), shown()),
        Op::Sleep => format!("slept until {}", seconds(value.saturating_sub(trace.plan.epoch))),
        Op::Alloc => format!("allocate {}, {} bytes", on(), event.size),
        Op::Free => format!("free {}, {} bytes", on(), event.size),
        Op::Point => match objects.point(value) {
            Some(name) => format!("point `{name}`"),
            None => "point".to_owned(),
        },
        Op::Checkpoint => "checkpoint".to_owned(),
        Op::FdOpen
        | Op::FdClose
        | Op::FdRead
        | Op::FdWrite
        | Op::FdWait
        | Op::FdAccept
        | Op::FdConnect
        | Op::FileLock => return descriptor::event(event),
        Op::SigAction
        | Op::SigMask
        | Op::SigSend
        | Op::SigHandle
        | Op::SigWait
        | Op::SigPause
        | Op::TimerSet
        | Op::TimerFire => return signal::event(trace, event),
        Op::ChildStart | Op::ChildWait => return child::event(event),
    };
    let remark = if event.flags.has(Flags::TIMED_OUT) {
        ": time is up"
    } else if event.flags.has(Flags::CANCELLED) {
        ": cancelled"
    } else if event.flags.has(Flags::INTERRUPTED) {
        ": interrupted by a signal"
    } else if event.flags.has(Flags::SPURIOUS) {
        ", for no reason"
    } else if failed {
        ": fails"
    } else {
        ""
    };
    words + remark
}

/// Returns the value that an access read, wrote or overwrote, like " = 100".
pub(crate) fn value(event: &Event) -> Option<String> {
    let shown = number_of(event.value, event.size);
    Some(match event.op {
        Op::Read | Op::AtomicLoad => format!(" = {shown}"),
        Op::Write => format!(", which was {shown}"),
        Op::AtomicStore | Op::AtomicRmw | Op::AtomicCas => format!(" ← {shown}"),
        _ => return None,
    })
}

/// Describes a wait, after "waits ": like "for lock `m`" or "on cond `c`".
pub(crate) fn wait(trace: &Trace, objects: &ObjectNames, wait: &Wait) -> String {
    if wait.op == Op::ChildWait {
        return child::WAIT.to_owned();
    }
    if wait.op.object_kind() == Some(ObjectKind::Channel) {
        return descriptor::wait(trace, wait);
    }
    waiting(wait.op, objects.for_op(wait.op, wait.addr), wait.holders.first().map(|&h| id(trace, h)))
}

/// Describes a wait by the operation that ended it.
pub(crate) fn wait_ended_by(trace: &Trace, objects: &ObjectNames, number: usize) -> String {
    let event = &trace.events[number];
    if event.op == Op::ChildWait {
        return child::WAIT.to_owned();
    }
    if event.op.object_kind() == Some(ObjectKind::Channel) {
        return descriptor::wait_ended_by(event);
    }
    waiting(event.op, Some(objects.at(trace, number)), Some(thread(trace, event.value)))
}

fn waiting(op: Op, object: Option<String>, thread: Option<String>) -> String {
    let object = match (object, op.object_kind()) {
        // `lock#1` contains its kind; a variable's name does not.
        (Some(name), Some(kind)) if !name.contains('#') => format!("{} `{name}`", kind.name()),
        (Some(name), _) => name,
        (None, Some(kind)) => format!("a {}", kind.name()),
        (None, None) => op.name().to_owned(),
    };
    match op {
        Op::SigWait | Op::SigPause => "for a signal".to_owned(),
        Op::Join => format!("for {} to end", thread.unwrap_or_else(|| "a thread".to_owned())),
        Op::CondWait | Op::CondWake | Op::FutexWait | Op::FutexWoken => format!("on {object}"),
        Op::BarrierArrive | Op::BarrierLeave => format!("at {object}"),
        Op::Sleep => "for the time".to_owned(),
        _ => format!("for {object}"),
    }
}

/// Returns a thread's id.
pub(crate) fn id(trace: &Trace, thread: ThreadIx) -> String {
    trace.threads.get(thread.index()).map_or_else(|| "?".to_owned(), |t| t.id.to_string())
}

fn thread(trace: &Trace, value: u64) -> String {
    u16::try_from(value).map_or_else(|_| "?".to_owned(), |ix| id(trace, ThreadIx(ix)))
}

fn woken_by(trace: &Trace, event: &Event) -> String {
    let by = event.waker().and_then(|number| trace.events.get(number as usize));
    by.map(|waker| format!(" (by {})", id(trace, waker.thread))).unwrap_or_default()
}

fn order(event: &Event) -> String {
    match event.order {
        Order::SeqCst => String::new(),
        weaker => format!(" ({})", weaker.name()),
    }
}

fn seconds(nanos: u64) -> String {
    match nanos {
        0..1_000_000_000 => format!("{} ms", nanos as f64 / 1e6),
        _ => format!("{} s", nanos as f64 / 1e9),
    }
}

/// Formats a value of this many bytes: small ones, positive or negative, in decimal, anything else (pointers, floats,
/// bit patterns) in hexadecimal.
fn number_of(value: u64, size: u64) -> String {
    const SMALL: i64 = 10_000_000;
    // Single bytes are characters and flags, and values without a size (counts) are unsigned.
    let signed = match size {
        2 => i64::from(value as u16 as i16),
        4 => i64::from(value as u32 as i32),
        8 => value as i64,
        _ => i64::try_from(value).unwrap_or(i64::MAX),
    };
    if (-SMALL..SMALL).contains(&signed) { signed.to_string() } else { format!("{value:#x}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_formatted_for_people() {
        assert_eq!(number_of(7, 4), "7");
        assert_eq!(number_of(0xff, 1), "255");
        assert_eq!(number_of(0xffff_ffff, 4), "-1");
        assert_eq!(number_of(0xffff_ffff, 8), "0xffffffff");
        assert_eq!(number_of(0x7fff_f7a0_1000, 8), "0x7ffff7a01000");
    }
}
