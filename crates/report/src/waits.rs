//! Waits at the end of a run, with details from the stacks and earlier events.

use crate::{
    Names,
    facts::{HoldInterval, holds},
    stack::Stack,
};
use unsnarl_model::{Event, ObjectKind, Site, ThreadIx, Trace, Wait};
use unsnarl_semantics::{AccessKind, CondOp, FutexOp, MemoryOp, OnceOp, Operation};
use unsnarl_symbols::Frame;

/// A blocked thread.
#[derive(Clone, Debug)]
pub(crate) struct DescribedWait {
    pub(crate) wait: Wait,
    /// Its place in the user's code.
    pub(crate) place: Frame,
    /// The callers in the user's code, innermost first.
    pub(crate) callers: Vec<Frame>,
    /// The library function that waits on the user's behalf.
    pub(crate) inside: Option<String>,
}

/// Returns all blocked threads.
pub(crate) fn waits(trace: &Trace, names: &mut dyn Names) -> Vec<DescribedWait> {
    let describe_wait = |wait: &Wait| {
        let mut wait = wait.clone();
        let stack = Stack::at_end(trace, wait.thread, names);
        if wait.holders.is_empty() && is_rust_mutex(&wait, &stack) {
            wait.holders.extend(rust_mutex_holder(trace, wait.addr));
        }
        let mut users = stack.users().cloned();
        let at = names.place(wait.site);
        // The operation's own place may be deep in the language's library.
        let (place, inside) = match users.next() {
            Some(user) if at.system => (user, stack.called()),
            _ => (at, None),
        };
        DescribedWait { wait, place, callers: users.collect(), inside }
    };
    trace.outcome.waits.iter().map(describe_wait).collect()
}

/// Returns whether this thread waits for itself, directly or through others.
pub(crate) fn is_in_cycle(waits: &[DescribedWait], thread: ThreadIx) -> bool {
    let mut seen: Vec<ThreadIx> = Vec::new();
    let mut open = vec![thread];
    while let Some(next) = open.pop() {
        let holders = waits.iter().filter(|w| w.wait.thread == next).flat_map(|w| &w.wait.holders);
        for &holder in holders {
            if holder == thread {
                return true;
            }
            if !seen.contains(&holder) {
                seen.push(holder);
                open.push(holder);
            }
        }
    }
    false
}

/// Returns where the thread acquired the lock, or began the routine, that another one waits for.
pub(crate) fn taken_at(trace: &Trace, wait: &Wait, holder: ThreadIx) -> Option<Site> {
    let event = match wait.op.object_kind()? {
        ObjectKind::Lock | ObjectKind::RwLock => {
            let own = |hold: &HoldInterval| hold.thread == holder && hold.lock == wait.addr;
            &trace.events[holds(&trace.events).into_iter().rfind(own)?.first]
        }
        ObjectKind::Once => last(trace, |event| {
            let begins = matches!(Operation::decode(event), Operation::Once(OnceOp::Begin { once }) if once == wait.addr);
            event.thread == holder && begins
        })?,
        _ => return None,
    };
    Some(trace.user_site(event))
}

/// Returns the last event that could wake waiters of this condition variable or futex, and their number.
pub(crate) fn last_wake(trace: &Trace, object: u64) -> Option<(&Event, u64)> {
    trace.events.iter().rev().find_map(|event| match Operation::decode(event) {
        Operation::Cond(CondOp::Signal { cond, woken, .. }) if cond == object => Some((event, woken)),
        Operation::Futex(FutexOp::Wake { futex, woken }) if futex == object => Some((event, woken)),
        _ => None,
    })
}

/// Returns whether a signal ends this wait.
pub(crate) fn is_woken_by_signal(wait: &Wait) -> bool {
    wait.op.object_kind() == Some(ObjectKind::Cond)
}

/// Returns the last event that satisfies the predicate.
pub(crate) fn last(trace: &Trace, is_so: impl Fn(&Event) -> bool) -> Option<&Event> {
    trace.events.iter().rev().find(|event| is_so(event))
}

fn is_rust_mutex(wait: &Wait, stack: &Stack) -> bool {
    let of_mutex = |frame: &Frame| {
        frame.function.as_deref().is_some_and(|function| function.contains("sync::mutex::futex::Mutex"))
    };
    wait.op.object_kind() == Some(ObjectKind::Futex) && stack.inside().iter().any(of_mutex)
}

/// Returns the holder of a mutex of Rust's standard library, which is a futex: the thread that last changed its word
/// from 0 to 1. `None` if that happened in code without instrumentation.
fn rust_mutex_holder(trace: &Trace, word: u64) -> Option<ThreadIx> {
    let change = |event: &Event| match Operation::decode(event) {
        Operation::Memory(MemoryOp::Access(access))
            if access.range.first == word && access.is_atomic() && access.writes =>
        {
            Some(access)
        }
        _ => None,
    };
    let (event, access) = trace.events.iter().rev().find_map(|event| Some((event, change(event)?)))?;
    (access.kind == AccessKind::CompareExchange && access.value.number() == 1).then_some(event.thread)
}
