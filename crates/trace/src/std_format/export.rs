//! Export: from a trace to STD text.

use super::{
    StdNames, is_imported,
    line::{StdOp, is_name},
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    io::{self, Write},
};
use unsnarl_model::{Event, Op, ThreadIx, Trace};
use unsnarl_semantics::{LockChange, Machine, MemoryOp, Operation, ThreadOp};

/// The result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportSummary {
    /// The number of lines.
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
    let mut machine = Machine::default();
    let mut exported = ExportSummary::default();
    for event in &trace.events {
        let operations = std_operations(event, imported, &mut machine);
        if operations.is_empty() {
            *exported.skipped.entry(event.op).or_default() += 1;
        }
        for (word, operand) in operations {
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
    }
    out.flush()?;
    Ok(exported)
}

/// The operand of an operation.
enum Operand {
    Address(u64),
    Thread(ThreadIx),
}

/// Translates the machine's next event to STD. The result is empty if STD cannot express it, and longer than one
/// if it releases several locks.
fn std_operations(event: &Event, imported: bool, machine: &mut Machine) -> Vec<(StdOp, Operand)> {
    let step = machine.decode(event);
    let mut operations = Vec::new();
    // A trace that contradicts itself is exported as it is.
    let _ = machine.apply_with(&step, &mut |change| match change {
        LockChange::Acquired { lock, .. } => operations.push((StdOp::Acquire, Operand::Address(lock))),
        LockChange::Released { lock, .. } => operations.push((StdOp::Release, Operand::Address(lock))),
        LockChange::Refused { .. } => {}
    });
    let own = match &step.operation {
        Operation::Memory(MemoryOp::Access(access)) => {
            let word = if access.writes { StdOp::Write } else { StdOp::Read };
            Some((word, Operand::Address(access.range.first)))
        }
        Operation::Thread(ThreadOp::Create { thread }) if step.succeeded() => {
            thread.known().map(|child| (StdOp::Fork, Operand::Thread(child)))
        }
        Operation::Thread(ThreadOp::Join { thread }) if step.succeeded() => {
            thread.known().map(|target| (StdOp::Join, Operand::Thread(target)))
        }
        // For RAPID these mark transactions, and a thread of a program is not a transaction.
        Operation::Thread(ThreadOp::Start { .. }) if imported => {
            Some((StdOp::Begin, Operand::Address(event.addr)))
        }
        Operation::Thread(ThreadOp::End { .. }) if imported => {
            return vec![(StdOp::End, Operand::Address(event.addr))];
        }
        _ => None,
    };
    operations.extend(own);
    operations
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
