//! Execution reduction: determines which threads and segments of a run can have influenced the failure, so
//! that the run can be traced again without the rest.
//!
//! After section 3.3 of the paper (and the execution reduction that it builds on): a graph of segments, the
//! paper's thread execution intervals. There is an edge if one segment reads memory that another wrote,
//! continues an earlier segment of the same thread, or started or joined the other's thread. Segments that
//! cannot be reached from the criterion's segment had no influence. Segments of other threads that raced with
//! the remaining ones are kept too, because the slice reports them; nothing is followed from these.
//!
//! Since a segment needs all earlier ones of its thread, a prefix of each thread remains: tracing is switched
//! off at some point and never resumes.
//!
//! Deviations: the graph is computed from an instruction trace of the whole run, not from a lighter one.
//! Locks, conditions and similar objects order segments but pass no values: replay keeps the order, so they
//! are no edges.

use crate::{
    ByteSpan, Flow, History, InstructionStep, OrderingInput,
    hash::Hashed,
    race::{Clocks, OrderedBy},
};
use std::collections::{BTreeMap, BTreeSet};
use unsnarl_model::ThreadIx;
use unsnarl_race::Epoch;

/// The size of a run, or of a part of it: a row of the paper's table 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The number of threads.
    pub threads: u64,
    /// The number of segments.
    pub segments: u64,
    /// The number of steps.
    pub steps: u64,
}

/// The whole run, and the part that can have influenced the criterion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// The size of the whole run.
    pub before: Extent,
    /// The size of the remaining part.
    pub after: Extent,
    /// The remaining threads.
    pub until: BTreeMap<ThreadIx, ThreadExtent>,
}

/// The remaining part of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadExtent {
    /// The number of its steps.
    pub steps: u64,
    /// The number of schedule events at the last of them.
    pub events: u64,
}

#[derive(Debug)]
struct StepSegment {
    thread: ThreadIx,
    first: u64,
    steps: u64,
    /// The number of events at its last step.
    events: u64,
    needs: BTreeSet<u32>,
    previous: Option<u32>,
}

/// Returns the part of a run that can have influenced the steps of this criterion.
pub fn reduce(history: &dyn History, ordering: OrderingInput<'_>, criterion: &[u64]) -> Reduction {
    let segments = segments(history);
    let mut worklist: Vec<u32> = Vec::new();
    for step in criterion {
        let at = segments.partition_point(|segment| segment.first <= *step);
        worklist.extend(at.checked_sub(1).map(|at| at as u32));
    }
    let mut kept = BTreeSet::new();
    while let Some(segment) = worklist.pop() {
        if kept.insert(segment) {
            worklist.extend(&segments[segment as usize].needs);
        }
    }
    for mut segment in racing_segments(history, ordering, &kept) {
        while kept.insert(segment)
            && let Some(previous) = segments[segment as usize].previous
        {
            segment = previous;
        }
    }
    let mut until: BTreeMap<ThreadIx, ThreadExtent> = BTreeMap::new();
    for segment in kept.iter().map(|&segment| &segments[segment as usize]) {
        let until = until.entry(segment.thread).or_default();
        until.steps += segment.steps;
        until.events = segment.events;
    }
    let extent = |chosen: &mut dyn Iterator<Item = &StepSegment>| {
        let mut threads = BTreeSet::new();
        let mut extent = Extent::default();
        for segment in chosen {
            threads.insert(segment.thread);
            extent.segments += 1;
            extent.steps += segment.steps;
        }
        extent.threads = threads.len() as u64;
        extent
    };
    let before = extent(&mut segments.iter());
    let after = extent(&mut kept.iter().map(|&segment| &segments[segment as usize]));
    Reduction { before, after, until }
}

/// Returns the granules of these spans, except for implausibly large ones.
fn granules<'a>(spans: impl Iterator<Item = &'a ByteSpan>) -> impl Iterator<Item = u64> {
    spans.filter(|span| span.len <= 1 << 28).flat_map(|span| span.granules()).map(|(granule, _)| granule)
}

/// Counts segments while steps are processed.
#[derive(Default)]
struct SegmentCounter {
    thread: Option<ThreadIx>,
    number: u32,
}

impl SegmentCounter {
    /// Returns the number of the step's segment, and whether it begins there.
    fn of(&mut self, step: &InstructionStep<'_>) -> (u32, bool) {
        let begins = self.thread != Some(step.thread);
        if begins && self.thread.is_some() {
            self.number += 1;
        }
        self.thread = Some(step.thread);
        (self.number, begins)
    }
}

/// Returns the segments of a run, each with those that it needs.
fn segments(history: &dyn History) -> Vec<StepSegment> {
    let mut segments: Vec<StepSegment> = Vec::new();
    let mut latest: BTreeMap<ThreadIx, u32> = BTreeMap::new();
    let mut writers: Hashed<u64, u32> = Hashed::default();
    let mut count = SegmentCounter::default();
    history.forwards(&mut |step| {
        let (number, begins) = count.of(step);
        if begins {
            let previous = latest.insert(step.thread, number);
            let needs = previous.into_iter().collect();
            let (thread, first) = (step.thread, step.number);
            segments.push(StepSegment { thread, first, steps: 0, events: 0, needs, previous });
        }
        if let Flow::Begin(Some(by)) = step.flow {
            let at = segments.partition_point(|segment| segment.first <= by) as u32;
            segments[number as usize].needs.extend(at.checked_sub(1).filter(|at| *at != number));
        }
        let segment = &mut segments[number as usize];
        segment.steps += 1;
        segment.events = step.events;
        for granule in granules(step.reads.iter()) {
            segment.needs.extend(writers.get(&granule).filter(|writer| **writer != number));
        }
        for granule in granules(step.writes.iter().chain(step.may_write)) {
            writers.insert(granule, number);
        }
    });
    segments
}

/// The latest accesses of a thread to a granule.
#[derive(Clone, Copy, Debug)]
struct Accesses {
    thread: ThreadIx,
    /// The segment and the thread's own time.
    wrote: Option<(u32, u32)>,
    /// By a remaining segment.
    read: Option<u32>,
}

/// Returns the segments with accesses that are unordered with those of the remaining ones: writes before
/// their writes, and after their reads.
fn racing_segments(
    history: &dyn History,
    ordering: OrderingInput<'_>,
    kept: &BTreeSet<u32>,
) -> BTreeSet<u32> {
    let mut racing_segments = BTreeSet::new();
    if history.threads() < 2 {
        return racing_segments;
    }
    let mut memory: Hashed<u64, (Accesses, Vec<Accesses>)> = Hashed::default();
    let mut clocks = Clocks::new(ordering);
    let mut count = SegmentCounter::default();
    // Looked up once per segment.
    let mut is_kept = false;
    history.forwards(&mut |step| {
        let (number, begins) = count.of(step);
        if begins {
            is_kept = kept.contains(&number);
        }
        clocks.advance(step);
        let now = clocks.now(step.thread).time;
        let thread = step.thread;
        let none = Accesses { thread, wrote: None, read: None };
        if is_kept {
            for granule in granules(step.reads.iter()) {
                let (first, others) = memory.entry(granule).or_insert((none, Vec::new()));
                own_accesses(first, others, none).read = Some(now);
            }
        }
        for granule in granules(step.writes.iter().chain(step.may_write)) {
            let (first, others) = memory.entry(granule).or_insert((none, Vec::new()));
            let unordered = |thread: ThreadIx, time: u32| {
                clocks.ordered(Epoch { thread, time }, step.thread) != OrderedBy::Yes
                    && !clocks.are_different_stacks(granule * 8, thread, step.thread)
            };
            for other in std::iter::once(&*first).chain(&*others).filter(|other| other.thread != thread) {
                if let Some((segment, time)) = other.wrote
                    && is_kept
                    && !kept.contains(&segment)
                    && unordered(other.thread, time)
                {
                    racing_segments.insert(segment);
                }
                if let Some(time) = other.read
                    && !is_kept
                    && unordered(other.thread, time)
                {
                    racing_segments.insert(number);
                }
            }
            own_accesses(first, others, none).wrote = Some((number, now));
        }
    });
    racing_segments
}

/// Returns the thread's own accesses.
fn own_accesses<'a>(
    first: &'a mut Accesses,
    others: &'a mut Vec<Accesses>,
    none: Accesses,
) -> &'a mut Accesses {
    if first.thread == none.thread {
        return first;
    }
    let at = others.iter().position(|other| other.thread == none.thread).unwrap_or_else(|| {
        others.push(none);
        others.len() - 1
    });
    &mut others[at]
}

/// Returns the position of steps in their threads: the thread, and the number of its earlier steps. Unlike
/// step numbers, this is the same in a reduced trace.
#[must_use]
pub fn ranks(history: &dyn History, steps: &[u64]) -> Vec<(ThreadIx, u64)> {
    let mut ranks = vec![(ThreadIx::MAIN, 0); steps.len()];
    each_rank(history, &mut |step, rank| {
        for (found, _) in ranks.iter_mut().zip(steps).filter(|(_, wanted)| **wanted == step.number) {
            *found = (step.thread, rank);
        }
    });
    ranks
}

/// Returns the steps at these positions; `None` if one of them is missing.
#[must_use]
pub fn resolve_ranks(history: &dyn History, ranks: &[(ThreadIx, u64)]) -> Option<Vec<u64>> {
    let mut steps = vec![None; ranks.len()];
    each_rank(history, &mut |step, rank| {
        for (found, _) in steps.iter_mut().zip(ranks).filter(|(_, wanted)| **wanted == (step.thread, rank)) {
            *found = Some(step.number);
        }
    });
    steps.into_iter().collect()
}

fn each_rank(history: &dyn History, visit: &mut dyn FnMut(&InstructionStep<'_>, u64)) {
    let mut so_far: Vec<u64> = Vec::new();
    history.forwards(&mut |step| {
        if so_far.len() <= step.thread.index() {
            so_far.resize(step.thread.index() + 1, 0);
        }
        let rank = &mut so_far[step.thread.index()];
        visit(step, *rank);
        *rank += 1;
    });
}
