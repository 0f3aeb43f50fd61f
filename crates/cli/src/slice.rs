//! `unsnarl slice`: the few source lines that made it fail, across threads.

use crate::{
    output,
    replay::check_builds,
    traces,
    verdict::{Verdict, WrongUsage},
};
use anyhow::{Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::json;
use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use unsnarl_exec::{Error, Executor, InstructionTrace, Settings, Tracing};
use unsnarl_model::{Kind, ThreadIx, Trace};
use unsnarl_report::{Look, Names, ProgramNames, SliceReport, on_line, slice_dot, slice_json, slice_text};
use unsnarl_slice::{
    Criterion, Extent, History, Orders, Place, closure, counts, races, reduce,
    x86::{Cfg, Code, Function, Recording, Segment},
};
use unsnarl_symbols::{ModuleCode, Symbols, is_system, site_of};

/// MiB of instruction trace.
const MOST_MIB: u64 = 4096;

/// The few source lines that made it fail, across threads
#[derive(clap::Args)]
pub(crate) struct Slice {
    /// The trace: a path, or `latest`
    #[arg(default_value = "latest")]
    trace: PathBuf,
    /// Explain the latest execution of this line, or the N-th, in place of the failure
    #[arg(long, value_name = "FILE:LINE[#N]")]
    at: Option<At>,
    /// Trace the code of this library too (default: all that are not the system's)
    #[arg(long, value_name = "PATH")]
    library: Vec<String>,
    /// Tell also of accesses that only the order of critical sections orders
    #[arg(long)]
    lock_order: bool,
    /// Give all reasons for each line
    #[arg(long)]
    all: bool,
    /// Stop at this many MiB of instruction trace
    #[arg(long, value_name = "MIB", default_value_t = MOST_MIB)]
    max_trace: u64,
    /// Trace by single-stepping: slow, for comparison
    #[arg(long, hide = true)]
    step: bool,
    /// Print the instructions traced, and nothing else
    #[arg(long, hide = true)]
    dump: bool,
    /// Print one JSON object and nothing else
    #[arg(long, conflicts_with = "dot")]
    json: bool,
    /// Print the slice as a graph for Graphviz
    #[arg(long)]
    dot: bool,
}

/// A line and which of its executions.
#[derive(Clone, Debug)]
struct At {
    file: String,
    line: u32,
    instance: Option<u64>,
}

impl std::str::FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || "a line is written like queue.c:42, and its third execution like queue.c:42#3".to_owned();
        let (place, instance) = match text.split_once('#') {
            Some((place, instance)) => (place, Some(instance.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let (file, line) = place.rsplit_once(':').ok_or_else(wrong)?;
        Ok(Self { file: file.to_owned(), line: line.parse().map_err(|_| wrong())?, instance })
    }
}

/// What came of slicing.
pub(crate) enum Sliced {
    /// What is to be printed.
    Told(String),
    /// The program did not run as it was recorded; why, as far as it is known.
    NotReproduced(String),
}

/// The slice of a failure in words, as it is without any options.
pub(crate) fn failure(recorded: &Trace) -> Result<Sliced> {
    let slice = Slice {
        trace: PathBuf::new(),
        at: None,
        library: Vec::new(),
        lock_order: false,
        all: false,
        max_trace: MOST_MIB,
        step: false,
        dump: false,
        json: false,
        dot: false,
    };
    slice.of(recorded)
}

impl Slice {
    pub(crate) fn run(self) -> Result<Verdict> {
        let recorded = traces::load(&self.trace)?;
        match self.of(&recorded)? {
            Sliced::Told(text) => {
                output::print(&text);
                Ok(Verdict::Fine)
            }
            Sliced::NotReproduced(why) => {
                eprint!("{why}");
                Ok(Verdict::NotReproduced)
            }
        }
    }

    fn of(&self, recorded: &Trace) -> Result<Sliced> {
        if recorded.program.path.is_empty() {
            bail!(Error::NotThisBuild(
                "the trace was imported from another tool and has no program to run".into()
            ));
        }
        if self.at.is_none() && !recorded.outcome.is_failure() && !self.dump {
            bail!(WrongUsage("the run did not fail; say what to explain by --at FILE:LINE".into()));
        }
        unsnarl_exec::check(Path::new(&recorded.program.path))?;
        check_builds(recorded)?;

        let mut laps = Laps::new();
        let progress = Progress::new("tracing instructions");
        let mut executor = Executor::new(recorded.program.clone(), Settings::default())?;
        let mut plan = recorded.replay_plan();
        // Tracing takes its time.
        plan.limits.millis = u64::MAX / 2;
        let how = if self.step { Tracing::Stepping } else { Tracing::Translated };
        let modules = self.modules(recorded);
        let traced = executor.trace(&plan, how, &modules, self.max_trace.saturating_mul(1 << 20))?;
        let trace = traced.schedule_trace();
        if !reproduced(recorded, &trace, &traced) {
            let mut why =
                "unsnarl: with its instructions traced the program did not run as it was recorded\n"
                    .to_owned();
            if let Some(difference) = recorded.first_difference(&trace) {
                why += &format!("unsnarl: event {} differs\n", difference.point);
            }
            return Ok(Sliced::NotReproduced(why));
        }
        laps.end("trace");
        progress.now("reading the instruction trace");
        let code = code(recorded, &modules);
        let mut symbols = Symbols::new();
        let mut elsewhere = |pc: u64| {
            let site = site_of(&recorded.modules, pc)?;
            let frame = symbols.lookup(&recorded.modules, site).pop()?;
            frame.function
        };
        let recording = Recording::new(traced.words(), &code, &trace.events, &mut elsewhere)
            .map_err(|damaged| anyhow!("the instruction trace makes no sense at word {}", damaged.word))?;
        laps.end("read");
        if self.dump {
            dump(&recording);
            return Ok(Sliced::Told(String::new()));
        }
        let mut names = ProgramNames::new(&recorded.modules, &mut symbols);
        let criterion = self.criterion(recorded, &recording, &mut names)?;
        progress.now("following dependences");
        let mut slice = closure(&recording, &mut Cfg::new(&code, &recording), &criterion);
        let own_stack = |thread, addr| recording.own_stack(thread, addr);
        let orders = Orders { events: &trace.events, own_stack: &own_stack, lock_order: self.lock_order };
        laps.end("closure");
        progress.now("looking for races on the way");
        races(&recording, orders, &mut slice);
        laps.end("races");
        let counted = Some(counts(&recording, orders));
        laps.end("counts");
        let reduced = reduce(&recording, &criterion.all_steps());
        laps.end("reduce");
        drop(progress);
        let places = places(&recording, &criterion);
        let report = SliceReport::new(recorded, &recording, &slice, &places, counted, &mut names);
        Ok(Sliced::Told(if self.json {
            let mut told = slice_json(&report, recorded, &mut names);
            let extent = |extent: Extent| json!({ "threads": extent.threads, "segments": extent.segments, "instructions": extent.steps });
            told["reduction"] = json!({ "before": extent(reduced.before), "after": extent(reduced.after) });
            told["seconds"] = laps.json();
            told["trace_bytes"] = (8 * traced.words().len()).into();
            format!("{told:#}\n")
        } else if self.dot {
            slice_dot(&report, recorded, &mut names)
        } else {
            let look = Look { full: self.all, ..output::look() };
            let (before, after) = (reduced.before, reduced.after);
            format!(
                "{}of {} threads, {} segments and {} steps, {}, {} and {} can have had a part in it\n",
                slice_text(&report, recorded, &mut names, &look),
                before.threads,
                before.segments,
                before.steps,
                after.threads,
                after.segments,
                after.steps
            )
        }))
    }

    /// The paths of the modules to be traced.
    fn modules(&self, recorded: &Trace) -> Vec<String> {
        let wanted = |path: &String| !is_system(path) && path.starts_with('/') || self.library.contains(path);
        recorded.modules.iter().map(|module| module.path.clone()).filter(wanted).collect()
    }

    fn criterion(
        &self,
        recorded: &Trace,
        recording: &Recording<'_>,
        names: &mut dyn Names,
    ) -> Result<Criterion> {
        let Some(at) = &self.at else {
            let criterion = recording.failure(recorded);
            if criterion.latest().is_none() {
                bail!("the failure is in code that was not traced; say what to explain by --at FILE:LINE");
            }
            return Ok(criterion);
        };
        let places = on_line(recorded, recording, names, &at.file, at.line);
        if places.is_empty() {
            bail!(WrongUsage(format!(
                "--at: {}:{} was not executed, or the program is built without -g",
                at.file, at.line
            )));
        }
        let (steps, count) = recording.visit(&|place| places.contains(&place), at.instance);
        if steps.is_empty() {
            bail!(WrongUsage(format!("--at: {}:{} was executed {count} times only", at.file, at.line)));
        }
        Ok(Criterion { steps, ..Criterion::default() })
    }
}

/// Whether the traced run ended as the recorded one.
fn reproduced(recorded: &Trace, trace: &Trace, traced: &InstructionTrace<'_>) -> bool {
    let same_events = recorded.first_difference(trace).is_none();
    match recorded.outcome.kind {
        // What the user's own wishes made of a run that ended well.
        Kind::Misuse | Kind::Race | Kind::Check | Kind::Timeout => same_events,
        _ => traced.run.divergence().is_none() && recorded.signature() == trace.signature(),
    }
}

/// The code of the traced modules, where it was in the run.
fn code(recorded: &Trace, modules: &[String]) -> Code {
    let mut code = Code::default();
    for module in recorded.modules.iter().filter(|module| modules.contains(&module.path)) {
        let Some(read) = ModuleCode::read(Path::new(&module.path)) else { continue };
        let base = module.base;
        let segment = |(start, bytes): (u64, Vec<u8>)| Segment { start: start + base, bytes };
        code.segments.extend(read.segments.into_iter().map(segment));
        let moved = |range: std::ops::Range<u64>| range.start + base..range.end + base;
        code.functions.extend(read.functions.into_iter().map(|(range, name)| {
            let range = moved(range);
            Function { start: range.start, end: range.end, name }
        }));
        code.stubs.extend(read.stubs.into_iter().map(moved));
        code.slots.extend(read.slots.into_iter().map(|(slot, name)| (slot + base, name)));
    }
    code.functions.sort_by_key(|function| (function.start, function.end));
    code
}

/// The instructions of a criterion, and who executed them.
fn places(recording: &Recording<'_>, criterion: &Criterion) -> Vec<(Place, ThreadIx)> {
    let wanted = criterion.all_steps();
    let mut places = Vec::new();
    let first = wanted.iter().copied().min().unwrap_or(0);
    let Some(latest) = criterion.latest() else { return places };
    recording.backwards(latest, &mut |step| {
        if wanted.contains(&step.number) {
            places.push((step.place, step.thread));
        }
        step.number > first
    });
    places.sort();
    places.dedup();
    places
}

/// Prints the steps: thread, address, memory.
fn dump(recording: &Recording<'_>) {
    let mut text = String::new();
    recording.forwards(&mut |step| {
        use std::fmt::Write;
        let _ = write!(text, "{} {:#x}", step.thread.0, recording.insn(step.place).pc);
        for span in step.reads.iter().chain(step.writes).chain(step.may_write) {
            let _ = write!(text, " {:#x}+{}", span.addr, span.len);
        }
        text.push('\n');
        if text.len() > 1 << 20 {
            output::print(&std::mem::take(&mut text));
        }
    });
    output::print(&text);
}

/// How long each part of the work took.
struct Laps {
    begin: Instant,
    ended: Vec<(&'static str, f64)>,
}

impl Laps {
    fn new() -> Self {
        Self { begin: Instant::now(), ended: Vec::new() }
    }

    fn end(&mut self, part: &'static str) {
        self.ended.push((part, self.begin.elapsed().as_secs_f64()));
        self.begin = Instant::now();
    }

    fn json(&self) -> serde_json::Value {
        let parts =
            self.ended.iter().map(|&(part, seconds)| (part.to_owned(), serde_json::Value::from(seconds)));
        serde_json::Value::Object(parts.collect())
    }
}

/// What is being done, on a terminal.
struct Progress(ProgressBar);

impl Progress {
    fn new(what: &'static str) -> Self {
        let bar = ProgressBar::new_spinner();
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        bar.set_draw_target(target);
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    fn now(&self, what: &'static str) {
        self.0.set_message(what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
