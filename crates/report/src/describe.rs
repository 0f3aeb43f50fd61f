//! Operations as text.

mod child;
mod descriptor;
mod signal;

use crate::objects::ObjectNames;
use unsnarl_model::{Event, ObjectKind, Op, Order, ThreadIx, Trace, Wait};
use unsnarl_semantics::{
    Access, AccessKind, BarrierOp, CondOp, DescriptorOpKind, FutexOp, MemoryOp, MutexOp, OnceOp, OpResult,
    Operation, RwLockOp, SchedulingOp, SemaphoreOp, Step, ThreadOp,
};

pub(crate) use descriptor::made_at;

/// The text for an operation.
enum Words {
    /// The text says how the operation ended.
    Complete(String),
    /// The result is still to be added.
    WithoutResult(String),
}

use Words::{Complete, WithoutResult};

/// Describes an event, like `lock m` or `write hits (was 0)`.
pub(crate) fn event(trace: &Trace, objects: &ObjectNames, number: usize) -> String {
    let event = &trace.events[number];
    let step = Step::decode(event, number as u64);
    let on = || objects.at(trace, number);
    let name = event.op.name();
    let words = match &step.operation {
        Operation::Memory(op) => memory(op, &step, &on),
        Operation::Mutex(op) => mutex(op, &step, name, &on),
        Operation::RwLock(op) => rwlock(op, &step, name, &on),
        Operation::Cond(op) => cond(op, &step, name, &on, trace, objects),
        Operation::Semaphore(op) => semaphore(op, &step, name, &on),
        Operation::Futex(op) => futex(op, &step, name, &on, trace),
        Operation::Barrier(BarrierOp::Init { threads, .. }) => {
            WithoutResult(format!("init {} (for {threads})", on()))
        }
        Operation::Barrier(BarrierOp::Destroy { .. }) => WithoutResult(format!("destroy {}", on())),
        Operation::Once(OnceOp::Pass { .. }) => WithoutResult(format!("once {}: already done", on())),
        Operation::Barrier(_) | Operation::Once(_) => WithoutResult(format!("{name} {}", on())),
        Operation::Thread(op) => WithoutResult(thread_operation(op, name, trace)),
        Operation::Scheduling(op) => WithoutResult(match *op {
            SchedulingOp::Sleep { end } => {
                format!("slept until {}", seconds(end.saturating_sub(trace.plan.epoch)))
            }
            SchedulingOp::Point { name: 0 } => "continue".to_owned(),
            SchedulingOp::Point { name } => match objects.point(name) {
                Some(name) => format!("point `{name}`"),
                None => "point".to_owned(),
            },
            SchedulingOp::Yield | SchedulingOp::Checkpoint => name.to_owned(),
        }),
        Operation::Descriptor(op) => Complete(match op.kind {
            DescriptorOpKind::ChildStart | DescriptorOpKind::ChildWait => child::operation(op, step.result),
            _ => descriptor::operation(op, step.result),
        }),
        Operation::Signal(op) => Complete(signal::operation(trace, op, step.result)),
    };
    match words {
        Complete(words) => words,
        WithoutResult(words) => words + result(step.result),
    }
}

const fn result(result: OpResult) -> &'static str {
    match result {
        OpResult::Done => "",
        OpResult::TimedOut => ": timed out",
        OpResult::Cancelled => ": cancelled",
        OpResult::Interrupted => ": interrupted by a signal",
        OpResult::Spurious => ", spuriously",
        OpResult::Failed => ": error",
    }
}

fn memory(op: &MemoryOp, step: &Step, on: &dyn Fn() -> String) -> Words {
    match op {
        MemoryOp::Access(access) => {
            let (shown, order) = (shown(access), order(access.order));
            WithoutResult(match access.kind {
                AccessKind::Read => format!("read {} = {shown}", on()),
                AccessKind::Write => format!("write {} (was {shown})", on()),
                AccessKind::Load => format!("atomic load {} = {shown}{order}", on()),
                AccessKind::Store => format!("atomic store {} ← {shown}{order}", on()),
                AccessKind::Update => format!("atomic update {} ← {shown}{order}", on()),
                AccessKind::CompareExchange if step.result == OpResult::Failed => {
                    return Complete(format!("compare-exchange {} fails (is {shown}){order}", on()));
                }
                AccessKind::CompareExchange => format!("compare-exchange {} ← {shown}{order}", on()),
            })
        }
        MemoryOp::Alloc(block) => WithoutResult(format!("allocate {}, {} bytes", on(), block.len)),
        MemoryOp::Free(block) => WithoutResult(format!("free {}, {} bytes", on(), block.len)),
        MemoryOp::Fence(order) => WithoutResult(format!("fence ({})", order.name())),
    }
}

fn mutex(op: &MutexOp, step: &Step, name: &str, on: &dyn Fn() -> String) -> Words {
    let failed = step.result == OpResult::Failed;
    WithoutResult(match *op {
        MutexOp::Init { .. } => format!("init {}", on()),
        MutexOp::Destroy { .. } => format!("destroy {}", on()),
        MutexOp::Lock { attempt: true, .. } if failed => {
            return Complete(format!("{name} {}: not acquired", on()));
        }
        MutexOp::Lock { depth: depth @ 2.., attempt: false, .. } if !failed => {
            format!("{name} {} (depth {depth})", on())
        }
        MutexOp::Unlock { remaining: remaining @ 1.., .. } if !failed => {
            format!("{name} {} (depth {remaining} left)", on())
        }
        MutexOp::Lock { .. } | MutexOp::Unlock { .. } => format!("{name} {}", on()),
    })
}

fn rwlock(op: &RwLockOp, step: &Step, name: &str, on: &dyn Fn() -> String) -> Words {
    WithoutResult(match *op {
        RwLockOp::Init { .. } => format!("init {}", on()),
        RwLockOp::Destroy { .. } => format!("destroy {}", on()),
        RwLockOp::Lock { attempt: true, .. } if step.result == OpResult::Failed => {
            return Complete(format!("{name} {}: not acquired", on()));
        }
        RwLockOp::Lock { .. } => format!("{name} {}", on()),
        RwLockOp::Unlock { .. } => format!("unlock {}", on()),
    })
}

fn cond(
    op: &CondOp,
    step: &Step,
    name: &str,
    on: &dyn Fn() -> String,
    trace: &Trace,
    objects: &ObjectNames,
) -> Words {
    WithoutResult(match *op {
        CondOp::Init { .. } => format!("init {}", on()),
        CondOp::Destroy { .. } => format!("destroy {}", on()),
        CondOp::Wait { mutex, remaining, .. } => match (objects.lock(mutex), remaining) {
            (Some(mutex), 0) => format!("{name} {}, releases {mutex}", on()),
            (Some(mutex), depth) => format!("{name} {}, keeps {mutex} (depth {depth} left)", on()),
            (None, _) => format!("{name} {}", on()),
        },
        CondOp::Wake { .. } => format!("{name} {}{}", on(), woken_by(trace, step.operation.waker())),
        CondOp::Signal { woken, broadcast, .. } => match (woken, broadcast) {
            (0, false) => format!("{name} {} (no waiter)", on()),
            (0, true) => return Complete(format!("{name} {} (no waiter)", on())),
            (_, false) => format!("{name} {}", on()),
            (_, true) => format!("{name} {} (wakes {woken})", on()),
        },
    })
}

fn semaphore(op: &SemaphoreOp, step: &Step, name: &str, on: &dyn Fn() -> String) -> Words {
    WithoutResult(match *op {
        SemaphoreOp::Init { count, .. } => format!("init {} (count {count})", on()),
        SemaphoreOp::Destroy { .. } => format!("destroy {}", on()),
        SemaphoreOp::Wait { attempt: true, .. } if step.result == OpResult::Failed => {
            return Complete(format!("{name} {}: none left", on()));
        }
        SemaphoreOp::Wait { left: count, .. } | SemaphoreOp::Post { count, .. } => {
            format!("{name} {} (now {count})", on())
        }
        SemaphoreOp::Get { count, .. } => format!("{name} {} = {count}", on()),
    })
}

fn futex(op: &FutexOp, step: &Step, name: &str, on: &dyn Fn() -> String, trace: &Trace) -> Words {
    /// The value of a futex word is shown without a sign.
    const UNSIGNED: u64 = 0;
    WithoutResult(match *op {
        FutexOp::Wait { word, .. } if step.result == OpResult::Failed => {
            return Complete(format!("{name} {}: changed, is {}", on(), number_of(word, UNSIGNED)));
        }
        FutexOp::Wait { word, .. } => format!("{name} {} (is {})", on(), number_of(word, UNSIGNED)),
        FutexOp::Woken { waker, .. } => format!("{name} {}{}", on(), woken_by(trace, waker)),
        FutexOp::Wake { woken: 0, .. } | FutexOp::Requeue { affected: 0, .. } => {
            return Complete(format!("{name} {} (no waiter)", on()));
        }
        FutexOp::Wake { woken: affected, .. } | FutexOp::Requeue { affected, .. } => {
            format!("{name} {} (wakes {affected})", on())
        }
    })
}

fn thread_operation(op: &ThreadOp, name: &str, trace: &Trace) -> String {
    match *op {
        ThreadOp::Start { .. } | ThreadOp::End { .. } => name.to_owned(),
        ThreadOp::Exit { status } => format!("exit with status {}", status as i32),
        ThreadOp::Create { thread: other }
        | ThreadOp::Join { thread: other }
        | ThreadOp::Detach { thread: other }
        | ThreadOp::Cancel { thread: other } => format!("{name} {}", thread(trace, other.0)),
        ThreadOp::Cancelled => "is cancelled".to_owned(),
    }
}

/// Returns the value that an access read, wrote or overwrote, like " = 100".
pub(crate) fn value(event: &Event) -> Option<String> {
    let operation = Operation::decode(event);
    let access = operation.access()?;
    let shown = shown(access);
    Some(match access.kind {
        AccessKind::Read | AccessKind::Load => format!(" = {shown}"),
        AccessKind::Write => format!(", which was {shown}"),
        AccessKind::Store | AccessKind::Update | AccessKind::CompareExchange => format!(" ← {shown}"),
    })
}

fn shown(access: &Access) -> String {
    number_of(access.value.number(), access.range.len)
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
    let awaited = match Operation::decode(event) {
        Operation::Descriptor(op) if op.kind == DescriptorOpKind::ChildWait => return child::WAIT.to_owned(),
        Operation::Descriptor(op) => return descriptor::wait_ended_by(&op),
        Operation::Thread(ThreadOp::Join { thread: other }) => Some(thread(trace, other.0)),
        _ => None,
    };
    waiting(event.op, Some(objects.at(trace, number)), awaited)
}

fn waiting(op: Op, object: Option<String>, thread: Option<String>) -> String {
    let object = match (object, op.object_kind()) {
        // A makeshift name begins with its kind, like `lock#1` or "lock at pool.c:31"; a variable's name does not.
        (Some(name), Some(kind)) if is_makeshift(&name, kind) => name,
        (Some(name), Some(kind)) => format!("{} `{name}`", kind.name()),
        (Some(name), None) => name,
        (None, Some(kind)) => format!("a {}", kind.name()),
        (None, None) => op.name().to_owned(),
    };
    match op {
        Op::SigWait | Op::SigPause => "for a signal".to_owned(),
        Op::Join => format!("for {} to end", thread.unwrap_or_else(|| "a thread".to_owned())),
        Op::CondWait | Op::CondWake | Op::FutexWait | Op::FutexWoken => format!("on {object}"),
        Op::BarrierArrive | Op::BarrierLeave => format!("at {object}"),
        Op::Sleep => "for a time".to_owned(),
        _ => format!("for {object}"),
    }
}

/// Returns whether a name only says what kind of object it is, and where it was met.
fn is_makeshift(name: &str, kind: ObjectKind) -> bool {
    let rest = name.strip_prefix(kind.name());
    rest.is_some_and(|rest| rest.starts_with('#') || rest.starts_with(" at ") || rest.starts_with(" of "))
}

/// Returns a thread's id.
pub(crate) fn id(trace: &Trace, thread: ThreadIx) -> String {
    trace.threads.get(thread.index()).map_or_else(|| "?".to_owned(), |t| t.id.to_string())
}

fn thread(trace: &Trace, value: u64) -> String {
    u16::try_from(value).map_or_else(|_| "?".to_owned(), |ix| id(trace, ThreadIx(ix)))
}

/// Names the thread of the event that woke a thread.
fn woken_by(trace: &Trace, waker: Option<u64>) -> String {
    let by = waker.and_then(|number| trace.events.get(number as usize));
    by.map(|waker| format!(" (by {})", id(trace, waker.thread))).unwrap_or_default()
}

fn order(order: Order) -> String {
    match order {
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
