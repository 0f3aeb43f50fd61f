//! Export: from a trace to STD text.

use super::{
    StdNames, is_imported,
    line::{StdOp, is_name},
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    io::{self, Write},
};
use unsnarl_model::{Event, Op, ThreadIx, Trace};
use unsnarl_semantics::succeeded;

/// The result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportSummary {
    /// The number of lines, one for each event that STD can express.
    pub lines: u64,
    /// The number of skipped events by operation: STD has no word for them, they failed, or they are inner
    /// levels of recursive locks.
    pub skipped: BTreeMap<Op, u64>,
}

/// Writes a trace as STD text, with operands as numbers or by the names in the trace.
///
/// Locations are indices into the trace's `sites`, or the locations of the text that it was imported from.
/// Threads are `T0`, `T1` …, or named as in that text. The writer should be buffered.
pub fn export(trace: &Trace, out: impl Write) -> io::Result<ExportSummary> {
    export_with_names(trace, &StdNames::from_trace(trace), out)
}

/// Writes an imported trace with operands named as in the original text.
pub fn export_with_names(trace: &Trace, names: &StdNames, mut out: impl Write) -> io::Result<ExportSummary> {
    let imported = is_imported(trace);
    let threads = thread_names(trace, imported);
    let mut locks = LockDepths::default();
    let mut exported = ExportSummary::default();
    for event in &trace.events {
        let Some((word, operand)) = std_operation(event, imported, &mut locks) else {
            *exported.skipped.entry(event.op).or_default() += 1;
            continue;
        };
        let operand = match operand {
            Operand::Address(addr) => names.of(addr),
            Operand::Thread(thread) => {
                let known = names.threads.get(&thread).map(String::as_str);
                match known.or(threads.get(thread.index()).map(|name| &**name)) {
                    Some(name) => name.into(),
                    None => {
                        *exported.skipped.entry(event.op).or_default() += 1;
                        continue;
                    }
                }
            }
        };
        let thread = &threads[event.thread.index()];
        let location =
            if imported { trace.site(event).offset.cast_signed() } else { i64::from(event.site.0) };
        writeln!(out, "{thread}|{}({operand})|{location}", word.text())?;
        exported.lines += 1;
    }
    out.flush()?;
    Ok(exported)
}

/// The operand of an operation.
enum Operand {
    Address(u64),
    Thread(ThreadIx),
}

/// Translates the event to STD, if STD can express it.
fn std_operation(event: &Event, imported: bool, locks: &mut LockDepths) -> Option<(StdOp, Operand)> {
    let failed = !succeeded(event);
    let address = Operand::Address(event.addr);
    match event.op {
        // Unlike a wait for a lock, a wait on a condition variable always ends with the mutex held.
        Op::CondWait if !failed => {
            let outermost = locks.release(event.thread, event.value);
            outermost.then_some((StdOp::Release, Operand::Address(event.value)))
        }
        Op::CondWake => {
            let mutex = event.waited_mutex()?;
            locks.take(event.thread, mutex).then_some((StdOp::Acquire, Operand::Address(mutex)))
        }
        // A failed compare-and-exchange is a read.
        Op::AtomicCas if failed => Some((StdOp::Read, address)),
        _ if failed => None,
        Op::Lock | Op::TryLock | Op::ReadLock | Op::TryReadLock | Op::WriteLock | Op::TryWriteLock => {
            locks.take(event.thread, event.addr).then_some((StdOp::Acquire, address))
        }
        Op::Unlock | Op::RwUnlock => {
            locks.release(event.thread, event.addr).then_some((StdOp::Release, address))
        }
        Op::Create => Some((StdOp::Fork, Operand::Thread(thread(event.value)?))),
        Op::Join => Some((StdOp::Join, Operand::Thread(thread(event.value)?))),
        Op::Read | Op::AtomicLoad => Some((StdOp::Read, address)),
        Op::Write | Op::AtomicStore | Op::AtomicRmw | Op::AtomicCas => Some((StdOp::Write, address)),
        // For RAPID these mark transactions, and a thread of a program is not a transaction.
        Op::Start if imported => Some((StdOp::Begin, address)),
        Op::End if imported => Some((StdOp::End, address)),
        _ => None,
    }
}

fn thread(value: u64) -> Option<ThreadIx> {
    u16::try_from(value).ok().map(ThreadIx)
}

/// The number of times that each thread holds each lock.
#[derive(Default)]
struct LockDepths {
    depths: HashMap<(ThreadIx, u64), u64>,
}

impl LockDepths {
    /// Returns whether this is the outermost level.
    fn take(&mut self, thread: ThreadIx, lock: u64) -> bool {
        let depth = self.depths.entry((thread, lock)).or_default();
        *depth += 1;
        *depth == 1
    }

    /// Returns whether this was the outermost level.
    fn release(&mut self, thread: ThreadIx, lock: u64) -> bool {
        let depth = self.depths.entry((thread, lock)).or_default();
        *depth = depth.saturating_sub(1);
        *depth == 0
    }
}

/// Returns the names of imported threads; in other programs several threads may have the same name, or none.
fn thread_names(trace: &Trace, imported: bool) -> Vec<Cow<'_, str>> {
    let own = trace.threads.iter().map(|thread| thread.name.as_str());
    let mut seen = HashSet::new();
    if imported && own.clone().all(|name| is_name(name) && seen.insert(name)) {
        own.map(Cow::Borrowed).collect()
    } else {
        (0..trace.threads.len()).map(|number| format!("T{number}").into()).collect()
    }
}
