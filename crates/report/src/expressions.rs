//! The source expression that an event acts on: `pool->active`, `ledger`.

use crate::{Names, library_calls::LibraryCall, paths};
use std::collections::HashMap;
use unsnarl_model::{Event, Op, SiteIx, Trace};
use unsnarl_semantics::{MemoryOp, Operation};
use unsnarl_source::matching::Instruction;
use unsnarl_symbols::Frame;

/// Functions of the languages' libraries that act on their receiver itself: locks, condition variables and atomics. Any
/// other library function may act on parts of its arguments.
const DIRECT: [&str; 19] = [
    "std::mutex::",
    "std::recursive_mutex::",
    "std::timed_mutex::",
    "std::recursive_timed_mutex::",
    "std::__mutex_base::",
    "std::shared_mutex::",
    "std::__shared_mutex_pthread::",
    "std::lock_guard",
    "std::unique_lock",
    "std::shared_lock",
    "std::condition_variable",
    "std::__condvar::",
    "std::atomic",
    "std::__atomic_",
    "__gthread_",
    "core::sync::atomic::",
    "std::sys::sync::",
    "std::sync::poison::",
    "std::sync::once_lock::",
];

/// Methods of locks, condition variables and atomics, and constructors of guards. Their callee may be several calls deep in the library, and
/// all of it acts on the receiver.
const METHODS: [&str; 21] = [
    "lock_guard",
    "unique_lock",
    "shared_lock",
    "lock",
    "try_lock",
    "read",
    "try_read",
    "write",
    "try_write",
    "wait",
    "wait_while",
    "wait_timeout",
    "notify_one",
    "notify_all",
    "load",
    "store",
    "swap",
    "compare_exchange",
    "compare_exchange_weak",
    "get_or_init",
    "call_once",
];

/// The expressions at sites, each looked up once.
#[derive(Default)]
pub(crate) struct Expressions {
    known: HashMap<(SiteIx, Op, u64), Option<String>>,
    makeshift: HashMap<SiteIx, Option<String>>,
}

impl Expressions {
    /// Returns the expression that an event acts on, if the source shows it.
    pub(crate) fn of(&mut self, trace: &Trace, event: &Event, names: &mut dyn Names) -> Option<String> {
        let range = Operation::decode(event).bytes().map_or(0, |bytes| bytes.len);
        let known = self.known.entry((event.site, event.op, range));
        known.or_insert_with(|| expression_of(trace, event, names)).clone()
    }

    /// Returns the call of a library, or else the line, by which an event acts on something without a name: "of
    /// `jobs.push()`", "at pool.c:31".
    pub(crate) fn makeshift(
        &mut self,
        trace: &Trace,
        event: &Event,
        names: &mut dyn Names,
    ) -> Option<String> {
        self.makeshift.entry(event.site).or_insert_with(|| makeshift_of(trace, event, names)).clone()
    }
}

fn makeshift_of(trace: &Trace, event: &Event, names: &mut dyn Names) -> Option<String> {
    let called = LibraryCall::of(trace, event, names)?;
    if let Some(call) = &called.call {
        return Some(format!("of {call}"));
    }
    let (file, line) = called.frame.file.as_deref().zip(called.frame.line)?;
    Some(format!("at {}:{line}", paths::base(file)))
}

/// Returns the expression that an event acts on, if the source shows it.
fn expression_of(trace: &Trace, event: &Event, names: &mut dyn Names) -> Option<String> {
    let (own, site) = (trace.site(event), trace.user_site(event));
    let frames = names.frames(site);
    let user = frames.iter().position(|frame| !frame.system)?;
    let frame = &frames[user];
    let was_called = own != site;
    let access = match Operation::decode(event) {
        Operation::Memory(MemoryOp::Access(access)) => Some(access),
        Operation::Memory(_) => return None,
        _ => None,
    };
    let library = if was_called { names.frames(own) } else { frames[..user].to_vec() };
    let is_call = was_called || user > 0 || access.is_none_or(|access| access.is_atomic());
    if is_call && library.iter().all(acts_on_receiver) {
        // Between a library function that was called and the user's code there may be others.
        let is_meant = |function: Option<&str>| !was_called || function.is_some_and(is_sync_method);
        let call = names.call(site, frame).filter(|call| is_meant(call.function.as_deref()));
        if let Some(receiver) = call.and_then(|call| call.receiver) {
            return Some(receiver);
        }
    }
    // In the user's own code, an operator can be an atomic access, too.
    let access = access.filter(|_| library.is_empty() && !was_called)?;
    let instruction = Instruction { writes: access.writes, size: access.range.len };
    names.accessed_place(site, frame, instruction)
}

fn acts_on_receiver(frame: &Frame) -> bool {
    frame.function.as_deref().is_some_and(|name| {
        let name = name.trim_start_matches('<');
        // A mutex has its poison flag beside it.
        DIRECT.iter().any(|direct| name.starts_with(direct)) && !name.contains("::Flag")
    })
}

fn is_sync_method(name: &str) -> bool {
    METHODS.contains(&name) || name.starts_with("fetch_")
}
