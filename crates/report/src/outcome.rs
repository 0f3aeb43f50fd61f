//! The outcome of a run in a few lines.

use crate::{
    Names, RenderOptions, describe, functions,
    line::{Style, cut, paint},
    objects::ObjectNames,
    paths,
    stack::{Stack, StackPart},
    waits::{DescribedWait, is_in_cycle, last, last_wake, taken_at, waits},
};
use std::fmt::Write;
use unsnarl_model::{
    Backtrace, Event, Misuse, ObjectKind, Op, Outcome, OutcomeKind, Site, Stats, ThreadIx, Trace, Warning,
    signal_name,
};
use unsnarl_semantics::{BarrierOp, Operation, SemaphoreOp, succeeded};
use unsnarl_symbols::Frame;

/// Width beyond which names of functions are not aligned.
const WIDEST_FUNCTION: usize = 40;

/// Describes the failure, its place, the failing thread's stack, the waits, and warnings.
#[must_use]
pub fn outcome_text(trace: &Trace, names: &mut dyn Names, options: &RenderOptions) -> String {
    headline_text(trace, names, options) + &rest_text(trace, names, options)
}

/// Describes the failure and its place.
#[must_use]
pub fn headline_text(trace: &Trace, names: &mut dyn Names, options: &RenderOptions) -> String {
    let objects = ObjectNames::of(trace, names);
    let waits = waits(trace, names);
    OutcomeWriter { trace, objects: &objects, waits: &waits, options }.headline(names)
}

/// Returns what follows the headline: waits, stacks and warnings.
#[must_use]
pub fn rest_text(trace: &Trace, names: &mut dyn Names, options: &RenderOptions) -> String {
    let objects = ObjectNames::of(trace, names);
    let waits = waits(trace, names);
    let writer = OutcomeWriter { trace, objects: &objects, waits: &waits, options };
    let mut text = String::new();
    // The waits of the cycle come first: they are the cause; the others, like a main that joins these threads, are
    // consequences.
    let mut order: Vec<&DescribedWait> = waits.iter().collect();
    order.sort_by_key(|w| (!is_in_cycle(&waits, w.wait.thread), w.wait.op == Op::Join));
    for waiting in order {
        text += &writer.waiting(waiting, names);
    }
    for backtrace in &trace.outcome.backtraces {
        text += &writer.stack(backtrace, names);
    }
    text + &writer.warnings(names)
}

/// Returns the size and the context switches in one line.
#[must_use]
pub fn stats_text(stats: &Stats) -> String {
    let count = |n: u64, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
    let switches = match stats.context_switches {
        1 => "1 context switch".to_owned(),
        n => format!("{n} context switches"),
    };
    format!(
        "{}, {}, {switches} ({})",
        count(stats.events, "event"),
        count(stats.threads, "thread"),
        count(stats.preemptive, "preemption")
    )
}

/// The end of a thread, as the interleaving shows it in its column.
pub(crate) struct Ending {
    pub(crate) thread: ThreadIx,
    pub(crate) words: String,
    pub(crate) place: Option<Frame>,
}

/// Returns the positions of threads at the end of a run that failed.
pub(crate) fn endings(trace: &Trace, objects: &ObjectNames, names: &mut dyn Names) -> Vec<Ending> {
    let outcome = &trace.outcome;
    if outcome.kind == OutcomeKind::Deadlock {
        let ending = |waiting: DescribedWait| Ending {
            thread: waiting.wait.thread,
            words: format!("waits {}", describe::wait(trace, objects, &waiting.wait)),
            place: Some(waiting.place),
        };
        return waits(trace, names).into_iter().map(ending).collect();
    }
    if is_of_several_threads(outcome) {
        let ending = |stack: &Backtrace| Ending {
            thread: stack.thread,
            words: outcome_name(outcome),
            place: stack.frames.iter().map(|&site| names.place(site)).find(|frame| !frame.system),
        };
        return outcome.backtraces.iter().map(ending).collect();
    }
    let place = outcome.site.map(|site| names.place(site));
    let ending = |thread| Ending { thread, words: outcome_name(outcome), place };
    outcome.thread.filter(|_| !matches!(outcome.kind, OutcomeKind::Exit(_))).map(ending).into_iter().collect()
}

/// Returns whether several threads repeat a round; then it is arbitrary which of them ran last.
fn is_of_several_threads(outcome: &Outcome) -> bool {
    outcome.kind == OutcomeKind::Livelock && outcome.backtraces.len() > 1
}

/// Returns a short name of the outcome.
fn outcome_name(outcome: &Outcome) -> String {
    kind_text(outcome.kind)
}

/// Returns a short name of the kind of outcome.
pub(crate) fn kind_text(kind: OutcomeKind) -> String {
    match kind {
        OutcomeKind::Exit(0) => "the program ended normally".to_owned(),
        OutcomeKind::Exit(status) => format!("the program ended with status {status}"),
        OutcomeKind::Deadlock => "deadlock".to_owned(),
        OutcomeKind::Signal(signal) => match signal {
            4 => "SIGILL, illegal instruction".to_owned(),
            7 => "SIGBUS, invalid memory access".to_owned(),
            8 => "SIGFPE, arithmetic error".to_owned(),
            11 => "SIGSEGV, invalid memory access".to_owned(),
            _ if signal_name(signal).starts_with("SIG") => signal_name(signal).to_owned(),
            _ => format!("signal {signal}"),
        },
        OutcomeKind::Assertion => "assertion failed".to_owned(),
        OutcomeKind::Abort => "abort".to_owned(),
        OutcomeKind::Exception => "uncaught exception".to_owned(),
        OutcomeKind::Panic => "panic".to_owned(),
        OutcomeKind::Livelock => "livelock".to_owned(),
        OutcomeKind::Undecided(_) => "undecided".to_owned(),
        OutcomeKind::Race => "data race".to_owned(),
        OutcomeKind::Misuse => "misuse".to_owned(),
        OutcomeKind::Check => "a check failed".to_owned(),
    }
}

struct OutcomeWriter<'a> {
    trace: &'a Trace,
    objects: &'a ObjectNames,
    waits: &'a [DescribedWait],
    options: &'a RenderOptions,
}

impl OutcomeWriter<'_> {
    fn headline(&self, names: &mut dyn Names) -> String {
        let outcome = &self.trace.outcome;
        let style = if outcome.is_failure() { Style::Failure } else { Style::Bold };
        if outcome.kind == OutcomeKind::Deadlock && !self.waits.is_empty() {
            // The waits show the place.
            return format!("{}\n", paint(&self.deadlock(), style, self.options.colour));
        }
        let headline = outcome_name(outcome);
        let mut text = paint(&headline, style, self.options.colour);
        if let Some(thread) = outcome.thread
            && outcome.is_failure()
            && !is_of_several_threads(outcome)
        {
            let _ = write!(text, " in thread {}", self.thread(thread));
        }
        let place = outcome.site.or_else(|| self.exit_call()).map(|site| names.place(site));
        if let Some(place) = &place {
            let _ = write!(text, " at {}", self.place(place));
        }
        text.push('\n');
        text += &self.source(place.as_ref(), names);
        if outcome.kind == OutcomeKind::Misuse
            && let Some(warning) = self.trace.warnings.iter().find(|w| self.is_the_failure(w))
        {
            let _ = writeln!(text, "  it {}", self.misuse(warning, names));
        } else if !headline.ends_with(&outcome.message) {
            for line in outcome.message.lines() {
                let _ = writeln!(text, "  {line}");
            }
        }
        text + &self.stderr_tail()
    }

    fn deadlock(&self) -> String {
        let cycle: Vec<_> = self
            .waits
            .iter()
            .filter(|w| is_in_cycle(self.waits, w.wait.thread))
            .map(|w| w.wait.thread)
            .collect();
        match cycle.as_slice() {
            [] => "deadlock: no thread can continue".to_owned(),
            [one] => format!("deadlock: thread {} waits for itself", self.thread(*one)),
            several => format!("deadlock: {} threads wait for each other", several.len()),
        }
    }

    /// Returns where `exit` was called with a failure status; `None` for a return from main.
    fn exit_call(&self) -> Option<Site> {
        let last = self.trace.events.last().filter(|_| self.trace.outcome.is_failure())?;
        let returned = self.trace.threads.first().is_some_and(|main| main.start == self.trace.site(last));
        (last.op == Op::Exit && !returned).then(|| self.trace.site(last))
    }

    /// Returns the program's last output, because an exit status alone says little.
    fn stderr_tail(&self) -> String {
        const LINES: usize = 3;
        let Outcome { kind, message, .. } = &self.trace.outcome;
        if !matches!(kind, OutcomeKind::Exit(status) if *status != 0) || !message.is_empty() {
            return String::new();
        }
        let output = &self.trace.output;
        let (written, label) = if output.stderr.is_empty() {
            (&output.stdout, "last output:")
        } else {
            (&output.stderr, "last output on stderr:")
        };
        let written = String::from_utf8_lossy(written);
        let lines: Vec<&str> = written.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        let shown = |line: &&str| {
            let line = line.replace(char::is_control, " ");
            let room = self.options.width.saturating_sub(label.len() + 3);
            format!("  {label} {}\n", cut(line.trim(), room))
        };
        match last {
            [] => String::new(),
            [one] => shown(one),
            several => several.iter().enumerate().fold(String::new(), |text, (nth, line)| {
                let line = shown(line);
                text + &if nth == 0 { line } else { line.replacen(label, &" ".repeat(label.len()), 1) }
            }),
        }
    }

    fn waiting(&self, waiting: &DescribedWait, names: &mut dyn Names) -> String {
        let DescribedWait { wait, place, callers, inside } = waiting;
        let inside = inside.as_ref().filter(|_| wait.op.object_kind() == Some(ObjectKind::Futex));
        let mut text = format!(
            "  thread {} waits {}{} at {}\n",
            self.thread(wait.thread),
            inside.map(|function| format!("in {function} ")).unwrap_or_default(),
            describe::wait(self.trace, self.objects, wait),
            self.place(place),
        );
        text += &self.source(Some(place), names);
        for caller in callers {
            let function = functions::of_user(caller.function.as_deref().unwrap_or("?"));
            let _ = writeln!(text, "    called by {function}, {}", self.line_relative_to(caller, place));
        }
        for remark in self.remarks(waiting, names) {
            let _ = writeln!(text, "    {remark}");
        }
        text
    }

    /// Returns why the wait does not end.
    fn remarks(&self, waiting: &DescribedWait, names: &mut dyn Names) -> Vec<String> {
        let DescribedWait { wait, place, .. } = waiting;
        let mut at = |site: Site| {
            let there = names.place(site);
            let source = there.line.and_then(|line| names.source_line(there.file.as_deref()?, line));
            let source = source.map(|text| format!(" │ {}", text.trim())).unwrap_or_default();
            (!there.system).then(|| format!("{}{source}", self.line_relative_to(&there, place)))
        };
        match wait.op.object_kind() {
            Some(kind @ (ObjectKind::Cond | ObjectKind::Futex)) if wait.holders.is_empty() => {
                match last_wake(self.trace, wait.addr) {
                    None if kind == ObjectKind::Cond => vec!["no thread signals it".to_owned()],
                    None => vec!["no thread wakes it".to_owned()],
                    Some((event, 0)) => {
                        let site = at(self.trace.user_site(event)).map(|site| format!(": {site}"));
                        let thread_name = self.thread(event.thread);
                        vec![format!(
                            "thread {thread_name} signalled when no thread was waiting{}",
                            site.unwrap_or_default()
                        )]
                    }
                    Some(_) => Vec::new(),
                }
            }
            Some(ObjectKind::Semaphore) => {
                let takes = |event: &Event| {
                    let taken = match Operation::decode(event) {
                        Operation::Semaphore(SemaphoreOp::Wait { semaphore, .. }) => semaphore == wait.addr,
                        _ => false,
                    };
                    taken && event.thread != wait.thread && succeeded(event)
                };
                let taken = last(self.trace, takes);
                taken
                    .and_then(|e| Some((e.thread, at(self.trace.user_site(e))?)))
                    .map(|(thread, site)| format!("last taken by thread {}: {site}", self.thread(thread)))
                    .into_iter()
                    .collect()
            }
            Some(ObjectKind::Barrier) => {
                let all = self.trace.events.iter().rev().find_map(|event| match Operation::decode(event) {
                    Operation::Barrier(BarrierOp::Init { barrier, threads }) if barrier == wait.addr => {
                        Some(threads)
                    }
                    _ => None,
                });
                let arrived = self.waits.iter().filter(|other| other.wait.addr == wait.addr).count();
                all.map(|all| format!("{arrived} of {all} threads are here")).into_iter().collect()
            }
            Some(ObjectKind::Channel) => {
                let made = describe::made_at(self.trace, wait).and_then(at);
                made.map(|site| format!("made at {site}")).into_iter().collect()
            }
            _ if wait.op == Op::Join => Vec::new(),
            _ => {
                let held = |&holder: &ThreadIx| {
                    let holder_name = if holder == wait.thread {
                        "itself".to_owned()
                    } else {
                        format!("thread {}", self.thread(holder))
                    };
                    let ended = if self.has_ended(holder) { ", which has ended," } else { "" };
                    let since = taken_at(self.trace, wait, holder).and_then(&mut at);
                    let since = since.map(|site| format!(" since {site}")).unwrap_or_default();
                    let what = if wait.op == Op::CondWake { "its mutex is held" } else { "held" };
                    format!("{what} by {holder_name}{ended}{since}")
                };
                wait.holders.iter().map(held).collect()
            }
        }
    }

    fn has_ended(&self, thread: ThreadIx) -> bool {
        last(self.trace, |event| event.thread == thread).is_some_and(|event| event.op == Op::End)
    }

    /// Returns a thread's stack, unless it adds nothing to the text before.
    fn stack(&self, backtrace: &Backtrace, names: &mut dyn Names) -> String {
        let stack = Stack::of(backtrace, names);
        let waits = self.waits.iter().any(|waiting| waiting.wait.thread == backtrace.thread);
        if !self.options.full
            && (waits && !stack.frames().is_empty()
                || stack.users().count() == 1 && self.trace.outcome.kind != OutcomeKind::Race)
        {
            return String::new();
        }
        let mut text = format!("\nstack of thread {}:\n", self.thread(backtrace.thread));
        let name = |frame: &Frame| functions::of_user(frame.function.as_deref().unwrap_or("?"));
        let parts = if self.options.full || stack.users().next().is_none() {
            stack.frames().iter().map(|frame| StackPart::User(frame, 1)).collect()
        } else {
            stack.parts()
        };
        let wide = |part: &StackPart<'_>| match part {
            StackPart::User(frame, _) => name(frame).chars().count(),
            StackPart::Library(_) => 0,
        };
        let wide = parts.iter().map(wide).max().unwrap_or(0).min(WIDEST_FUNCTION);
        for part in &parts {
            let line = match part {
                StackPart::User(frame, times) => {
                    let times = if *times > 1 { format!("  ({times} times)") } else { String::new() };
                    let place = self.file_line(frame).unwrap_or_default();
                    format!("  {:wide$}  {place}{times}", name(frame)).trim_end().to_owned()
                }
                StackPart::Library(function) => {
                    paint(&format!("  … {function}"), Style::Dim, self.options.colour)
                }
            };
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// Describes the problems that did not end the run, without duplicates.
    fn warnings(&self, names: &mut dyn Names) -> String {
        let mut text = String::new();
        let mut distinct: Vec<(&Warning, String, usize)> = Vec::new();
        for warning in self.trace.warnings.iter().filter(|w| !self.is_the_failure(w)) {
            let misuse = self.misuse(warning, names);
            let same = |(earlier, text, _): &&mut (&Warning, String, usize)| {
                (earlier.site, earlier.addr, text.as_str()) == (warning.site, warning.addr, misuse.as_str())
            };
            match distinct.iter_mut().find(same) {
                Some((.., times)) => *times += 1,
                None => distinct.push((warning, misuse, 1)),
            }
        }
        for (warning, misuse, times) in distinct {
            text += &paint("warning", Style::Preemption, self.options.colour);
            let _ = write!(text, ": thread {} {misuse}", self.thread(warning.thread));
            // The place of a leaked thread is only its position, not the error.
            let at = if warning.misuse == Misuse::LeakedThread { ", it is at" } else { " at" };
            let place = names.place(warning.site);
            let times = if times > 1 { format!(" ({times} times)") } else { String::new() };
            let _ = writeln!(text, "{at} {}{times}", self.place(&place));
        }
        for warning in &self.trace.program_warnings {
            let _ = writeln!(text, "{}: {warning}", paint("warning", Style::Preemption, self.options.colour));
        }
        text
    }

    /// Returns whether this warning is the run's failure.
    fn is_the_failure(&self, warning: &Warning) -> bool {
        let outcome = &self.trace.outcome;
        match outcome.kind {
            OutcomeKind::Misuse => {
                outcome.thread == Some(warning.thread)
                    && outcome.site == Some(warning.site)
                    && outcome.message == warning.misuse.description()
            }
            OutcomeKind::Deadlock => {
                let blocked =
                    |w: &DescribedWait| w.wait.thread == warning.thread && w.wait.addr == warning.addr;
                warning.misuse == Misuse::Relock && self.waits.iter().any(blocked)
            }
            _ => false,
        }
    }

    fn misuse(&self, warning: &Warning, names: &mut dyn Names) -> String {
        let mut text = warning.misuse.description().to_owned();
        if let Some(object) = self.objects.of_warning(warning, names) {
            let _ = write!(text, ": `{object}`");
        }
        if !warning.detail.is_empty() {
            let _ = write!(text, ": {}", warning.detail);
        }
        text
    }

    fn thread(&self, thread: ThreadIx) -> String {
        let id = describe::id(self.trace, thread);
        match self.trace.threads.get(thread.index()).map(|t| t.name.as_str()) {
            Some(name) if !name.is_empty() => format!("{id} ({name})"),
            _ => id,
        }
    }

    fn file_line(&self, frame: &Frame) -> Option<String> {
        let file = paths::relative(frame.file.as_deref()?, &self.trace.program.cwd);
        Some(format!("{file}:{}", frame.line?))
    }

    fn short_place(&self, frame: &Frame) -> String {
        self.file_line(frame).or_else(|| frame.function.clone()).unwrap_or_else(|| "?".to_owned())
    }

    /// Returns a place relative to one mentioned before: in the same file the line is enough.
    fn line_relative_to(&self, frame: &Frame, reference: &Frame) -> String {
        match frame.line {
            Some(line) if frame.file == reference.file => format!("line {line}"),
            _ => self.short_place(frame),
        }
    }

    fn place(&self, frame: &Frame) -> String {
        match (self.file_line(frame), &frame.function) {
            // Inside a library the function says more than the file.
            (_, Some(function)) if frame.system => functions::short(function),
            (Some(place), Some(function)) => format!("{place}, {}", functions::of_user(function)),
            _ => self.short_place(frame),
        }
    }

    fn source(&self, frame: Option<&Frame>, names: &mut dyn Names) -> String {
        let line = frame.filter(|frame| !frame.system).and_then(|frame| {
            let number = frame.line?;
            let text = names.source_line(frame.file.as_deref()?, number)?;
            Some(cut(&format!("    {number} │ {}", text.trim()), self.options.width) + "\n")
        });
        line.unwrap_or_default()
    }
}
