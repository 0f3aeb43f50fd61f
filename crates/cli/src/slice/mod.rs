//! `unsnarl slice`: shows the few source lines that led to the failure, across threads.

mod code;
mod criterion;
mod deadline;
mod progress;

use crate::{
    explore,
    options::duration,
    output,
    replay::check_builds,
    traces,
    verdict::{UsageError, Verdict},
};
use anyhow::{Result, anyhow, bail};
use code::TraceWords;
use criterion::LineCriterion;
use deadline::{TimedResult, within};
use progress::{SliceProgress, StageTimes};
use serde_json::json;
use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use unsnarl_exec::{Error, Executor, InstructionTrace, InstructionTraceOptions, Settings, Tracing};
use unsnarl_model::{OutcomeKind, ThreadIx, Trace};
use unsnarl_report::{
    ProgramNames, RenderOptions, SliceReport, divergence_text, slice_dot, slice_json, slice_text,
};
use unsnarl_slice::{
    Criterion, Extent, History, OrderingInput, Reduction, closure, counts, races, ranks, reduce,
    resolve_ranks,
    x86::{Cfg, Recording},
};
use unsnarl_symbols::{Symbols, is_system, site_of};

/// Default limit of the compressed instruction trace, in MiB.
const MAX_MIB: u64 = 1024;

/// Show the few source lines that led to the failure, across threads
#[derive(clap::Args)]
pub(crate) struct Slice {
    /// The trace: a path, or `latest`
    #[arg(default_value = "latest")]
    trace: PathBuf,
    /// Explain the latest execution of this line, or the N-th, or only a variable's value after it, instead of the
    /// failure
    #[arg(long, value_name = "FILE:LINE[:VARIABLE][#N]")]
    at: Option<LineCriterion>,
    /// Also trace the code of this library (default: all except system libraries)
    #[arg(long, value_name = "PATH")]
    library: Vec<String>,
    /// Also show accesses that are ordered only by the order of critical sections
    #[arg(long)]
    lock_order: bool,
    /// Show all reasons for each line
    #[arg(long)]
    all: bool,
    /// Stop at this many MiB of compressed instruction trace; one MiB holds about eight million instructions
    #[arg(long, value_name = "MIB", default_value_t = MAX_MIB)]
    max_trace: u64,
    /// Trace again without the threads and segments that cannot have contributed
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    reduce: Reduce,
    /// Stop after this much time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Trace by single-stepping: slow, for comparison
    #[arg(long, hide = true)]
    step: bool,
    /// Print the traced instructions, and nothing else
    #[arg(long, hide = true)]
    dump: bool,
    /// Print one JSON object and nothing else
    #[arg(long, conflicts_with = "dot")]
    json: bool,
    /// Print the slice as a Graphviz graph
    #[arg(long)]
    dot: bool,
}

/// The choice whether to trace again after a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Reduce {
    /// If the run is long and less than half of it remains
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Reduce {
    /// Returns whether to trace again.
    fn is_worth_it(self, reduction: &Reduction) -> bool {
        /// Slicing a shorter run is faster than running it again.
        const LONG: u64 = 5_000_000;
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                reduction.before.steps >= LONG && 2 * reduction.after.steps <= reduction.before.steps
            }
        }
    }
}

/// Inputs of slicing.
struct SliceContext<'a> {
    recorded: &'a Trace,
    interrupt: &'a Arc<AtomicBool>,
    modules: Vec<String>,
    progress: SliceProgress,
    stage_times: RefCell<StageTimes>,
}

impl SliceContext<'_> {
    /// Records the end of a stage; an error if the user interrupted.
    fn end(&self, part: &'static str) -> Result<(), Error> {
        self.stage_times.borrow_mut().end(part);
        if self.interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// Result of a run with tracing.
enum SliceAttempt {
    Done(SliceOutcome),
    /// Tracing a part of the run is enough.
    PartialRun(PartialRun),
    /// The same run with the program at other addresses than in the recording: slice this trace instead.
    OtherLayout(Box<Trace>),
}

/// A run that is traced again, in part.
struct PartialRun {
    /// For each thread the number of events after which it is no longer traced.
    until: Vec<u64>,
    criterion: Criterion,
    /// Positions of the criterion's steps within their threads.
    ranks: Vec<(ThreadIx, u64)>,
    reduction: Reduction,
    /// Number of lines executed in the whole run.
    executed: usize,
}

/// Result of slicing.
pub(crate) enum SliceOutcome {
    /// The text to print.
    Text(String),
    /// The replay differed from the recording; the text says why, if known.
    NotReproduced(String),
}

/// Returns the slice of a failure as text or as JSON, with default options; `None` if it takes longer than the limit.
pub(crate) fn failure(
    recorded: &Trace,
    time: Duration,
    json: bool,
    interrupt: &Arc<AtomicBool>,
) -> Result<Option<SliceOutcome>> {
    let slice = Slice {
        trace: PathBuf::new(),
        at: None,
        library: Vec::new(),
        lock_order: false,
        all: false,
        max_trace: MAX_MIB,
        reduce: Reduce::Auto,
        time: None,
        step: false,
        dump: false,
        json,
        dot: false,
    };
    match within(time, interrupt, |stop| slice.of(recorded, stop)) {
        TimedResult::Done(sliced) => sliced.map(Some),
        TimedResult::TooLate => Ok(None),
    }
}

impl Slice {
    pub(crate) fn run(self) -> Result<Verdict> {
        let recorded = traces::load(&self.trace)?;
        let interrupt = explore::interrupt()?;
        let sliced = match self.time {
            None => self.of(&recorded, &interrupt),
            Some(time) => match within(time, &interrupt, |stop| self.of(&recorded, stop)) {
                TimedResult::Done(sliced) => sliced,
                TimedResult::TooLate => {
                    eprintln!(
                        "unsnarl: no slice within {time:?} (--time raises it); there is no partial slice"
                    );
                    return Ok(Verdict::Undecided);
                }
            },
        };
        match sliced {
            Ok(SliceOutcome::Text(text)) => {
                output::print(&text);
                Ok(Verdict::Fine)
            }
            Ok(SliceOutcome::NotReproduced(reason)) => {
                eprint!("{reason}");
                Ok(Verdict::NotReproduced)
            }
            Err(error) if matches!(error.downcast_ref(), Some(Error::Interrupted)) => {
                eprintln!("unsnarl: interrupted; there is no partial slice");
                Ok(Verdict::Interrupted)
            }
            Err(error) => Err(error),
        }
    }

    fn of(&self, recorded: &Trace, interrupt: &Arc<AtomicBool>) -> Result<SliceOutcome> {
        if recorded.program.path.is_empty() {
            bail!(Error::NotThisBuild(
                "the trace was imported from another tool and has no program to run".into()
            ));
        }
        if self.at.is_none() && !recorded.outcome.is_failure() && !self.dump {
            bail!(UsageError("the run did not fail; name a line with --at FILE:LINE".into()));
        }
        unsnarl_exec::check(Path::new(&recorded.program.path))?;
        check_builds(recorded)?;

        let work = SliceContext {
            recorded,
            interrupt,
            modules: self.modules(recorded),
            progress: SliceProgress::new("tracing instructions"),
            stage_times: RefCell::new(StageTimes::new()),
        };
        match self.explain(&work, None)? {
            SliceAttempt::Done(sliced) => Ok(sliced),
            SliceAttempt::PartialRun(partial_run) => match self.explain(&work, Some(&partial_run))? {
                SliceAttempt::Done(sliced) => Ok(sliced),
                _ => bail!("the run was reduced twice"),
            },
            SliceAttempt::OtherLayout(here) => self.of(&here, interrupt),
        }
    }

    /// Traces the program and slices the whole run, or the part that a reduction left.
    fn explain(&self, work: &SliceContext<'_>, partial_run: Option<&PartialRun>) -> Result<SliceAttempt> {
        let SliceContext { recorded, modules, progress, .. } = work;
        let mut executor = Executor::new(
            recorded.program.clone(),
            Settings { interrupt: Some(Arc::clone(work.interrupt)), ..Settings::default() },
        )?;
        let mut plan = recorded.replay_plan();
        // Tracing is slow, so there is no time limit.
        plan.limits.millis = u64::MAX / 2;
        let code = code::code(recorded, modules);
        let pauses = code::panics(&code);
        progress.now(if partial_run.is_some() {
            "tracing again what may have contributed"
        } else {
            "tracing"
        });
        let traced = executor.trace(
            &plan,
            &InstructionTraceOptions {
                how: if self.step { Tracing::Stepping } else { Tracing::Translated },
                modules,
                until: partial_run.map_or(&[], |partial_run| &partial_run.until),
                pauses: &pauses,
                bytes: self.max_trace.saturating_mul(1 << 20),
                progress: &|words| progress.words(words),
            },
        )?;
        let trace = traced.schedule_trace();
        if !reproduced(recorded, &trace, &traced) {
            let mut reason =
                "unsnarl: the program diverged from its recording while its instructions were traced\n"
                    .to_owned();
            if let Some(difference) = recorded.first_difference(&trace) {
                let mut symbols = Symbols::new();
                let mut names = ProgramNames::new(&recorded.modules, &mut symbols);
                reason += &divergence_text(&difference, recorded, &trace, &mut names);
            }
            return Ok(SliceAttempt::Done(SliceOutcome::NotReproduced(reason)));
        }
        if !recorded.has_layout_of(&trace) {
            // The analysis reads code and variables at the recording's addresses.
            let here = Trace { outcome: recorded.outcome.clone(), ..trace };
            return Ok(SliceAttempt::OtherLayout(Box::new(here)));
        }
        work.end(if partial_run.is_some() { "trace_again" } else { "trace" })?;
        progress.now("reading the instruction trace");
        let mut symbols = Symbols::new();
        let mut elsewhere = |pc: u64| {
            let site = site_of(&recorded.modules, pc)?;
            let frame = symbols.lookup(&recorded.modules, site).pop()?;
            frame.function
        };
        let words = TraceWords { trace: &traced, progress, interrupt: work.interrupt };
        let recording = Recording::new(&words, &code, &trace.events, &mut elsewhere)
            .map_err(|damaged| anyhow!("the instruction trace is corrupt at word {}", damaged.word))?;
        work.end("read")?;
        if self.dump && (partial_run.is_some() || self.reduce != Reduce::Always) {
            dump(&recording);
            return Ok(SliceAttempt::Done(SliceOutcome::Text(String::new())));
        }
        let mut names = ProgramNames::new(&recorded.modules, &mut symbols);
        let criterion = match partial_run {
            None => criterion::find(self.at.as_ref(), recorded, modules, &recording, &mut names)?,
            Some(partial_run) => {
                let steps = resolve_ranks(&recording, &partial_run.ranks);
                let steps = steps.ok_or_else(|| anyhow!("the failure is missing in the reduced run"))?;
                partial_run.criterion.moved_to(&steps)
            }
        };
        let own_stack = |thread, addr| recording.own_stack(thread, addr);
        let orders =
            OrderingInput { events: &trace.events, own_stack: &own_stack, lock_order: self.lock_order };
        let reduction = match partial_run {
            Some(partial_run) => partial_run.reduction.clone(),
            None => {
                progress.now("reducing the run to what may have contributed");
                let reduction = reduce(&recording, orders, &criterion.all_steps());
                work.end("reduce")?;
                if self.reduce.is_worth_it(&reduction) {
                    let executed = SliceReport::executed(recorded, &recording, &mut names);
                    return Ok(SliceAttempt::PartialRun(PartialRun {
                        until: until(&reduction),
                        ranks: ranks(&recording, &criterion.all_steps()),
                        criterion,
                        reduction,
                        executed,
                    }));
                }
                reduction
            }
        };
        progress.now("following dependences");
        let mut slice = closure(&recording, &mut Cfg::new(&code, &recording), &criterion);
        work.end("closure")?;
        progress.now("looking for races");
        races(&recording, orders, &mut slice);
        work.end("races")?;
        let counted = (self.json || self.all).then(|| {
            progress.now("counting dependences");
            counts(&recording, orders)
        });
        work.end("counts")?;
        progress.end();
        let instructions = criterion::instructions(&recording, &criterion);
        let mut report = SliceReport::new(recorded, &recording, &slice, &instructions, counted, &mut names);
        if let Some(partial_run) = partial_run {
            report.executed_lines = partial_run.executed;
        }
        Ok(SliceAttempt::Done(SliceOutcome::Text(if self.json {
            let mut output = slice_json(&report, recorded, &mut names);
            output["reduction"] = reduction_json(&reduction, partial_run.is_some());
            [output["seconds"], output["processor_seconds"]] = work.stage_times.borrow().json();
            output["trace_bytes"] = (8 * traced.words()).into();
            output["kept_bytes"] = traced.bytes().into();
            format!("{output:#}\n")
        } else if self.dot {
            slice_dot(&report, recorded, &mut names)
        } else {
            let look = RenderOptions { full: self.all, ..output::render_options() };
            let text = slice_text(&report, recorded, &mut names, &look);
            text + &reduction_text(&reduction, partial_run.is_some())
        })))
    }

    /// Returns the paths of the modules to trace.
    fn modules(&self, recorded: &Trace) -> Vec<String> {
        let selected =
            |path: &String| !is_system(path) && path.starts_with('/') || self.library.contains(path);
        recorded.modules.iter().map(|module| module.path.clone()).filter(selected).collect()
    }
}

/// Returns whether the traced run ended like the recorded one.
fn reproduced(recorded: &Trace, trace: &Trace, traced: &InstructionTrace<'_>) -> bool {
    let same_events = recorded.first_difference(trace).is_none();
    match recorded.outcome.kind {
        // These runs ended normally and fail only by the user's criteria or a limit.
        OutcomeKind::Misuse
        | OutcomeKind::Race
        | OutcomeKind::Check
        | OutcomeKind::Livelock
        | OutcomeKind::Undecided(_) => same_events,
        _ => traced.run.divergence().is_none() && recorded.signature() == trace.signature(),
    }
}

/// Returns for each thread the number of events after which it is no longer traced.
fn until(reduction: &Reduction) -> Vec<u64> {
    let threads = reduction.until.keys().map(|thread| thread.index() + 1).max().unwrap_or(0);
    let mut until = vec![0; threads];
    for (thread, left) in &reduction.until {
        until[thread.index()] = left.events;
    }
    until
}

fn reduction_json(reduction: &Reduction, traced_again: bool) -> serde_json::Value {
    let extent = |extent: Extent| json!({ "threads": extent.threads, "segments": extent.segments, "instructions": extent.steps });
    json!({
        "before": extent(reduction.before), "after": extent(reduction.after), "traced_again": traced_again
    })
}

fn reduction_text(reduction: &Reduction, traced_again: bool) -> String {
    let (before, after) = (reduction.before, reduction.after);
    if before == after {
        return String::new();
    }
    let done = if traced_again { "; only these were traced for it" } else { "" };
    format!(
        "\ncould have influenced the failure: {} of {} threads, {} of {} segments, {} of {} instructions{done}\n",
        after.threads, before.threads, after.segments, before.segments, after.steps, before.steps
    )
}

/// Prints the steps: thread, address, memory.
fn dump(recording: &Recording<'_>) {
    let mut text = String::new();
    recording.forwards(&mut |step| {
        use std::fmt::Write;
        let _ = write!(text, "{} {:#x}", step.thread.0, recording.insn(step.instruction).pc);
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
