//! How a run ended, in a few lines.

use crate::{
    Look, Names,
    line::{Style, paint},
    objects::ObjectNames,
    paths, words,
};
use std::fmt::Write;
use unsnarl_model::{
    Backtrace, Kind, Misuse, ObjectKind, Op, Outcome, Site, Stats, ThreadIx, Trace, Wait, Warning,
    signal_name,
};
use unsnarl_symbols::Frame;

/// What went wrong, where, with the failing thread's stack, who waits for whom, and warnings.
#[must_use]
pub fn outcome_text(trace: &Trace, names: &mut dyn Names, look: &Look) -> String {
    let objects = ObjectNames::of(trace, names);
    let teller = Teller { trace, objects: &objects, look };
    let mut text = teller.headline(names);
    // Those in the circle are the cause; the others, like a main that joins them, only suffer.
    let mut waits: Vec<&Wait> = trace.outcome.waits.iter().collect();
    waits.sort_by_key(|wait| !in_a_circle(&trace.outcome.waits, wait.thread));
    for wait in waits {
        text += &teller.wait(wait, names);
    }
    for backtrace in teller.backtraces() {
        text += &teller.backtrace(backtrace, names);
    }
    for warning in &trace.warnings {
        text += &teller.warning(warning, names);
    }
    text
}

/// Size and switches in one line.
#[must_use]
pub fn stats_text(stats: &Stats) -> String {
    let count = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let switches = match stats.context_switches {
        1 => "1 context switch".to_owned(),
        n => format!("{n} context switches"),
    };
    format!(
        "{}, {}, {switches}, {} preemptive",
        count(stats.events, "event"),
        count(stats.threads, "thread"),
        stats.preemptive
    )
}

/// A thread's end that the interleaving shows in its column.
pub(crate) struct Ending {
    pub(crate) thread: ThreadIx,
    pub(crate) words: String,
    pub(crate) site: Option<Site>,
}

/// Where threads stood when it ended, if it ended badly.
pub(crate) fn endings(trace: &Trace, objects: &ObjectNames) -> Vec<Ending> {
    let outcome = &trace.outcome;
    let mut endings = Vec::new();
    let by_itself = matches!(outcome.kind, Kind::Exit(_) | Kind::Deadlock | Kind::Timeout | Kind::Livelock);
    if let Some(thread) = outcome.thread
        && !by_itself
    {
        endings.push(Ending { thread, words: what(outcome), site: outcome.site });
    }
    if outcome.kind == Kind::Deadlock {
        endings.extend(outcome.waits.iter().map(|wait| Ending {
            thread: wait.thread,
            words: format!("waits {}", words::wait(trace, objects, wait)),
            site: Some(wait.site),
        }));
    }
    endings
}

/// What happened, in a word or two.
fn what(outcome: &Outcome) -> String {
    match outcome.kind {
        Kind::Exit(0) => "the program ended normally".to_owned(),
        Kind::Exit(status) => format!("the program ended with status {status}"),
        Kind::Deadlock => {
            let circle = outcome.waits.iter().filter(|wait| in_a_circle(&outcome.waits, wait.thread)).count();
            let how = match circle {
                0 => "nobody can go on",
                1 => "a thread waits for itself",
                _ => "threads wait for each other",
            };
            format!("deadlock: {how}")
        }
        Kind::Signal(signal) => match signal {
            4 => "SIGILL, illegal instruction".to_owned(),
            7 => "SIGBUS, invalid memory access".to_owned(),
            8 => "SIGFPE, arithmetic error".to_owned(),
            11 => "SIGSEGV, invalid memory access".to_owned(),
            _ if signal_name(signal).starts_with("SIG") => signal_name(signal).to_owned(),
            _ => format!("signal {signal}"),
        },
        Kind::Assertion => "assertion failed".to_owned(),
        Kind::Abort => "abort".to_owned(),
        Kind::Exception => "uncaught exception".to_owned(),
        Kind::Panic => "panic".to_owned(),
        Kind::Livelock => "livelock: threads run but nobody gets anywhere".to_owned(),
        Kind::Timeout => "a limit was reached before the program ended".to_owned(),
        Kind::Race => "data race".to_owned(),
        Kind::Misuse => "wrong use of a synchronisation object".to_owned(),
        Kind::Check => "a check failed".to_owned(),
    }
}

/// Whether this thread waits for itself, directly or through others.
fn in_a_circle(waits: &[Wait], thread: ThreadIx) -> bool {
    let mut seen: Vec<ThreadIx> = Vec::new();
    let mut open = vec![thread];
    while let Some(next) = open.pop() {
        for &holder in waits.iter().filter(|wait| wait.thread == next).flat_map(|wait| &wait.holders) {
            if holder == thread {
                return true;
            }
            if !seen.contains(&holder) {
                seen.push(holder);
                open.push(holder);
            }
        }
    }
    false
}

/// Where the thread last took the lock that another one waits for.
pub(crate) fn taken_at(trace: &Trace, wait: &Wait, holder: ThreadIx) -> Option<Site> {
    let takes = |op: Op| {
        matches!(
            op,
            Op::Lock
                | Op::TryLock
                | Op::ReadLock
                | Op::TryReadLock
                | Op::WriteLock
                | Op::TryWriteLock
                | Op::OnceBegin
        )
    };
    matches!(wait.op.object_kind(), Some(ObjectKind::Lock | ObjectKind::RwLock | ObjectKind::Once))
        .then_some(())?;
    let event = trace
        .events
        .iter()
        .rev()
        .find(|event| event.thread == holder && event.addr == wait.addr && takes(event.op))?;
    Some(trace.site(event))
}

struct Teller<'a> {
    trace: &'a Trace,
    objects: &'a ObjectNames,
    look: &'a Look,
}

impl Teller<'_> {
    fn headline(&self, names: &mut dyn Names) -> String {
        let outcome = &self.trace.outcome;
        let style = if outcome.is_failure() { Style::Failure } else { Style::Bold };
        let mut text = paint(&what(outcome), style, self.look.colour);
        if let Some(thread) = outcome.thread
            && outcome.is_failure()
        {
            let _ = write!(text, " in thread {}", self.thread(thread));
        }
        let place = outcome.site.map(|site| names.place(site));
        if let Some(place) = &place {
            let _ = write!(text, " at {}", self.place(place));
        }
        text.push('\n');
        text += &self.source(place.as_ref(), names);
        for line in outcome.message.lines() {
            let _ = writeln!(text, "  {line}");
        }
        text
    }

    fn wait(&self, wait: &Wait, names: &mut dyn Names) -> String {
        let place = names.place(wait.site);
        let mut text = format!(
            "  thread {} waits {} ({})",
            self.thread(wait.thread),
            words::wait(self.trace, self.objects, wait),
            self.place(&place),
        );
        if wait.op != Op::Join && !wait.holders.is_empty() {
            let holders: Vec<String> = wait
                .holders
                .iter()
                .map(|&holder| match taken_at(self.trace, wait, holder) {
                    Some(site) if holder == wait.thread => {
                        format!("itself since {}", self.short_place(&names.place(site)))
                    }
                    Some(site) => {
                        format!("{} since {}", self.thread(holder), self.short_place(&names.place(site)))
                    }
                    None => self.thread(holder),
                })
                .collect();
            let _ = write!(text, ", held by {}", holders.join(" and "));
        }
        text.push('\n');
        text + &self.source(Some(&place), names)
    }

    /// The failing thread's stack; in a deadlock every line of it is in the waits already.
    fn backtraces(&self) -> impl Iterator<Item = &Backtrace> {
        let waits = &self.trace.outcome.waits;
        self.trace
            .outcome
            .backtraces
            .iter()
            .filter(|b| b.frames.len() > 1 || !waits.iter().any(|wait| wait.thread == b.thread))
    }

    fn backtrace(&self, backtrace: &Backtrace, names: &mut dyn Names) -> String {
        let mut text = format!("\nstack of thread {}:\n", self.thread(backtrace.thread));
        let frames: Vec<Frame> = backtrace.frames.iter().flat_map(|&site| names.frames(site)).collect();
        let name = |frame: &Frame| frame.function.clone().unwrap_or_else(|| "?".to_owned());
        let of_user = |frame: &Frame| !frame.system || self.look.full;
        let wide = frames.iter().filter(|f| of_user(f)).map(|f| name(f).chars().count()).max().unwrap_or(0);
        for run in frames.chunk_by(|a, b| of_user(a) == of_user(b)) {
            if of_user(&run[0]) {
                for frame in run {
                    let line =
                        format!("  {:wide$}  {}", name(frame), self.file_line(frame).unwrap_or_default());
                    let _ = writeln!(text, "{}", line.trim_end());
                }
            } else {
                let inner = name(&run[0]);
                let line = match run.len() {
                    1 => format!("  … {inner}"),
                    n => format!("  … {inner} and {} more of the system", n - 1),
                };
                let _ = writeln!(text, "{}", paint(&line, Style::Dim, self.look.colour));
            }
        }
        text
    }

    fn warning(&self, warning: &Warning, names: &mut dyn Names) -> String {
        let mut text = paint("warning", Style::Preemption, self.look.colour);
        let _ = write!(text, ": thread {} {}", self.thread(warning.thread), warning.misuse.words());
        let object = (warning.addr != 0).then(|| self.objects.by_addr(warning.addr)).flatten();
        if let Some(object) = object.or_else(|| names.variable(warning.addr)) {
            let _ = write!(text, ": `{object}`");
        }
        if !warning.detail.is_empty() {
            let _ = write!(text, ": {}", warning.detail);
        }
        // Where a thread was left behind is where it was, not what is wrong.
        let at = if warning.misuse == Misuse::LeakedThread { "it is at" } else { "at" };
        let place = names.place(warning.site);
        let _ = writeln!(text, " ({at} {})", self.place(&place));
        text
    }

    fn thread(&self, thread: ThreadIx) -> String {
        let id = words::id(self.trace, thread);
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

    fn place(&self, frame: &Frame) -> String {
        match (self.file_line(frame), &frame.function) {
            (Some(place), Some(function)) => format!("{place}, {function}"),
            _ => self.short_place(frame),
        }
    }

    fn source(&self, frame: Option<&Frame>, names: &mut dyn Names) -> String {
        let line = frame.and_then(|frame| {
            let number = frame.line?;
            let text = names.source_line(frame.file.as_deref()?, number)?;
            Some(format!("    {number} │ {}\n", text.trim()))
        });
        line.unwrap_or_default()
    }
}
