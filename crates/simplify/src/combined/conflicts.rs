//! An estimate of what a change of the schedule breaks: the dependences between segments.

use crate::{
    dynamic::segment_order::SegmentOrder,
    static_order::{Rules, graph::direct_pairs},
};
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};
use unsnarl_model::{ThreadIx, Trace};
use unsnarl_semantics::{AccessMode, ByteRange, SharedObject, Touch, dependence::Relation};

/// In longer traces only direct dependences are counted, because the number of all conflicts is quadratic.
const MAX_EVENTS: usize = 500;

/// The maximum number of conflicts that are counted; more give no better estimate.
const MAX_PAIRS: usize = 100_000;

/// The conflicts between the segments of a trace. A change of the schedule breaks a conflict if it reverses the
/// two events, or drops the first one.
pub(super) struct SegmentConflicts {
    /// By segment: the segments of the conflicting earlier events, each with the event of this segment.
    earlier: Vec<Vec<(u32, u32)>>,
    /// By segment: the segments of the conflicting later events.
    later: Vec<Vec<u32>>,
}

impl SegmentConflicts {
    pub(super) fn of(trace: &Trace, segments: &SegmentOrder) -> Self {
        let pairs = if trace.events.len() <= MAX_EVENTS {
            conflicting_pairs(trace).into_iter().collect()
        } else {
            direct_pairs(&trace.events, Rules::of(trace))
        };
        let mut segment_of = vec![0; trace.events.len()];
        for (number, piece) in segments.pieces.iter().enumerate() {
            segment_of[piece.from..piece.to].fill(number);
        }
        let mut earlier = vec![Vec::new(); segments.pieces.len()];
        let mut later = vec![Vec::new(); segments.pieces.len()];
        for (first, second) in pairs {
            let (from, to) = (segment_of[first], segment_of[second]);
            earlier[to].push((from as u32, second as u32));
            later[from].push(to as u32);
        }
        earlier.iter_mut().for_each(|all| all.sort_unstable());
        later.iter_mut().for_each(|all| all.sort_unstable());
        Self { earlier, later }
    }

    /// Returns the number of conflicts broken by dropping a segment.
    pub(super) fn broken_by_dropping(&self, segment: usize) -> usize {
        self.later[segment].len()
    }

    /// Returns the number of conflicts broken by moving a segment up over these.
    pub(super) fn broken_by_moving_up(&self, segment: usize, over: Range<usize>) -> usize {
        self.conflicts_with_earlier(segment, over).len()
    }

    /// Returns the number of conflicts broken by moving a segment down over these.
    pub(super) fn broken_by_moving_down(&self, segment: usize, over: Range<usize>) -> usize {
        let later = &self.later[segment];
        let place = |number: usize| later.partition_point(|&other| (other as usize) < number);
        place(over.end).saturating_sub(place(over.start))
    }

    /// Returns the events of a segment with conflicts in these earlier ones, in order; an event with several
    /// conflicts appears as often.
    pub(super) fn conflicting_events(&self, segment: usize, over: Range<usize>) -> Vec<usize> {
        let found = self.conflicts_with_earlier(segment, over);
        let mut events: Vec<usize> = found.iter().map(|&(_, event)| event as usize).collect();
        events.sort_unstable();
        events
    }

    fn conflicts_with_earlier(&self, segment: usize, over: Range<usize>) -> &[(u32, u32)] {
        let earlier = &self.earlier[segment];
        let place = |number: usize| earlier.partition_point(|&(other, _)| (other as usize) < number);
        &earlier[place(over.start)..place(over.end)]
    }
}

/// Returns all conflicting pairs of events of different threads, the earlier event first.
fn conflicting_pairs(trace: &Trace) -> HashSet<(usize, usize)> {
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
    pairs
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
