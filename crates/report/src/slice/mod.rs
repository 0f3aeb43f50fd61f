//! A slice as source lines, newest first, each with the reasons why it is included.

mod dot;
mod json;
mod reason_text;
mod text;

pub use dot::slice_dot;
pub use json::slice_json;
pub use text::slice_text;

use crate::{Names, ObjectNames};
use reason_text::ReasonWriter;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use unsnarl_model::{Event, ModuleIx, Site, ThreadIx, Trace};
use unsnarl_semantics::{AccessKind, Operation};
use unsnarl_slice::{
    CELLS, Counts, DataPath, InstructionIx, RaceEdge, RaceKind, Reason, Slice, SliceNode,
    x86::{Call, Recording},
};

/// A line of the program's source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLine {
    /// The file, as it was passed to the compiler.
    pub file: String,
    /// Line number, from 1.
    pub line: u32,
}

/// A line in a slice.
#[derive(Clone, Debug)]
pub struct SliceLine {
    /// The line.
    pub line: SourceLine,
    /// Its function.
    pub function: Option<String>,
    /// The threads that executed it.
    pub threads: BTreeSet<ThreadIx>,
    /// Number of its executions in the slice.
    pub instances: u64,
    /// The step of its last execution.
    pub newest: u64,
    /// The failure itself is here.
    pub criterion: bool,
    /// Threads interact here: one read what another wrote, or they race.
    pub is_shared: bool,
    /// The reason why it is in the slice, as text.
    pub reasons: Vec<String>,
    /// The lines that depend on it, with the kind of dependence.
    pub(crate) dependents: BTreeSet<(&'static str, SourceLine)>,
}

/// Two conflicting accesses of different threads without synchronisation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineRace {
    /// `WAW` or `WAR`.
    pub kind: &'static str,
    /// The earlier one.
    pub from: (SourceLine, ThreadIx),
    /// The later one.
    pub to: (SourceLine, ThreadIx),
    /// The variable that both access.
    pub object: String,
    /// A lock orders them, but could also order them the other way round.
    pub by_lock: bool,
}

/// A function without a summary: the slice may be incomplete there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnknownCall {
    /// Its name.
    pub function: String,
    /// The line that called it.
    pub line: Option<SourceLine>,
    /// Number of calls.
    pub calls: u64,
}

/// The contents of a slice report.
#[derive(Clone, Debug)]
pub struct SliceReport {
    /// The lines to explain, with the threads that executed them.
    pub criterion: Vec<(SourceLine, ThreadIx)>,
    /// The failure, then the lines at which threads interact, then earlier lines that contributed, each group newest first. A failure
    /// that depends on the schedule originates where threads interact.
    pub lines: Vec<SliceLine>,
    /// The races in the slice.
    pub races: Vec<LineRace>,
    /// Lines of the program's own code that were executed.
    pub executed_lines: usize,
    /// Instructions traced.
    pub instructions: u64,
    /// Instructions of the slice without a line of the user's: in a library, or without debug information.
    pub without_line: usize,
    /// Functions with unknown effects.
    pub unknown: Vec<UnknownCall>,
    /// Numbers of dependences between threads, if they were counted.
    pub counts: Option<Counts>,
}

/// Maps instructions to lines.
struct LineIndex<'a> {
    trace: &'a Trace,
    recording: &'a Recording<'a>,
    known: HashMap<InstructionIx, Option<(SourceLine, Option<String>)>>,
}

impl LineIndex<'_> {
    /// Attributes reads in races to the lines of their events. The compiler may merge a load into an instruction of a
    /// later line, and then the reader would be shown a line that reads nothing.
    fn use_lines_of_events(&mut self, races: &BTreeSet<RaceEdge>, names: &mut dyn Names) {
        let writes = |instruction: InstructionIx| {
            races.iter().any(|edge| {
                edge.to.0 == instruction
                    || edge.from.0 == instruction && edge.kind == RaceKind::WriteAfterWrite
            })
        };
        for edge in races.iter().filter(|edge| edge.kind == RaceKind::WriteAfterRead) {
            let (instruction, thread) = edge.from;
            if writes(instruction) {
                continue;
            }
            let reads_it = |event: &Event| {
                let operation = Operation::decode(event);
                let read = operation.access().filter(|access| access.kind == AccessKind::Read);
                read.is_some_and(|access| access.range.first == edge.addr)
            };
            let is_event = |event: &&Event| event.thread == thread && reads_it(event);
            let sites: BTreeSet<Site> =
                self.trace.events.iter().filter(is_event).map(|event| self.trace.user_site(event)).collect();
            let mut lines: Vec<_> = sites.into_iter().filter_map(|site| line_of(site, names)).collect();
            lines.dedup();
            if let [line] = lines.as_slice() {
                self.known.insert(instruction, Some(line.clone()));
            }
        }
    }

    fn of(
        &mut self,
        instruction: InstructionIx,
        names: &mut dyn Names,
    ) -> Option<(SourceLine, Option<String>)> {
        let Self { trace, recording, known } = self;
        let find = || {
            let pc = recording.insn(instruction).pc;
            let (ix, module) = trace
                .modules
                .iter()
                .enumerate()
                .filter(|(_, m)| m.base <= pc && pc - m.base < m.size)
                .max_by_key(|(_, m)| m.base)?;
            line_of(Site { module: ModuleIx(ix as u16), offset: pc - module.base }, names)
        };
        known.entry(instruction).or_insert_with(find).clone()
    }

    fn executed(&mut self, names: &mut dyn Names) -> usize {
        let instructions = self.recording.all_instructions();
        let lines: BTreeSet<SourceLine> = instructions
            .filter_map(|instruction| self.of(instruction, names))
            .map(|(line, _)| line)
            .collect();
        lines.len()
    }
}

/// Returns the user's line at a site, and its function.
fn line_of(site: Site, names: &mut dyn Names) -> Option<(SourceLine, Option<String>)> {
    let frame = names.frames(site).into_iter().find(|frame| !frame.system && frame.line.is_some())?;
    Some((SourceLine { file: frame.file?, line: frame.line? }, frame.function))
}

/// Returns the instructions of a line, given by the end of its file's path and its number.
pub fn on_line<'a>(
    trace: &'a Trace,
    recording: &'a Recording<'a>,
    names: &mut dyn Names,
    file: &str,
    line: u32,
) -> BTreeSet<InstructionIx> {
    let mut lines = LineIndex { trace, recording, known: HashMap::new() };
    let is_file =
        |path: &str| path.strip_suffix(file).is_some_and(|dir| dir.is_empty() || dir.ends_with('/'));
    let mut instructions: BTreeSet<InstructionIx> = recording.all_instructions().collect();
    instructions.retain(|&instruction| {
        lines.of(instruction, names).is_some_and(|(at, _)| at.line == line && is_file(&at.file))
    });
    instructions
}

impl SliceReport {
    /// Returns the number of executed lines of the program's own code.
    pub fn executed(trace: &Trace, recording: &Recording<'_>, names: &mut dyn Names) -> usize {
        LineIndex { trace, recording, known: HashMap::new() }.executed(names)
    }

    /// Groups a slice by lines. `criterion` holds the instructions to explain and the threads that executed them.
    pub fn new(
        trace: &Trace,
        recording: &Recording<'_>,
        slice: &Slice,
        criterion: &[(InstructionIx, ThreadIx)],
        counts: Option<Counts>,
        names: &mut dyn Names,
    ) -> Self {
        let objects = ObjectNames::of(trace, names);
        let mut lines = LineIndex { trace, recording, known: HashMap::new() };
        let executed_lines = lines.executed(names);
        lines.use_lines_of_events(&slice.races, names);
        let mut gathered: BTreeMap<SourceLine, SliceLine> = BTreeMap::new();
        let mut without_line = 0;
        let mut met_at = Vec::new();
        for (&instruction, node) in &slice.nodes {
            let Some((line, function)) = lines.of(instruction, names) else {
                without_line += 1;
                continue;
            };
            let entry = gathered.entry(line.clone()).or_insert_with(|| SliceLine {
                line: line.clone(),
                function,
                threads: BTreeSet::new(),
                instances: 0,
                newest: 0,
                criterion: false,
                is_shared: false,
                reasons: Vec::new(),
                dependents: BTreeSet::new(),
            });
            entry.threads.extend(&node.threads);
            entry.instances = entry.instances.max(node.instances);
            entry.newest = entry.newest.max(node.newest);
            let mut writer = ReasonWriter {
                trace,
                recording,
                objects: &objects,
                lines: &mut lines,
                names: &mut *names,
                line: &line,
            };
            for reason in &node.reasons {
                if let Some(other) = conflicting_instruction(node, reason) {
                    entry.is_shared = true;
                    met_at.push(other);
                }
                entry.criterion |= *reason == Reason::Criterion;
                if let Some((text, dependents)) = writer.of(instruction, reason) {
                    if !entry.reasons.contains(&text) {
                        entry.reasons.push(text);
                    }
                    entry.dependents.extend(dependents);
                }
            }
        }
        for instruction in met_at {
            if let Some((line, _)) = lines.of(instruction, names)
                && let Some(entry) = gathered.get_mut(&line)
            {
                entry.is_shared = true;
            }
        }
        let mut all: Vec<SliceLine> = gathered.into_values().collect();
        all.sort_by_key(|line| std::cmp::Reverse((line.criterion, line.is_shared, line.newest)));
        let mut races: BTreeSet<LineRace> = BTreeSet::new();
        for edge in slice.races.iter().filter(|edge| !edge.atomic) {
            let side =
                |(instruction, thread): (InstructionIx, ThreadIx),
                 lines: &mut LineIndex<'_>,
                 names: &mut dyn Names| { Some((lines.of(instruction, names)?.0, thread)) };
            let (from, to) = (side(edge.from, &mut lines, names), side(edge.to, &mut lines, names));
            if let (Some(from), Some(to)) = (from, to) {
                let kind = match edge.kind {
                    RaceKind::WriteAfterWrite => "WAW",
                    RaceKind::WriteAfterRead => "WAR",
                };
                let object = reason_text::object(recording, &objects, names, edge.addr, edge.to.1);
                races.insert(LineRace { kind, from, to, object, by_lock: edge.by_lock });
            }
        }
        let mut races: Vec<LineRace> = races.into_iter().collect();
        races.dedup_by(|a, b| (a.kind, &a.from, &a.to) == (b.kind, &b.from, &b.to));
        let criterion = criterion
            .iter()
            .filter_map(|&(instruction, thread)| Some((lines.of(instruction, names)?.0, thread)))
            .collect::<BTreeSet<_>>();
        Self {
            criterion: criterion.into_iter().collect(),
            lines: all,
            races,
            executed_lines,
            instructions: recording.instructions(),
            without_line,
            unknown: unknown(recording, &mut lines, names),
            counts,
        }
    }
}

/// Returns the instruction of another thread that this one conflicts with, if that is why it is in the slice.
fn conflicting_instruction(node: &SliceNode, reason: &Reason) -> Option<InstructionIx> {
    let about = reason.about()?;
    let meets = match reason {
        Reason::WroteBefore(..)
        | Reason::WroteAfter(..)
        | Reason::AtomicBefore(..)
        | Reason::AtomicAfter(..) => true,
        Reason::Writes(_, DataPath::Memory(addr)) => {
            // A thread's argument and result pass through a cell of the runtime.
            *addr < CELLS && node.threads.iter().any(|&thread| thread != about.thread)
        }
        _ => false,
    };
    meets.then_some(about.instruction)
}

/// Returns functions without a summary that the user's own lines called.
fn unknown(recording: &Recording<'_>, lines: &mut LineIndex<'_>, names: &mut dyn Names) -> Vec<UnknownCall> {
    let mut found: BTreeMap<(String, Option<SourceLine>), u64> = BTreeMap::new();
    let is_unknown = |call: &&Call| recording.is_unknown(call);
    for call in recording.calls().iter().filter(is_unknown) {
        let name = recording.callee(call);
        let function = if name.is_empty() {
            "a function without a name".to_owned()
        } else {
            crate::functions::short(&unsnarl_symbols::demangle(name))
        };
        let line = lines.of(call.instruction, names).map(|(line, _)| line);
        *found.entry((function, line)).or_default() += 1;
    }
    found.into_iter().map(|((function, line), calls)| UnknownCall { function, line, calls }).collect()
}
