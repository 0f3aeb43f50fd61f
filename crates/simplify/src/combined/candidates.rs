//! Candidates: schedules that are worth a run.

use crate::{
    Cost,
    dynamic::{
        Transformation,
        segment_order::{Piece, SegmentOrder},
    },
    static_order::{Rules, feasibility::first_impossible, reorder::moved_events},
};
use std::collections::{HashMap, HashSet};
use unsnarl_model::{Flags, Op, ThreadId, ThreadIx, Trace};
use unsnarl_semantics::{AccessMode, ByteRange, SharedObject, Touch, dependence::Relation};

/// An order of some of a trace's events.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// The change to the schedule, in a form that is recognised in other traces.
    pub(super) change: Change,
    /// The events, by their numbers in the trace.
    pub(super) order: Vec<usize>,
    /// Positions in the order after which the thread continues until it blocks.
    pub(super) run_on: Vec<usize>,
    /// The transformation that produced the candidate.
    pub(super) transformation: Transformation,
    /// True if the order is feasible as it stands, provided nothing else changes.
    possible: bool,
    /// The number of dependences it breaks.
    broken: usize,
}

/// A change of a schedule: the transformation, the thread and the event of that thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Change {
    transformation: Transformation,
    thread: ThreadId,
    nth: usize,
    /// The number of events moved, if it makes a difference.
    count: usize,
}

/// Returns candidates that request fewer context switches than the trace has, the most promising first. It
/// calls `check_interrupt` now and then.
pub(super) fn fewer_switches<E>(
    trace: &Trace,
    suffix: Option<usize>,
    check_interrupt: &dyn Fn() -> Result<(), E>,
) -> Result<Vec<Candidate>, E> {
    let segments = SegmentOrder::of(&trace.events);
    let switches = segments.switches();
    let conflicts = ConflictPairs::of(trace);
    let mut candidates = Vec::new();
    let mut add = |candidate: Option<SegmentOrder>, transformation, piece: usize| {
        let Some(candidate) = candidate.filter(|candidate| candidate.switches() < switches) else { return };
        let order = candidate.order();
        let reordered = moved_events(trace, &order);
        let impossible = first_impossible(&reordered, &trace.events).map(|at| reordered[at].op);
        // Another thread may send the wake-up in its place, but no other thread ends or releases a lock in
        // its place.
        let others_may_help = transformation == Transformation::RemoveLast
            && matches!(impossible, Some(Op::SemWait | Op::CondWake | Op::FutexWoken | Op::BarrierLeave));
        if impossible.is_none() || others_may_help {
            candidates.push(Candidate {
                change: change(trace, transformation, segments.pieces[piece].from, 0),
                broken: conflicts.broken_by(&order),
                order,
                run_on: Vec::new(),
                possible: impossible.is_none(),
                transformation,
            });
        }
    };
    let last = segments.pieces.len().saturating_sub(1);
    for at in first_piece(&segments, suffix)..segments.pieces.len() {
        check_interrupt()?;
        add(segments.remove_thread(at), Transformation::RemoveLast, at);
        // Without the very last segment the run continues with the one before it, which saves no switch.
        if at != last {
            add(segments.remove_last(at), Transformation::RemoveLast, at);
        }
        if let Some(next) = segments.next(at) {
            add(segments.move_up(at), Transformation::ConsolidateUpTei, next);
            add(segments.move_down(next), Transformation::ConsolidateDown, next);
        }
    }
    // A candidate that breaks few dependences is most likely to keep the failure. At the beginning of the
    // trace, the failure is farthest away.
    candidates.sort_by_key(|candidate| (!candidate.possible, candidate.broken));
    Ok(candidates)
}

/// Returns candidates that request as many context switches and fewer preemptions.
pub(super) fn fewer_preemptions<E>(
    trace: &Trace,
    suffix: Option<usize>,
    check_interrupt: &dyn Fn() -> Result<(), E>,
) -> Result<Vec<Candidate>, E> {
    let segments = SegmentOrder::of(&trace.events);
    let cost = Cost::of(&trace.events);
    let conflicts = ConflictPairs::of(trace);
    let mut candidates = Vec::new();
    let transformation = Transformation::ConsolidateUpActions;
    // Threads that were preempted and never resumed: let them run until they block.
    let left: Vec<usize> = (first_piece(&segments, suffix)..segments.pieces.len().saturating_sub(1))
        .filter(|&at| segments.next(at).is_none())
        .filter(|&at| trace.events[segments.pieces[at].to].flags.has(Flags::PREEMPTS))
        .collect();
    let run_on = |pieces: &[usize]| Candidate {
        change: change(trace, transformation, segments.pieces[pieces[0]].from, pieces.len()),
        order: segments.order(),
        run_on: pieces.iter().map(|&at| segments.pieces[at].to - 1).collect(),
        transformation,
        possible: true,
        broken: 0,
    };
    if left.len() > 1 {
        candidates.push(run_on(&left));
    }
    candidates.extend(left.iter().map(|&at| run_on(&[at])));
    for at in first_piece(&segments, suffix)..segments.pieces.len() {
        let Some(next) = segments.next(at) else { continue };
        // The second stage of Consolidate Up: the thread runs until it blocks.
        for count in 1..segments.pieces[next].len() {
            check_interrupt()?;
            let Some(candidate) = segments.move_up_actions(at, count) else { break };
            let order = candidate.order();
            let reordered = moved_events(trace, &order);
            if first_impossible(&reordered, &trace.events).is_some() {
                break;
            }
            if Cost::of(&reordered) < cost {
                candidates.push(Candidate {
                    change: change(trace, transformation, segments.pieces[next].from, count),
                    broken: conflicts.broken_by(&order),
                    order,
                    run_on: Vec::new(),
                    possible: true,
                    transformation,
                });
            }
        }
    }
    candidates.sort_by_key(|candidate| candidate.broken);
    Ok(candidates)
}

/// Describes a change at an event of the trace.
fn change(trace: &Trace, transformation: Transformation, event: usize, count: usize) -> Change {
    let thread = trace.events[event].thread;
    let nth = trace.events[..event].iter().filter(|earlier| earlier.thread == thread).count();
    Change { transformation, thread: trace.thread_id(thread).clone(), nth, count }
}

/// A limit on the events examined to make candidates: each candidate examines all events.
const MAX_WORK: usize = 20_000_000;

/// Returns the first segment that may be changed.
fn first_piece(segments: &SegmentOrder, suffix: Option<usize>) -> usize {
    let events: usize = segments.pieces.iter().map(Piece::len).sum();
    let suffix = suffix.unwrap_or(MAX_WORK / events.max(1));
    segments.pieces.len().saturating_sub(suffix)
}

/// The conflicting pairs of events of a trace.
struct ConflictPairs {
    /// Pairs of events of different threads, the earlier one first.
    pairs: Vec<(usize, usize)>,
    /// The number of events.
    events: usize,
}

/// The accesses to a resource, by thread, so that a thread's own accesses are skipped at no cost.
#[derive(Default)]
struct ResourceAccesses {
    reads: HashMap<ThreadIx, Vec<usize>>,
    writes: HashMap<ThreadIx, Vec<usize>>,
}

impl ResourceAccesses {
    fn push(&mut self, thread: ThreadIx, at: usize, how: AccessMode) {
        let of_its_kind = if how == AccessMode::Writes { &mut self.writes } else { &mut self.reads };
        of_its_kind.entry(thread).or_default().push(at);
    }

    /// Returns the accesses of other threads that conflict with this one.
    fn conflicting(&self, thread: ThreadIx, how: AccessMode) -> impl Iterator<Item = usize> + '_ {
        let reads = (how == AccessMode::Writes).then_some(&self.reads);
        let all = reads.into_iter().chain([&self.writes]).flatten();
        all.filter(move |(other, _)| **other != thread).flat_map(|(_, events)| events).copied()
    }
}

/// The maximum number of pairs; more give no better estimate.
const MAX_PAIRS: usize = 100_000;

impl ConflictPairs {
    fn of(trace: &Trace) -> Self {
        let mut relation = Relation::new(Rules::of(trace));
        let mut touched: HashMap<Resource, ResourceAccesses> = HashMap::new();
        let mut pairs = HashSet::new();
        let mut touches = Vec::new();
        for (at, event) in trace.events.iter().enumerate() {
            touches.clear();
            relation.touches(event, &mut touches);
            for (resource, how) in touches.iter().flat_map(resources) {
                let earlier = touched.entry(resource).or_default();
                if pairs.len() < MAX_PAIRS {
                    pairs.extend(earlier.conflicting(event.thread, how).map(|other| (other, at)));
                }
                earlier.push(event.thread, at, how);
            }
        }
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_unstable();
        Self { pairs, events: trace.events.len() }
    }

    /// Returns the number of pairs that this order reverses or whose first event it drops.
    fn broken_by(&self, order: &[usize]) -> usize {
        const NOWHERE: usize = usize::MAX;
        let mut place = vec![NOWHERE; self.events];
        order.iter().enumerate().for_each(|(new, &old)| place[old] = new);
        let broken = |&&(first, second): &&(usize, usize)| place[second] < place[first];
        self.pairs.iter().filter(broken).count()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Resource {
    SharedObject(SharedObject),
    Word(u64),
}

/// Returns the resources of a touch; memory is counted by words, because this is an estimate.
fn resources(touch: &Touch) -> Vec<(Resource, AccessMode)> {
    match *touch {
        Touch::SharedObject(object, how) => vec![(Resource::SharedObject(object), how)],
        Touch::Bytes(ByteRange { first, len }, how) => {
            let last = first.saturating_add(len.min(256)).div_ceil(8);
            (first / 8..last).map(|word| (Resource::Word(word), how)).collect()
        }
        _ => Vec::new(),
    }
}
