//! Explains a failure in a few sentences: the pattern of the bug, wait cycles, where threads were preempted, and what
//! would have happened otherwise.

use crate::{
    Names, RenderOptions, describe,
    facts::{self, holds},
    line::{Style, cut, paint, wrapped},
    narrator::Narrator,
    objects::ObjectNames,
    paths,
    patterns::{self, Pattern},
    scene::Scene,
    story::Story,
    used_thing::{UsedThing, effect_of, read_by},
    waits,
};
use serde_json::{Value, json};
use std::{collections::HashSet, fmt::Write, ops::Range};
use unsnarl_model::{Event, Op, OutcomeKind, Side, ThreadIx, Trace};
use unsnarl_semantics::{Operation, succeeded};

/// Preemptions that are described in full; the interleaving shows the others.
const MAX_PREEMPTIONS: usize = 3;
/// Waits that are described; the others are counted.
const MAX_WAITS: usize = 6;
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
    /// The step that it is about, if it is about one.
    pub(crate) about: Option<StepFact>,
}

/// The step that a sentence is about, as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepFact {
    pub(crate) thread: String,
    /// The number of the event; `None` for an access that is no event, or that was not executed.
    pub(crate) event: Option<usize>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) object: Option<String>,
    pub(crate) value: Option<String>,
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
    pub(crate) fn head(text: String) -> Self {
        Self { rank: Rank::Head, text, event: None, about: None }
    }

    pub(crate) fn code(file: &str, line: u32, source: &str) -> Self {
        let text = format!("{}:{line} │ {}", paths::base(file), source.trim());
        Self { rank: Rank::Code, text, event: None, about: None }
    }

    pub(crate) fn more(text: String) -> Self {
        Self { rank: Rank::More, text, event: None, about: None }
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
    explain(trace, names).sentences
}

/// Returns the explanation of the failure as JSON: the name of the pattern, the facts, and what prevents the failure.
/// Names are null, and lists empty, where nothing is known.
#[must_use]
pub fn cause_json(trace: &Trace, names: &mut dyn Names) -> Value {
    let Explanation { pattern, sentences } = explain(trace, names);
    let fact = |sentence: &Sentence| {
        let about = sentence.about.as_ref();
        json!({
            "text": sentence.text,
            "thread": about.map(|about| &about.thread),
            "event": about.map_or(sentence.event, |about| about.event),
            "file": about.and_then(|about| about.file.as_ref()),
            "line": about.and_then(|about| about.line),
            "object": about.and_then(|about| about.object.as_ref()),
            "value": about.and_then(|about| about.value.as_ref()),
        })
    };
    let facts: Vec<Value> =
        sentences.iter().filter(|sentence| sentence.rank != Rank::Code).map(fact).collect();
    // The sentence about the run without the preemption.
    let ends_normally = |sentence: &&Sentence| {
        sentence.rank == Rank::More && sentence.text.ends_with(", the program ends normally")
    };
    let prevented_by = sentences.iter().find(ends_normally).map(|sentence| &sentence.text);
    json!({ "pattern": pattern.map(Pattern::name), "facts": facts, "prevented_by": prevented_by })
}

/// The explanation of a failure.
#[derive(Default)]
struct Explanation {
    pattern: Option<Pattern>,
    sentences: Vec<Sentence>,
}

fn explain(trace: &Trace, names: &mut dyn Names) -> Explanation {
    if !trace.outcome.is_failure() {
        return Explanation::default();
    }
    let writer = CauseWriter { trace, objects: ObjectNames::of(trace, names) };
    let story = Story::of(trace);
    let scene = Scene::new(&story, names);
    let finding = patterns::find(&scene);
    let narrator = Narrator::new(&scene, finding.as_ref(), names);
    let mut sentences: Vec<Sentence> = narrator.pattern(names);
    sentences.extend(writer.wait_cycle(names));
    sentences.extend(writer.race(names).map(Sentence::head));
    sentences.extend(
        writer.repeated_round(names).unwrap_or_else(|| writer.endless_loop(names).into_iter().collect()),
    );
    let preemptions = narrator.preemptions();
    let gap_shown = narrator.gap_of_pattern();
    let others: Vec<usize> = preemptions.iter().copied().filter(|at| Some(*at) != gap_shown).collect();
    for &at in others.iter().take(MAX_PREEMPTIONS) {
        sentences.extend(narrator.describe_preemption(at, names));
    }
    let more = others.len().saturating_sub(MAX_PREEMPTIONS);
    if more > 0 {
        sentences.push(Sentence::head(format!(
            "{} more {} below",
            more,
            if more == 1 { "preemption is marked" } else { "preemptions are marked" }
        )));
    }
    if preemptions.is_empty() && finding.is_none() {
        sentences.extend(writer.explain_without_preemptions().into_iter().map(Sentence::head));
    }
    Explanation { pattern: finding.map(|finding| finding.pattern), sentences }
}

/// The steps that explain a failure.
#[derive(Default)]
pub(crate) struct DecisiveSteps {
    /// Those that the explanation names, and the reads of shared memory at the line that failed.
    pub(crate) named: HashSet<usize>,
    /// Others on the same memory.
    pub(crate) related: HashSet<usize>,
}

/// Returns the steps that explain the failure.
pub(crate) fn decisive_steps(story: &Story, names: &mut dyn Names) -> DecisiveSteps {
    if !story.trace.outcome.is_failure() {
        return DecisiveSteps::default();
    }
    let scene = Scene::new(story, names);
    let facts = patterns::find(&scene).into_iter().flat_map(|finding| finding.facts);
    let named: HashSet<usize> = facts.map(|fact| fact.step).chain(scene.failing.iter().copied()).collect();
    let is_about = |&step: &usize| named.iter().any(|&about| story.meet(about, step));
    let related = (0..story.end).filter(is_about).collect();
    DecisiveSteps { named, related }
}

struct CauseWriter<'a> {
    trace: &'a Trace,
    objects: ObjectNames,
}

impl CauseWriter<'_> {
    /// Describes what each thread of a deadlock's cycle holds and waits for.
    fn wait_cycle(&self, names: &mut dyn Names) -> Vec<Sentence> {
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
        let lines: Vec<Option<Sentence>> = cycle.clone().map(|waiting| line_of(waiting, names)).collect();
        let sentences = named_and_counted(cycle.map(sentences).collect());
        if sentences.is_empty() {
            return self.waits_without_waker(&waits).into_iter().map(Sentence::head).collect();
        }
        let lines = lines.into_iter().chain(std::iter::repeat(None));
        let with_lines = sentences.into_iter().map(Sentence::head).zip(lines);
        with_lines.flat_map(|(sentence, line)| [Some(sentence), line].into_iter().flatten()).collect()
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
                Some((_, 0)) => "; the last signal came when no thread was waiting",
                Some(_) => "",
                None if waits::is_woken_by_signal(wait) => "; no thread has signalled",
                None => "",
            };
            let thread_name = describe::id(self.trace, wait.thread);
            format!(
                "thread {thread_name} waits {}{at}{reason}",
                describe::wait(self.trace, &self.objects, wait)
            )
        };
        let waiting = waits.iter().filter(|waiting| waiting.wait.op != Op::Join);
        named_and_counted(waiting.map(sentences).collect())
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

/// Returns the source line at which a thread waits.
fn line_of(waiting: &waits::DescribedWait, names: &mut dyn Names) -> Option<Sentence> {
    let (file, line) = (waiting.place.file.as_deref()?, waiting.place.line?);
    let source = names.source_line(file, line).filter(|_| !waiting.place.system)?;
    Some(Sentence::code(file, line, &source))
}

/// Returns the first sentences, and how many threads the others are about.
fn named_and_counted(mut sentences: Vec<String>) -> Vec<String> {
    let more = sentences.len().saturating_sub(MAX_WAITS);
    if more > 0 {
        sentences.truncate(MAX_WAITS);
        sentences.push(format!(
            "{more} more {} below",
            if more == 1 { "thread waits, see" } else { "threads wait, see" }
        ));
    }
    sentences
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
