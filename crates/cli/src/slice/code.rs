//! The traced code and the words of its trace, for the analysis.

use super::progress::SliceProgress;
use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};
use unsnarl_exec::{CHUNK_WORDS, InstructionTrace};
use unsnarl_model::Trace;
use unsnarl_slice::{
    ByteSpan,
    x86::{Code, CodeSegment, Function, WordSource},
};
use unsnarl_symbols::{ModuleCode, demangle};

/// Returns the code of the traced modules at its addresses in the run.
pub(super) fn code(recorded: &Trace, modules: &[String]) -> Code {
    let mut code = Code::default();
    for module in recorded.modules.iter().filter(|module| modules.contains(&module.path)) {
        let Some(read) = ModuleCode::read(Path::new(&module.path)) else { continue };
        let base = module.base;
        let segment = |(start, bytes): (u64, Vec<u8>)| CodeSegment { start: start + base, bytes };
        code.segments.extend(read.segments.into_iter().map(segment));
        let moved = |range: std::ops::Range<u64>| range.start + base..range.end + base;
        code.functions.extend(read.functions.into_iter().map(|(range, name)| {
            let range = moved(range);
            Function { start: range.start, end: range.end, name }
        }));
        code.stubs.extend(read.stubs.into_iter().map(moved));
        code.local_slots
            .extend(read.local_slots.into_iter().map(|(slot, function)| (slot + base, function + base)));
        code.slots.extend(read.slots.into_iter().map(|(slot, name)| (slot + base, name)));
    }
    code.functions.sort_by_key(|function| (function.start, function.end));
    code
}

/// Returns the entry points of Rust's panic handling. It calls the panic hook, which may read all debug information for
/// a backtrace, and unwinds. None of that contributes to the failure.
pub(super) fn panics(code: &Code) -> Vec<u64> {
    let takes_up = |symbol: &str| {
        symbol.contains("panic_with_hook")
            && matches!(
                &*demangle(symbol),
                "std::panicking::panic_with_hook" | "std::panicking::rust_panic_with_hook"
            )
    };
    code.functions.iter().filter(|function| takes_up(&function.name)).map(|function| function.start).collect()
}

/// Returns the addresses of the global or static variables of this name.
pub(super) fn variables(recorded: &Trace, modules: &[String], name: &str) -> Vec<ByteSpan> {
    // A function's static variable has a number after its name, and a namespace comes before the name.
    let is_it = |symbol: &str| {
        let whole = demangle(symbol);
        let short = whole.rsplit("::").next().unwrap_or(&whole);
        whole == name || short == name || short.split_once('.').is_some_and(|(short, _)| short == name)
    };
    let mut found = Vec::new();
    for module in recorded.modules.iter().filter(|module| modules.contains(&module.path)) {
        let Some(read) = ModuleCode::read(Path::new(&module.path)) else { continue };
        for (range, _) in read.variables.iter().filter(|(_, symbol)| is_it(symbol)) {
            found.push(ByteSpan::new(range.start + module.base, range.end - range.start));
        }
    }
    found
}

/// The words of a trace for the analysis, which ends if the user interrupts.
pub(super) struct TraceWords<'a, 'b> {
    pub(super) trace: &'a InstructionTrace<'b>,
    pub(super) progress: &'a SliceProgress,
    pub(super) interrupt: &'a AtomicBool,
}

impl std::fmt::Debug for TraceWords<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} words", self.trace.words())
    }
}

impl WordSource for TraceWords<'_, '_> {
    fn len(&self) -> u64 {
        self.trace.words()
    }

    fn read(&self, chunk: usize, into: &mut Vec<u64>) -> bool {
        self.progress.count_chunk_of(self.trace.words().div_ceil(CHUNK_WORDS as u64));
        self.trace.read(chunk, into);
        !self.interrupt.load(Ordering::Relaxed)
    }
}
