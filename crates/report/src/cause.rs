//! Explains a failure in a few sentences: wait cycles, where threads were preempted, what happened meanwhile, and what
//! would have happened otherwise.

use crate::{
    Names, RenderOptions,
    counterfactuals::outcome_without,
    describe,
    facts::{self, holds},
    line::{Style, cut, paint, wrapped},
    objects::ObjectNames,
    paths, waits,
};
use std::{fmt::Write, ops::Range};
use unsnarl_model::{Event, Flags, Op, OutcomeKind, Side, ThreadIx, Trace};
use unsnarl_semantics::{
    Access, AccessKind, ByteRange, CondOp, MemoryOp, MutexOp, Operation, RwLockOp, SemaphoreOp, succeeded,
};

/// Preemptions that are described in full; the interleaving shows the others.
const MAX_PREEMPTIONS: usize = 3;
/// Maximum number of changes by other threads that are listed.
const MAX_CHANGES: usize = 3;
/// Maximum length of a repeated round that is looked for, and of its operations that are shown for each thread.
const MAX_ROUND: usize = 256;
const MAX_ROUND_STEPS: usize = 8;

/// Number of events at the end of a run in which a loop is searched for.
const MAX_LOOP_EVENTS: usize = 60;

/// A sentence of the explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sentence {
    pub(crate) rank: Rank,
    pub(crate) text: String,
    /// The event of the preemption that it describes, if it does.
    pub(crate) event: Option<usize>,
}

/// Relation of a sentence to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Independent.
    Head,
    /// A source line that the previous sentence mentions.
    Code,
    /// A detail of the previous sentence.
    More,
}

impl Sentence {
    fn head(text: String) -> Self {
        Self { rank: Rank::Head, text, event: None }
    }

    fn code(file: &str, line: u32, source: &str) -> Self {
        let text = format!("{}:{line} │ {}", paths::base(file), source.trim());
        Self { rank: Rank::Code, text, event: None }
    }

    fn more(text: String) -> Self {
        Self { rank: Rank::More, text, event: None }
    }
}

/// Explains the failure as text. Empty for a run that did not fail.
#[must_use]
pub fn cause_text(trace: &Trace, names: &mut dyn Names, options: &RenderOptions) -> String {
    const HEAD: usize = 9;
    let room = options.width.saturating_sub(HEAD).max(60);
    let mut text = String::new();
    for sentence in cause(trace, names) {
        let indent = match sentence.rank {
            Rank::Head => 0,
            Rank::Code => 4,
            Rank::More => 2,
        };
        let lines = match sentence.rank {
            Rank::Code => vec![cut(&sentence.text, room - indent)],
            Rank::Head | Rank::More => wrapped(&sentence.text, room - indent),
        };
        for (nth, line) in lines.iter().enumerate() {
            let head =
                if text.is_empty() { paint("why", Style::Bold, options.colour) } else { "   ".to_owned() };
            let deeper = if nth > 0 { 2 } else { 0 };
            let _ = writeln!(text, "{head}{:1$}{line}", "", HEAD - 3 + indent + deeper);
        }
    }
    text
}

/// Explains the failure sentence by sentence. Empty for a run that did not fail.
pub(crate) fn cause(trace: &Trace, names: &mut dyn Names) -> Vec<Sentence> {
    if !trace.outcome.is_failure() {
        return Vec::new();
    }
    let writer = CauseWriter { trace, objects: ObjectNames::of(trace, names) };
    let mut sentences: Vec<Sentence> = writer.wait_cycle(names).into_iter().map(Sentence::head).collect();
    sentences.extend(writer.race(names).map(Sentence::head));
    sentences.extend(
        writer.repeated_round(names).unwrap_or_else(|| writer.endless_loop(names).into_iter().collect()),
    );
    let preemptions: Vec<usize> =
        (1..trace.events.len()).filter(|&at| trace.events[at].flags.has(Flags::PREEMPTS)).collect();
    for &event in preemptions.iter().take(MAX_PREEMPTIONS) {
        sentences.extend(writer.describe_preemption(event, names));
    }
    let more = preemptions.len().saturating_sub(MAX_PREEMPTIONS);
    if more > 0 {
        sentences.push(Sentence::head(format!(
            "{} more {} below",
            more,
            if more == 1 { "preemption is marked" } else { "preemptions are marked" }
        )));
    }
    if preemptions.is_empty() {
        sentences.extend(writer.explain_without_preemptions().into_iter().map(Sentence::head));
    }
    sentences
}

struct CauseWriter<'a> {
    trace: &'a Trace,
    objects: ObjectNames,
}

impl CauseWriter<'_> {
    /// Describes what each thread of a deadlock's cycle holds and waits for.
    fn wait_cycle(&self, names: &mut dyn Names) -> Vec<String> {
        if self.trace.outcome.kind != OutcomeKind::Deadlock {
            return Vec::new();
        }
        let waits = waits::waits(self.trace, names);
        let cycle = waits.iter().filter(|waiting| waits::is_in_cycle(&waits, waiting.wait.thread));
        let sentences = |waiting: &waits::DescribedWait| {
            let wait = &waiting.wait;
            let thread_name = describe::id(self.trace, wait.thread);
            let held: Vec<String> = holds(&self.trace.events)
                .into_iter()
                .filter(|hold| hold.thread == wait.thread && hold.last == self.trace.events.len())
                .map(|hold| format!("`{}`", self.objects.held(self.trace, hold)))
                .collect();
            let held =
                if held.is_empty() { String::new() } else { format!("holds {} and ", held.join(", ")) };
            let awaited = describe::wait(self.trace, &self.objects, wait);
            let by: Vec<String> =
                wait.holders.iter().map(|&holder| describe::id(self.trace, holder)).collect();
            let by = match wait.op {
                _ if by.is_empty() => String::new(),
                Op::Join => String::new(),
                // A condition variable is not held, but its mutex is.
                Op::CondWake if wait.holders == [wait.thread] => {
                    ", and still holds its mutex, which it locked more than once".to_owned()
                }
                Op::CondWake => format!(", whose mutex thread {} holds", by.join(", ")),
                _ => format!(", held by thread {}", by.join(", ")),
            };
            let at = waiting.place.file.as_deref().zip(waiting.place.line);
            let at = at.map(|(file, line)| format!(" ({}:{line})", paths::base(file))).unwrap_or_default();
            format!("thread {thread_name} {held}waits {awaited}{by}{at}")
        };
        let sentences: Vec<String> = cycle.map(sentences).take(6).collect();
        if sentences.is_empty() { self.waits_without_waker(&waits) } else { sentences }
    }

    /// Describes the two accesses of a race that is the failure.
    fn race(&self, names: &mut dyn Names) -> Option<String> {
        let race = self.trace.races.first().filter(|_| self.trace.outcome.kind == OutcomeKind::Race)?;
        let mut side = |side: &Side| {
            let effect_of = if matches!(side.op, Op::Read | Op::AtomicLoad) { "reads" } else { "writes" };
            let place = facts::place(side.site, names);
            let at =
                place.map(|(file, line, _)| format!(" ({}:{line})", paths::base(&file))).unwrap_or_default();
            (format!("thread {} {effect_of}", describe::id(self.trace, side.thread)), at)
        };
        let ((one, at), (other, there)) = (side(&race.sides[0]), side(&race.sides[1]));
        let variable = names.variable(race.addr).or_else(|| self.objects.at_end(race.addr));
        let variable = variable.map_or_else(|| "memory".to_owned(), |name| format!("`{name}`"));
        Some(format!("{one} {variable}{at}, {other} it{there}, and nothing orders the two"))
    }

    /// Describes waits that no thread will end.
    fn waits_without_waker(&self, waits: &[waits::DescribedWait]) -> Vec<String> {
        let sentences = |waiting: &waits::DescribedWait| {
            let wait = &waiting.wait;
            let at = waiting.place.file.as_deref().zip(waiting.place.line);
            let at = at.map(|(file, line)| format!(" ({}:{line})", paths::base(file))).unwrap_or_default();
            let reason = match waits::last_wake(self.trace, wait.addr) {
                Some((_, 0)) => ": the signal came when no thread was waiting (a lost wake-up)",
                _ => "",
            };
            let thread_name = describe::id(self.trace, wait.thread);
            format!(
                "thread {thread_name} waits {}{at}{reason}",
                describe::wait(self.trace, &self.objects, wait)
            )
        };
        waits
            .iter()
            .filter(|waiting| waiting.wait.op != Op::Join)
            .map(sentences)
            .take(MAX_PREEMPTIONS)
            .collect()
    }

    /// Describes where a thread was preempted, what happened meanwhile, and what happens without the preemption.
    fn describe_preemption(&self, event: usize, names: &mut dyn Names) -> Vec<Sentence> {
        let trace = self.trace;
        let preempted = trace.events[event - 1].thread;
        let resumed = (event..trace.events.len()).find(|&at| trace.events[at].thread == preempted);
        let thread_name = describe::id(trace, preempted);
        // A thread that never resumed may have been about to wait, in a deadlock.
        let wait = trace.outcome.waits.iter().find(|wait| wait.thread == preempted && resumed.is_none());
        let site = resumed.map(|at| trace.user_site(&trace.events[at])).or(wait.map(|wait| wait.site));
        let place = site.and_then(|site| facts::place(site, names));
        let waits_for = wait.and_then(|wait| Some((wait.op, self.objects.for_op(wait.op, wait.addr)?)));
        let before = match (resumed, waits_for) {
            (Some(at), _) => format!(", before {}", self.pending_operation(at)),
            (None, Some((op, object))) => {
                format!(", before {} `{object}`", gerund(op).unwrap_or("waiting for"))
            }
            (None, None) => " and did not run again".to_owned(),
        };
        let held = self.held(preempted, event);
        let held = if held.is_empty() { String::new() } else { format!(", holding {}", held.join(", ")) };
        let here = if place.is_some() { " here" } else { "" };
        let head = Sentence::head(format!("thread {thread_name} was preempted{here}{before}{held}"));
        let mut sentences = vec![Sentence { event: Some(event), ..head }];
        if let Some((file, line, _)) = &place {
            sentences.push(Sentence::code(file, *line, &names.source_line(file, *line).unwrap_or_default()));
        }
        let changes_while_preempted = self.changes_while_preempted(event, resumed, names);
        sentences.extend(self.stale_read(event, &changes_while_preempted, names).map(Sentence::more));
        for (nth, (_, change)) in changes_while_preempted.iter().enumerate() {
            sentences
                .push(Sentence::more(format!("{} {change}", if nth == 0 { "meanwhile" } else { "then" })));
        }
        if let Some(counterfactual) =
            trace.counterfactuals.iter().find(|counterfactual| counterfactual.event == event as u64)
        {
            sentences.push(Sentence::more(format!(
                "without this preemption, {}",
                outcome_without(counterfactual)
            )));
        }
        sentences
    }

    /// Returns the locks that a thread holds before this event.
    fn held(&self, thread: ThreadIx, event: usize) -> Vec<String> {
        let is_held =
            |hold: &facts::HoldInterval| hold.thread == thread && hold.first < event && hold.last >= event;
        let held = holds(&self.trace.events).into_iter().filter(is_held);
        held.map(|hold| format!("`{}`", self.objects.held(self.trace, hold))).collect()
    }

    /// Returns the changes by other threads, while a thread was preempted, to objects that it was using: the object
    /// and the text.
    fn changes_while_preempted(
        &self,
        event: usize,
        resumed: Option<usize>,
        names: &mut dyn Names,
    ) -> Vec<(UsedThing, String)> {
        let trace = self.trace;
        let preempted = trace.events[event - 1].thread;
        let before = trace.events[..event].iter().rev().take_while(|e| e.thread == preempted);
        let after = resumed.into_iter().map(|at| &trace.events[at]);
        let in_use: Vec<UsedThing> = before.chain(after).filter_map(UsedThing::of).collect();
        let mut sentences: Vec<(bool, UsedThing, String)> = Vec::new();
        let mut places = Vec::new();
        for at in event..resumed.unwrap_or(trace.events.len()) {
            let other = &trace.events[at];
            let Some((verb, changes)) = effect_of(other) else { continue };
            let Some(used) = UsedThing::of(other).filter(|used| in_use.iter().any(|own| own.meets(*used)))
            else {
                continue;
            };
            let place = (other.thread, other.op, used, trace.user_site(other));
            if places.contains(&place) {
                continue;
            }
            places.push(place);
            let value = describe::value(other).unwrap_or_default();
            let at_line = self.at_line(at, names);
            let thread_name = describe::id(trace, other.thread);
            let object = self.objects.at(trace, at);
            sentences.push((
                changes,
                used,
                format!("thread {thread_name} {verb} `{object}`{value}{at_line}"),
            ));
        }
        // If something was changed, reads and lock operations are left out.
        if sentences.iter().any(|(changes, ..)| *changes) {
            sentences.retain(|(changes, ..)| *changes);
        }
        sentences.into_iter().map(|(_, used, change)| (used, change)).take(MAX_CHANGES).collect()
    }

    /// Describes the last value that a preempted thread had read of a variable that others then changed.
    fn stale_read(
        &self,
        event: usize,
        changes_while_preempted: &[(UsedThing, String)],
        names: &mut dyn Names,
    ) -> Option<String> {
        let preempted = self.trace.events[event - 1].thread;
        let at = self.trace.events[..event].iter().rposition(|e| {
            let read = read_by(e).map(|read| UsedThing::Memory(read.range));
            e.thread == preempted
                && read.is_some_and(|read| changes_while_preempted.iter().any(|(used, _)| used.meets(read)))
        })?;
        let value = describe::value(&self.trace.events[at])?;
        let line = self.at_line(at, names);
        Some(format!("it had read `{}`{value}{line}", self.objects.at(self.trace, at)))
    }

    /// Returns the line of an event, like " (account.c:12)".
    fn at_line(&self, number: usize, names: &mut dyn Names) -> String {
        let place = facts::place(self.trace.user_site(&self.trace.events[number]), names);
        place.map(|(file, line, _)| format!(" ({}:{line})", paths::base(&file))).unwrap_or_default()
    }

    /// Describes what each thread of a livelock does again and again; `None` if they only wait for a variable to change.
    fn repeated_round(&self, names: &mut dyn Names) -> Option<Vec<Sentence>> {
        let trace = self.trace;
        if trace.outcome.kind != OutcomeKind::Livelock {
            return None;
        }
        let round = last_round(trace)?;
        if round.clone().all(|at| changes_nothing(&trace.events[at])) {
            return None;
        }
        let mut threads: Vec<ThreadIx> = round.clone().map(|at| trace.events[at].thread).collect();
        threads.sort_unstable();
        threads.dedup();
        let sentences = threads.into_iter().map(|thread| {
            let own = round.clone().filter(|&at| trace.events[at].thread == thread);
            let own: Vec<usize> = own.collect();
            let mut steps: Vec<String> = Vec::new();
            for &at in own.iter().take(MAX_ROUND_STEPS) {
                let line = self.at_line(at, names);
                steps.push(format!("`{}`{line}", describe::event(trace, &self.objects, at)));
            }
            if own.len() > MAX_ROUND_STEPS {
                steps.push(format!("{} more operations", own.len() - MAX_ROUND_STEPS));
            }
            Sentence::head(format!("thread {} repeats {}", describe::id(trace, thread), steps.join(", ")))
        });
        Some(sentences.collect())
    }

    /// Describes the loop that a thread does not leave because nothing changes any more.
    fn endless_loop(&self, names: &mut dyn Names) -> Option<Sentence> {
        let trace = self.trace;
        if trace.outcome.kind != OutcomeKind::Livelock {
            return None;
        }
        let last = trace.events.len().checked_sub(1)?;
        let tail = &trace.events[last.saturating_sub(MAX_LOOP_EVENTS)..];
        // The same location is read repeatedly with the same result.
        let (at, event, read) =
            tail.iter().enumerate().rev().find_map(|(at, event)| Some((at, event, read_by(event)?)))?;
        let again = |e: &&Event| {
            e.thread == event.thread
                && read_by(e).is_some_and(|again| (again.range, again.value) == (read.range, read.value))
        };
        if tail.iter().filter(again).count() < 2 {
            return None;
        }
        let number = trace.events.len() - tail.len() + at;
        let used = UsedThing::Memory(read.range);
        let changed = |e: &Event| {
            UsedThing::of(e).is_some_and(|other| other.meets(used))
                && effect_of(e).is_some_and(|(_, changes)| changes)
        };
        let object = self.objects.at(trace, number);
        let thread_name = describe::id(trace, event.thread);
        let value = describe::value(event)?;
        let line = self.at_line(number, names);
        let last_change = trace.events.iter().rposition(changed).map(|change| {
            let thread_name = describe::id(trace, trace.events[change].thread);
            let value = describe::value(&trace.events[change]).unwrap_or_default();
            format!("; the last to change it was thread {thread_name}{value}{}", self.at_line(change, names))
        });
        let last_change = last_change.unwrap_or_else(|| "; no thread wrote it".to_owned());
        Some(Sentence::head(format!(
            "thread {thread_name} reads `{object}`{value} again and again{line}{last_change}"
        )))
    }

    /// Describes the next operation of a thread.
    fn pending_operation(&self, number: usize) -> String {
        match gerund(self.trace.events[number].op) {
            Some(verb) => format!("{verb} `{}`", self.objects.at(self.trace, number)),
            None => format!("`{}`", describe::event(self.trace, &self.objects, number)),
        }
    }

    /// Explains a failure that needs no preemption.
    fn explain_without_preemptions(&self) -> Vec<String> {
        let trace = self.trace;
        let threads = trace.stats().threads;
        if trace.outcome.kind == OutcomeKind::Deadlock && trace.stats().context_switches == 0 {
            return Vec::new();
        }
        match trace.stats().context_switches {
            _ if threads < 2 => {
                vec!["the failure does not depend on the schedule: one thread is enough".to_owned()]
            }
            0 => vec!["the failure does not depend on the schedule: it needs no context switch".to_owned()],
            _ => {
                let mut order: Vec<String> = Vec::new();
                for segment in trace.schedule().segments {
                    order.push(describe::id(trace, segment.thread));
                }
                let shown =
                    if order.len() > 8 { format!("{} …", order[..8].join(", ")) } else { order.join(", ") };
                vec![format!(
                    "no preemption is needed: each thread runs until it waits or ends, in the order {shown}"
                )]
            }
        }
    }
}

/// Returns the gerund for an operation, if there is a short one.
fn gerund(op: Op) -> Option<&'static str> {
    Some(match op {
        Op::Read | Op::AtomicLoad => "reading",
        Op::Write | Op::AtomicStore => "writing",
        Op::AtomicRmw | Op::AtomicCas => "updating",
        Op::Lock | Op::ReadLock | Op::WriteLock => "locking",
        Op::Unlock | Op::RwUnlock => "unlocking",
        Op::Signal | Op::Broadcast => "signalling",
        Op::CondWait => "waiting on",
        Op::SemWait => "waiting for",
        Op::SemPost => "posting",
        Op::Free => "freeing",
        _ => return None,
    })
}

/// Something that several threads can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UsedThing {
    /// A lock, a condition variable and so on, by its address.
    Object(u64),
    Memory(ByteRange),
}

impl UsedThing {
    fn of(event: &Event) -> Option<Self> {
        let operation = Operation::decode(event);
        operation.bytes().map(Self::Memory).or_else(|| operation.object().map(Self::Object))
    }

    /// Returns whether both are, at least in part, the same.
    fn meets(self, other: Self) -> bool {
        match (self, other) {
            (Self::Object(a), Self::Object(b)) => a == b,
            (Self::Memory(a), Self::Memory(b)) => a.overlaps(b),
            _ => false,
        }
    }
}

/// Returns the access of an event that only reads.
fn read_by(event: &Event) -> Option<Access> {
    let operation = Operation::decode(event);
    let access = operation.access()?;
    matches!(access.kind, AccessKind::Read | AccessKind::Load).then_some(*access)
}

/// Returns the verb for an event that other threads can observe, and whether its effect is permanent.
fn effect_of(event: &Event) -> Option<(&'static str, bool)> {
    if !succeeded(event) {
        return None;
    }
    Some(match Operation::decode(event) {
        Operation::Memory(MemoryOp::Access(access)) => match access.kind {
            AccessKind::Read | AccessKind::Load => ("read", false),
            AccessKind::Write | AccessKind::Store => ("wrote", true),
            AccessKind::Update | AccessKind::CompareExchange => ("updated", true),
        },
        Operation::Memory(MemoryOp::Free(_)) => ("freed", true),
        Operation::Mutex(MutexOp::Lock { attempt: false, .. })
        | Operation::RwLock(RwLockOp::Lock { attempt: false, .. }) => ("locked", false),
        Operation::Mutex(MutexOp::Destroy { .. })
        | Operation::RwLock(RwLockOp::Destroy { .. })
        | Operation::Cond(CondOp::Destroy { .. })
        | Operation::Semaphore(SemaphoreOp::Destroy { .. }) => ("destroyed", true),
        Operation::Cond(CondOp::Signal { .. }) => ("signalled", true),
        Operation::Semaphore(SemaphoreOp::Post { .. }) => ("posted", true),
        Operation::Semaphore(SemaphoreOp::Wait { attempt: false, .. }) => ("took", true),
        _ => return None,
    })
}

/// Returns the events that are repeated at the end of a run: the shortest sequence that occurs there twice, by all threads
/// that repeat it. A simplified livelock has only two rounds.
fn last_round(trace: &Trace) -> Option<Range<usize>> {
    const TIMES: usize = 2;
    let events = &trace.events;
    let threads = &trace.outcome.backtraces;
    let key = |event: &Event| {
        let operation = Operation::decode(event);
        let on = operation.object().or_else(|| operation.bytes().map(|bytes| bytes.first));
        (event.thread, event.op, event.site, on, succeeded(event))
    };
    let repeats = |length: usize| {
        events.len().checked_sub(length * TIMES).is_some_and(|first| {
            (first + length..events.len()).all(|at| key(&events[at]) == key(&events[at - length]))
        })
    };
    let has_all = |length: usize| {
        let round = &events[events.len() - length..];
        threads.iter().all(|stack| round.iter().any(|event| event.thread == stack.thread))
    };
    let length = (1..=MAX_ROUND).find(|&length| repeats(length) && has_all(length))?;
    Some(events.len() - length..events.len())
}

/// Returns whether an event of a waiting loop only looks, or yields.
fn changes_nothing(event: &Event) -> bool {
    matches!(event.op, Op::AtomicLoad | Op::Read | Op::Yield | Op::Sleep | Op::SemGet | Op::Fence | Op::Point)
}
