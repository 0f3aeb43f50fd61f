//! Finds accesses that no other thread can observe.

use crate::Names;
use std::collections::{BTreeMap, HashMap};
use unsnarl_model::{Event, ThreadIx, Trace};
use unsnarl_semantics::{Access, ByteRange, MemoryOp, Operation, SignalOp};

/// Granularity, in bytes, at which memory is tracked.
const PIECE: u64 = 8;
/// Larger accesses count as shared without a check.
const LARGE: u64 = 4096;

/// Returns for each event whether it is an access that cannot affect other threads: to memory that is no global
/// variable, and that only one thread uses or all threads only read.
///
/// Debug builds of Rust and C++ have many of these, most of them in the standard library. The library's own variables,
/// fences and signal operations, for example at program start, count as well.
pub(super) fn unobservable(trace: &Trace, names: &mut dyn Names) -> Vec<bool> {
    let mut memory: HashMap<u64, MemoryUse> = HashMap::new();
    let after_free = accesses_after_free(trace);
    for event in &trace.events {
        let Some(access) = access_of(event) else { continue };
        for piece in pieces(access.range) {
            let used = memory.entry(piece).or_insert(MemoryUse {
                first_user: event.thread,
                shared: false,
                written: false,
            });
            used.shared |= used.first_user != event.thread;
            used.written |= access.kind.may_write();
        }
    }
    let mut in_library = |event: &Event| names.frames(trace.site(event)).iter().all(|frame| frame.system);
    let mut is_librarys_business = |event: &Event| {
        let may_be = matches!(
            Operation::decode(event),
            Operation::Memory(MemoryOp::Fence(_))
                | Operation::Signal(SignalOp::SetAction { .. } | SignalOp::SetMask { .. })
        );
        may_be && in_library(event)
    };
    let business: Vec<bool> = trace.events.iter().map(&mut is_librarys_business).collect();
    let mut variables: HashMap<u64, VariableOwner> = HashMap::new();
    let mut is_unnoticed = |range: ByteRange| match variables
        .entry(range.first)
        .or_insert_with(|| owner_of(range.first, names))
    {
        VariableOwner::User => false,
        VariableOwner::Library => true,
        VariableOwner::Unnamed => range.len <= LARGE && pieces(range).all(|piece| !memory[&piece].matters()),
    };
    let unobservable = trace.events.iter().zip(after_free).map(|(event, after_free)| {
        !after_free && access_of(event).is_some_and(|access| is_unnoticed(access.range))
    });
    unobservable.zip(business).map(|(access, business)| access || business).collect()
}

/// Returns for each event whether it accesses a block that was freed and not allocated again.
fn accesses_after_free(trace: &Trace) -> Vec<bool> {
    // By first address: the end.
    let mut freed: BTreeMap<u64, u64> = BTreeMap::new();
    let is_freed = |freed: &BTreeMap<u64, u64>, range: ByteRange| {
        freed.range(..range.end()).next_back().is_some_and(|(_, &end)| range.first < end)
    };
    let after_free = |event: &Event| match Operation::decode(event) {
        Operation::Memory(MemoryOp::Free(block)) => {
            freed.insert(block.first, block.end());
            false
        }
        Operation::Memory(MemoryOp::Alloc(block)) => {
            while let Some((&first, _)) =
                freed.range(..block.end()).next_back().filter(|(_, end)| **end > block.first)
            {
                freed.remove(&first);
            }
            false
        }
        operation => operation.access().is_some_and(|access| is_freed(&freed, access.range)),
    };
    trace.events.iter().map(after_free).collect()
}

/// Use of a piece of memory in a run.
struct MemoryUse {
    /// The first thread that used it.
    first_user: ThreadIx,
    /// Other threads used it too.
    shared: bool,
    written: bool,
}

impl MemoryUse {
    fn matters(&self) -> bool {
        self.shared && self.written
    }
}

/// The owner of a global variable.
enum VariableOwner {
    User,
    Library,
    Unnamed,
}

fn owner_of(addr: u64, names: &mut dyn Names) -> VariableOwner {
    const LIBRARIES: &[&str] = &["std::", "core::", "alloc::", "__"];
    match names.variable(addr) {
        Some(name) if LIBRARIES.iter().any(|library| name.starts_with(library)) => VariableOwner::Library,
        Some(_) => VariableOwner::User,
        None => VariableOwner::Unnamed,
    }
}

fn access_of(event: &Event) -> Option<Access> {
    Operation::decode(event).access().copied()
}

fn pieces(range: ByteRange) -> impl Iterator<Item = u64> {
    let last = range.first.saturating_add(range.len.min(LARGE) - 1);
    range.first / PIECE..=last / PIECE
}
