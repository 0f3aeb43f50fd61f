//! A slice as its reader sees it: source lines, newest first, each with why it is there.

mod dot;
mod json;
mod reason_text;
mod text;

pub use dot::slice_dot;
pub use json::slice_json;
pub use text::slice_text;

use crate::Names;
use reason_text::ReasonWriter;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use unsnarl_model::{ModuleIx, Site, ThreadIx, Trace};
use unsnarl_slice::{
    CELLS, Counts, DataPath, InstructionIx, RaceKind, Reason, Slice, SliceNode,
    x86::{Call, Recording},
};

/// A line of the program's source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLine {
    /// The file, as the compiler was told it.
    pub file: String,
    /// From 1.
    pub line: u32,
}

/// A line in a slice.
#[derive(Clone, Debug)]
pub struct SliceLine {
    /// Which.
    pub line: SourceLine,
    /// The function that it is in.
    pub function: Option<String>,
    /// Who executed it.
    pub threads: BTreeSet<ThreadIx>,
    /// How many of its executions are in the slice.
    pub instances: u64,
    /// The step at which it was last executed.
    pub newest: u64,
    /// Whether the failure itself is there.
    pub criterion: bool,
    /// Whether threads meet here: what one wrote another read, or they race.
    pub is_shared: bool,
    /// Why it is in the slice, in words.
    pub reasons: Vec<String>,
    /// The lines that it is in the slice for, with the kind of dependence.
    pub(crate) dependents: BTreeSet<(&'static str, SourceLine)>,
}

/// Two accesses of different threads that nothing orders.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineRace {
    /// `WAW` or `WAR`.
    pub kind: &'static str,
    /// The earlier one.
    pub from: (SourceLine, ThreadIx),
    /// The later one.
    pub to: (SourceLine, ThreadIx),
    /// What both access.
    pub object: String,
    /// Whether a lock orders them, but could as well order them the other way round.
    pub by_lock: bool,
}

/// A function without a summary: the slice may be cut there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnknownCall {
    /// Its name.
    pub function: String,
    /// Where it was called.
    pub line: Option<SourceLine>,
    /// How often.
    pub calls: u64,
}

/// All that is told of a slice.
#[derive(Clone, Debug)]
pub struct SliceReport {
    /// The lines to be explained, with who executed them.
    pub criterion: Vec<(SourceLine, ThreadIx)>,
    /// The failure, then the lines at which threads meet, then what led there; of each the newest first. Where threads meet is
    /// where a failure that depends on the schedule comes from.
    pub lines: Vec<SliceLine>,
    /// The races that the slice passes.
    pub races: Vec<LineRace>,
    /// Lines of the program's own code that were executed.
    pub executed_lines: usize,
    /// Instructions traced.
    pub instructions: u64,
    /// Instructions of the slice in code without lines of the user's: a library's, or without debug information.
    pub without_line: usize,
    /// Functions whose effects are not known.
    pub unknown: Vec<UnknownCall>,
    /// How many dependences there are between threads, if they were counted.
    pub counts: Option<Counts>,
}

/// Lines of instructions.
struct LineIndex<'a> {
    trace: &'a Trace,
    recording: &'a Recording<'a>,
    known: HashMap<InstructionIx, Option<(SourceLine, Option<String>)>>,
}

impl LineIndex<'_> {
    fn of(&mut self, place: InstructionIx, names: &mut dyn Names) -> Option<(SourceLine, Option<String>)> {
        let Self { trace, recording, known } = self;
        let find = || {
            let pc = recording.insn(place).pc;
            let (ix, module) = trace
                .modules
                .iter()
                .enumerate()
                .filter(|(_, m)| m.base <= pc && pc - m.base < m.size)
                .max_by_key(|(_, m)| m.base)?;
            let site = Site { module: ModuleIx(ix as u16), offset: pc - module.base };
            let frame = names.frames(site).into_iter().find(|f| !f.system && f.line.is_some())?;
            Some((SourceLine { file: frame.file?, line: frame.line? }, frame.function))
        };
        known.entry(place).or_insert_with(find).clone()
    }

    fn executed(&mut self, names: &mut dyn Names) -> usize {
        let places = self.recording.places();
        let lines: BTreeSet<SourceLine> =
            places.filter_map(|place| self.of(place, names)).map(|(line, _)| line).collect();
        lines.len()
    }
}

/// Whether an instruction belongs to a line, given by the end of its file's path and its number.
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
    let mut places: BTreeSet<InstructionIx> = recording.places().collect();
    places
        .retain(|&place| lines.of(place, names).is_some_and(|(at, _)| at.line == line && is_file(&at.file)));
    places
}

impl SliceReport {
    /// How many lines of the program's own code were executed.
    pub fn executed(trace: &Trace, recording: &Recording<'_>, names: &mut dyn Names) -> usize {
        LineIndex { trace, recording, known: HashMap::new() }.executed(names)
    }

    /// Gathers a slice by lines. `criterion` are the instructions to be explained and who executed them.
    pub fn new(
        trace: &Trace,
        recording: &Recording<'_>,
        slice: &Slice,
        criterion: &[(InstructionIx, ThreadIx)],
        counts: Option<Counts>,
        names: &mut dyn Names,
    ) -> Self {
        let mut lines = LineIndex { trace, recording, known: HashMap::new() };
        let executed_lines = lines.executed(names);
        let mut gathered: BTreeMap<SourceLine, SliceLine> = BTreeMap::new();
        let mut without_line = 0;
        let mut met_at = Vec::new();
        for (&place, node) in &slice.nodes {
            let Some((line, function)) = lines.of(place, names) else {
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
            let mut writer =
                ReasonWriter { trace, recording, lines: &mut lines, names: &mut *names, line: &line };
            for reason in &node.reasons {
                if let Some(other) = conflicting_place(node, reason) {
                    entry.is_shared = true;
                    met_at.push(other);
                }
                entry.criterion |= *reason == Reason::Criterion;
                if let Some((text, dependents)) = writer.of(place, reason) {
                    if !entry.reasons.contains(&text) {
                        entry.reasons.push(text);
                    }
                    entry.dependents.extend(dependents);
                }
            }
        }
        for place in met_at {
            if let Some((line, _)) = lines.of(place, names)
                && let Some(entry) = gathered.get_mut(&line)
            {
                entry.is_shared = true;
            }
        }
        let mut all: Vec<SliceLine> = gathered.into_values().collect();
        all.sort_by_key(|line| std::cmp::Reverse((line.criterion, line.is_shared, line.newest)));
        let mut races: BTreeSet<LineRace> = BTreeSet::new();
        for edge in &slice.races {
            let side =
                |(place, thread): (InstructionIx, ThreadIx),
                 lines: &mut LineIndex<'_>,
                 names: &mut dyn Names| { Some((lines.of(place, names)?.0, thread)) };
            let (from, to) = (side(edge.from, &mut lines, names), side(edge.to, &mut lines, names));
            if let (Some(from), Some(to)) = (from, to) {
                let kind = match edge.kind {
                    RaceKind::WriteAfterWrite => "WAW",
                    RaceKind::WriteAfterRead => "WAR",
                };
                let object = reason_text::object(recording, names, edge.addr, edge.to.1);
                races.insert(LineRace { kind, from, to, object, by_lock: edge.by_lock });
            }
        }
        let mut races: Vec<LineRace> = races.into_iter().collect();
        races.dedup_by(|a, b| (a.kind, &a.from, &a.to) == (b.kind, &b.from, &b.to));
        let criterion = criterion
            .iter()
            .filter_map(|&(place, thread)| Some((lines.of(place, names)?.0, thread)))
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

/// The instruction of another thread that this one met, if it is in the slice for that.
fn conflicting_place(node: &SliceNode, reason: &Reason) -> Option<InstructionIx> {
    let about = reason.about()?;
    let meets = match reason {
        Reason::WroteBefore(..) | Reason::WroteAfter(..) => true,
        Reason::Writes(_, DataPath::Memory(addr)) => {
            // What a thread is started with or returns goes through a cell of ours.
            *addr < CELLS && node.threads.iter().any(|&thread| thread != about.thread)
        }
        _ => false,
    };
    meets.then_some(about.place)
}

/// Functions without a summary that the user's own lines called.
fn unknown(recording: &Recording<'_>, lines: &mut LineIndex<'_>, names: &mut dyn Names) -> Vec<UnknownCall> {
    let mut found: BTreeMap<(String, Option<SourceLine>), u64> = BTreeMap::new();
    let is_unknown = |call: &&Call| recording.unknown(call);
    for call in recording.calls().iter().filter(is_unknown) {
        let name = recording.callee(call);
        let function = if name.is_empty() {
            "a function without a name".to_owned()
        } else {
            crate::functions::short(&unsnarl_symbols::demangle(name))
        };
        let line = lines.of(call.place, names).map(|(line, _)| line);
        *found.entry((function, line)).or_default() += 1;
    }
    found.into_iter().map(|((function, line), calls)| UnknownCall { function, line, calls }).collect()
}
