//! The run as a reader follows it: its events and, between them, the plain accesses that were no schedule points.

use std::{collections::HashMap, ops::Range};
use unsnarl_model::{Event, Flags, LoggedAccess, ThreadIx, Trace};
use unsnarl_semantics::{Access, AccessKind, MemoryOp, Operation};

/// The steps of a run: events and accesses in the order of execution, then what preempted threads would have executed.
pub(crate) struct Story {
    /// The trace with the steps in place of its events. Wakers, warnings and counterfactuals refer to steps.
    pub(crate) trace: Trace,
    /// The number of steps that were executed; those behind it were not.
    pub(crate) end: usize,
    /// For each step its number as an event, if it is one.
    numbers: Vec<Option<usize>>,
    /// For each step the value that it left in memory, as far as it is known.
    left: Vec<Option<u64>>,
    /// For each step the value that it found in memory, as far as it is known.
    found: Vec<Option<u64>>,
    /// The step that preempted a thread for good, and the thread's next steps.
    continuations: Vec<(usize, Range<usize>)>,
    /// No accesses are missing, so that a variable without a write was not written.
    is_complete: bool,
    /// The executed accesses by the words that they touch, in order.
    by_word: HashMap<u64, Vec<usize>>,
    /// The executed allocations, in order.
    allocations: Vec<usize>,
}

/// Number of accesses to the same memory that are looked at for one answer.
const MOST: usize = 1 << 12;
/// Only the first words of a large access are looked at.
const WORDS: u64 = 64;

impl Story {
    pub(crate) fn of(trace: &Trace) -> Self {
        let accesses: &[LoggedAccess] = if fits(trace) { &trace.accesses } else { &[] };
        let mut steps: Vec<Event> = Vec::with_capacity(trace.events.len() + accesses.len());
        let mut numbers = Vec::with_capacity(steps.capacity());
        let mut written: Vec<Option<u64>> = Vec::with_capacity(steps.capacity());
        let mut of_event = Vec::with_capacity(trace.events.len() + 1);
        let mut logged = accesses.iter().peekable();
        for (number, event) in trace.events.iter().enumerate() {
            while let Some(access) =
                logged.next_if(|access| access.events_before <= number as u64 && !access.is_event)
            {
                steps.push(access.access);
                numbers.push(None);
                written.push(access.written);
            }
            let own = logged.next_if(|access| access.is_event && access.events_before == number as u64);
            of_event.push(steps.len());
            steps.push(*event);
            numbers.push(Some(number));
            written.push(own.and_then(|access| access.written));
        }
        for access in logged.filter(|access| !access.is_event) {
            steps.push(access.access);
            numbers.push(None);
            written.push(access.written);
        }
        let end = steps.len();
        of_event.push(end);
        let step_of = |event: u64| of_event[usize::try_from(event).unwrap_or(end).min(trace.events.len())];
        let mut continuations = Vec::new();
        for continuation in if fits(trace) { trace.continuations.as_slice() } else { &[] } {
            let first = steps.len();
            // An event that would have woken the thread is not in this run.
            steps.extend(continuation.steps.iter().map(|step| match step.access.op.has_waker() {
                true => step.access.with_waker(None),
                false => step.access,
            }));
            numbers.extend(continuation.steps.iter().map(|_| None));
            written.extend(continuation.steps.iter().map(|step| step.written));
            continuations.push((step_of(continuation.event), first..steps.len()));
        }
        for step in &mut steps[..end] {
            if let Some(waker) = step.waker() {
                *step = step.with_waker(Some(step_of(waker) as u64));
            }
        }
        let mut warnings = trace.warnings.clone();
        warnings.iter_mut().for_each(|warning| warning.at = step_of(warning.at) as u64);
        let mut counterfactuals = trace.counterfactuals.clone();
        counterfactuals.iter_mut().for_each(|without| without.event = step_of(without.event) as u64);
        let (found, left) = values(&steps, &written, end);
        let header = Trace { events: Vec::new(), accesses: Vec::new(), ..without_events(trace) };
        let (by_word, allocations) = index(&steps[..end]);
        let is_complete = trace.accesses_since == 0;
        let trace = Trace { events: steps, warnings, counterfactuals, ..header };
        Self { trace, end, numbers, left, found, continuations, is_complete, by_word, allocations }
    }

    /// Returns the story of some of the executed steps.
    pub(crate) fn select(&self, is_selected: impl Fn(usize) -> bool) -> Self {
        let selected: Vec<usize> = (0..self.end).filter(|&step| is_selected(step)).collect();
        // The first selected step that is not before this one.
        let place = |step: u64| selected.partition_point(|&other| (other as u64) < step) as u64;
        let trace = &self.trace;
        let moved = |&step: &usize| {
            let event = trace.events[step];
            event.waker().map_or(event, |waker| event.with_waker(Some(place(waker))))
        };
        let mut warnings = trace.warnings.clone();
        warnings.iter_mut().for_each(|warning| warning.at = place(warning.at));
        let mut counterfactuals = trace.counterfactuals.clone();
        counterfactuals.iter_mut().for_each(|without| without.event = place(without.event));
        let events = selected.iter().map(moved).collect();
        Self {
            trace: Trace { events, warnings, counterfactuals, ..without_events(trace) },
            end: selected.len(),
            numbers: selected.iter().map(|&step| self.numbers[step]).collect(),
            left: selected.iter().map(|&step| self.left[step]).collect(),
            found: selected.iter().map(|&step| self.found[step]).collect(),
            continuations: Vec::new(),
            is_complete: false,
            by_word: HashMap::new(),
            allocations: Vec::new(),
        }
    }

    /// Returns the executed accesses among these steps to bytes that a step accesses, the latest first.
    pub(crate) fn meeting(&self, step: usize, among: Range<usize>) -> Vec<usize> {
        let Some(access) = self.access(step) else { return Vec::new() };
        let mut all: Vec<usize> = Vec::new();
        for word in words(&access) {
            let Some(steps) = self.by_word.get(&word) else { continue };
            let (from, to) =
                [among.start, among.end].map(|at| steps.partition_point(|&step| step < at)).into();
            let latest = steps[from..to].iter().rev().take(MOST);
            all.extend(latest.copied().filter(|&other| self.meet(other, step)));
        }
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.dedup();
        all
    }

    /// Returns the steps that were executed.
    pub(crate) fn executed(&self) -> &[Event] {
        &self.trace.events[..self.end]
    }

    pub(crate) fn thread(&self, step: usize) -> ThreadIx {
        self.trace.events[step].thread
    }

    /// Returns the step's number as an event, if it is one.
    pub(crate) fn number(&self, step: usize) -> Option<usize> {
        self.numbers[step]
    }

    /// Returns the memory access that a step is.
    pub(crate) fn access(&self, step: usize) -> Option<Access> {
        access_of(&self.trace.events[step])
    }

    /// Returns the access if it depends on what it finds.
    pub(crate) fn read(&self, step: usize) -> Option<Access> {
        self.access(step).filter(|access| access.reads)
    }

    /// Returns the access if it changes memory.
    pub(crate) fn write(&self, step: usize) -> Option<Access> {
        self.access(step).filter(|access| access.writes)
    }

    /// Returns the value that an access found.
    pub(crate) fn value_found(&self, step: usize) -> Option<u64> {
        self.found[step]
    }

    /// Returns the value that an access left.
    pub(crate) fn value_left(&self, step: usize) -> Option<u64> {
        self.left[step]
    }

    /// Returns whether a write is known to have left another value than it found.
    pub(crate) fn changes(&self, step: usize) -> bool {
        self.found[step].zip(self.left[step]).is_none_or(|(found, left)| found != left)
    }

    /// Returns whether both accesses are to some common bytes.
    pub(crate) fn meet(&self, one: usize, other: usize) -> bool {
        let ranges = self.access(one).zip(self.access(other));
        ranges.is_some_and(|(one, other)| one.range.overlaps(other.range))
    }

    /// Returns the last executed write before a step to the bytes that it accesses.
    pub(crate) fn last_write_before(&self, step: usize) -> Option<usize> {
        let first = self.access(step)?.range.first;
        let before = self.meeting(step, 0..step.min(self.end));
        let last = before.into_iter().find(|&at| self.write(at).is_some())?;
        let from = self.allocations.partition_point(|&at| at < last);
        let mut since = self.allocations[from..].iter().take_while(|&&at| at < step);
        (!since.any(|&at| self.renews(at, first))).then_some(last)
    }

    /// Returns whether nobody had written the bytes that a step accesses.
    pub(crate) fn is_unwritten(&self, step: usize) -> bool {
        self.is_complete && self.last_write_before(step).is_none()
    }

    /// Returns whether a step allocates the memory at this address, so that earlier accesses were to other memory.
    fn renews(&self, step: usize, addr: u64) -> bool {
        matches!(Operation::decode(&self.trace.events[step]),
            Operation::Memory(MemoryOp::Alloc(block)) if block.first <= addr && addr < block.end())
    }

    /// Returns the steps that a thread preempted at this step would have executed next, had it not been preempted.
    pub(crate) fn continuation(&self, preempting: usize) -> Range<usize> {
        let known = self.continuations.iter().find(|(at, _)| *at == preempting);
        known.map_or(self.end..self.end, |(_, steps)| steps.clone())
    }

    /// Returns all gaps in the execution of a thread, in order.
    pub(crate) fn gaps(&self) -> Vec<Gap> {
        let steps = self.executed();
        let mut gaps = Vec::new();
        let mut next: HashMap<ThreadIx, usize> = HashMap::new();
        for at in (1..steps.len()).rev() {
            next.insert(steps[at].thread, at);
            let thread = steps[at - 1].thread;
            if steps[at].thread != thread {
                let (resumed, preemptive) =
                    (next.get(&thread).copied(), steps[at].flags.has(Flags::PREEMPTS));
                gaps.push(Gap { at, thread, resumed, preemptive });
            }
        }
        gaps.reverse();
        gaps
    }

    /// Returns the last executed steps of a thread before a step, the latest first.
    pub(crate) fn before(&self, thread: ThreadIx, step: usize) -> impl Iterator<Item = usize> + '_ {
        (0..step.min(self.end)).rev().filter(move |&at| self.thread(at) == thread)
    }

    /// Returns the thread's steps after a gap: those that it executed, or else those that it would have executed.
    pub(crate) fn after(&self, gap: &Gap) -> impl Iterator<Item = usize> + '_ {
        let steps = match gap.resumed {
            Some(resumed) => resumed..self.end,
            None => self.continuation(gap.at),
        };
        let thread = gap.thread;
        steps.filter(move |&at| self.thread(at) == thread)
    }

    /// Returns the steps of other threads during a gap.
    pub(crate) fn meanwhile(&self, gap: &Gap) -> Range<usize> {
        gap.at..gap.resumed.unwrap_or(self.end)
    }
}

/// A gap in the execution of a thread: other threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The first step of another thread.
    pub(crate) at: usize,
    pub(crate) thread: ThreadIx,
    /// The thread's next step, if it ran again.
    pub(crate) resumed: Option<usize>,
    /// The thread could have continued.
    pub(crate) preemptive: bool,
}

fn access_of(event: &Event) -> Option<Access> {
    Operation::decode(event).access().copied()
}

/// Returns the words that an access touches.
fn words(access: &Access) -> Range<u64> {
    let first = access.range.first / 8;
    first..(access.range.end().div_ceil(8)).min(first + WORDS)
}

/// Returns the accesses by the words that they touch, and the allocations.
fn index(steps: &[Event]) -> (HashMap<u64, Vec<usize>>, Vec<usize>) {
    let mut by_word: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut allocations = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        match Operation::decode(step) {
            Operation::Memory(MemoryOp::Access(access)) => {
                words(&access).for_each(|word| by_word.entry(word).or_default().push(at));
            }
            Operation::Memory(MemoryOp::Alloc(_)) => allocations.push(at),
            _ => {}
        }
    }
    (by_word, allocations)
}

/// Returns whether the accesses belong to these events. Another order of the events has other accesses.
fn fits(trace: &Trace) -> bool {
    trace.accesses.iter().filter(|logged| logged.is_event).all(|logged| {
        let event = usize::try_from(logged.events_before).ok().and_then(|number| trace.events.get(number));
        let bytes = |event: &Event| Operation::decode(event).bytes().map(|bytes| bytes.first);
        event.is_some_and(|event| {
            (event.thread, event.op, bytes(event))
                == (logged.access.thread, logged.access.op, bytes(&logged.access))
        })
    })
}

/// Returns a copy of everything but the events and the accesses.
fn without_events(trace: &Trace) -> Trace {
    Trace {
        program: trace.program.clone(),
        modules: trace.modules.clone(),
        plan: trace.plan.clone(),
        threads: trace.threads.clone(),
        sites: trace.sites.clone(),
        callers: trace.callers.clone(),
        outcome: trace.outcome.clone(),
        program_warnings: trace.program_warnings.clone(),
        native: trace.native,
        races: trace.races.clone(),
        names: trace.names.clone(),
        output: trace.output.clone(),
        ..Trace::default()
    }
}

/// Returns for each step the value that it found in memory, and the one that it left.
fn values(steps: &[Event], written: &[Option<u64>], end: usize) -> (Vec<Option<u64>>, Vec<Option<u64>>) {
    // By first address: the size and the value.
    let mut contents: HashMap<u64, (u64, u64)> = HashMap::new();
    let (mut all_found, mut all_left) = (Vec::with_capacity(steps.len()), Vec::with_capacity(steps.len()));
    for (at, step) in steps.iter().enumerate() {
        let (mut found, mut left) = (None, None);
        if let Some(access) = access_of(step).filter(|access| access.range.len <= 8) {
            let (first, size) = (access.range.first, access.range.len);
            let known = contents.get(&first).filter(|(len, _)| *len == size).map(|&(_, value)| value);
            let value = access.value.number();
            (found, left) = match access.kind {
                AccessKind::Read | AccessKind::Load => (Some(value), None),
                AccessKind::Write => (Some(value), written[at]),
                AccessKind::CompareExchange if !access.writes => (Some(value), None),
                AccessKind::Store | AccessKind::Update | AccessKind::CompareExchange => (known, Some(value)),
            };
            // Steps that were not executed change nothing for those that were.
            if at < end {
                if access.writes {
                    // No value is longer than a word.
                    for near in first.saturating_sub(7)..access.range.end() {
                        if contents.get(&near).is_some_and(|(len, _)| near + len > first) {
                            contents.remove(&near);
                        }
                    }
                }
                if let Some(now) = left.or(found.filter(|_| !access.writes)) {
                    contents.insert(first, (size, now));
                }
            }
        }
        all_found.push(found);
        all_left.push(left);
    }
    (all_found, all_left)
}
