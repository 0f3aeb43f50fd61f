//! Candidates: schedules that are worth a run.
//!
//! A candidate begins as an *edit* of the trace's segments, which costs next to nothing. Only when its turn comes
//! is it made into an order of events and tested for feasibility. So the work follows the candidates that are run,
//! not the length of the trace.

use super::conflicts::SegmentConflicts;
use crate::{
    Cost,
    dynamic::{Transformation, segment_order::SegmentOrder},
    static_order::{feasibility::Feasibility, feasibility::is_enabled, reorder::moved_events},
};
use std::{
    collections::{HashSet, VecDeque},
    vec::IntoIter,
};
use unsnarl_model::{Flags, Op, ThreadId, Trace};
use unsnarl_semantics::Machine;

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
}

/// A change of a schedule: the transformation, the thread and the event of that thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Change {
    transformation: Transformation,
    thread: ThreadId,
    nth: usize,
    /// The number of events moved, or of threads that run on, if it makes a difference.
    count: usize,
}

/// An edit of the segments, by their numbers.
#[derive(Clone, Debug)]
enum Edit {
    /// Drops all segments of this one's thread.
    DropThread(usize),
    /// Drops this segment, the last of its thread.
    Drop(usize),
    /// Moves the thread's next segment to right after this one.
    MoveUp(usize),
    /// Moves the thread's previous segment to right before this one.
    MoveDown(usize),
    /// Moves the first events of the thread's next segment to right after this one.
    MoveEventsUp(usize, usize),
    /// After these segments their threads run until they block.
    RunOn(Vec<usize>),
}

/// An edit with its rank: the number of dependences that it breaks.
struct RankedEdit {
    edit: Edit,
    broken: usize,
}

/// The aim of the edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// Fewer context switches.
    FewerSwitches,
    /// The same number of context switches, and fewer preemptions.
    FewerPreemptions,
}

/// The candidates of a trace, the most promising first.
pub(super) struct Candidates<'t> {
    trace: &'t Trace,
    cost: Cost,
    segments: SegmentOrder,
    /// By segment: the number of earlier events of its thread.
    own_events_before: Vec<usize>,
    feasibility: Feasibility<'t>,
    edits: IntoIter<RankedEdit>,
    /// Edits that are infeasible unless another thread does what is missing.
    deferred: VecDeque<Edit>,
    /// Segments after which more events of the same thread are infeasible.
    exhausted: HashSet<usize>,
}

impl<'t> Candidates<'t> {
    /// Lists the edits of a trace. Only the last `suffix` segments are edited, if that is given.
    pub(super) fn of(trace: &'t Trace, aim: Aim, suffix: Option<usize>) -> Self {
        let segments = SegmentOrder::of(&trace.events);
        let first = suffix.map_or(0, |suffix| segments.pieces.len().saturating_sub(suffix));
        let conflicts = SegmentConflicts::of(trace, &segments);
        let mut edits = match aim {
            Aim::FewerSwitches => fewer_switches(&segments, first, &conflicts),
            Aim::FewerPreemptions => fewer_preemptions(trace, &segments, first, &conflicts),
        };
        // An edit that breaks few dependences is most likely to keep the failure. At the beginning of the trace, the
        // failure is farthest away.
        edits.sort_by_key(|edit| edit.broken);
        let mut done = vec![0; trace.threads.len()];
        let own_events_before = segments.pieces.iter().map(|piece| {
            let own = &mut done[piece.thread.index()];
            *own += piece.len();
            *own - piece.len()
        });
        Self {
            trace,
            cost: Cost::of(&trace.events),
            own_events_before: own_events_before.collect(),
            segments,
            feasibility: Feasibility::of(&trace.events),
            edits: edits.into_iter(),
            deferred: VecDeque::new(),
            exhausted: HashSet::new(),
        }
    }

    /// Returns the next candidate that is feasible and has not failed yet. In long traces, infeasible changes are
    /// recorded as failed as well, because it takes long to find that out.
    pub(super) fn next(&mut self, failed: &mut HashSet<Change>) -> Option<Candidate> {
        while let Some(RankedEdit { edit, .. }) = self.edits.next() {
            let change = self.change(&edit);
            if failed.contains(&change) {
                continue;
            }
            let order = edit.apply(&self.segments)?.order();
            match self.verdict(&edit, &order) {
                Verdict::Feasible => return Some(self.candidate(edit, change, order)),
                Verdict::NeedsHelp => self.deferred.push_back(edit),
                Verdict::Useless if self.trace.events.len() > MAX_EVENTS => drop(failed.insert(change)),
                Verdict::Useless => {}
            }
        }
        while let Some(edit) = self.deferred.pop_front() {
            let change = self.change(&edit);
            if !failed.contains(&change) {
                let order = edit.apply(&self.segments)?.order();
                return Some(self.candidate(edit, change, order));
            }
        }
        None
    }

    fn verdict(&mut self, edit: &Edit, order: &[usize]) -> Verdict {
        let impossible = match edit {
            Edit::RunOn(_) => return Verdict::Feasible,
            Edit::MoveEventsUp(at, _) if self.exhausted.contains(at) => return Verdict::Useless,
            _ => self.feasibility.first_impossible(order).map(|at| self.trace.events[at].op),
        };
        match (edit, impossible) {
            // Another thread may send the wake-up in its place, but no other thread ends or releases a lock in its
            // place.
            (
                Edit::Drop(_) | Edit::DropThread(_),
                Some(Op::SemWait | Op::CondWake | Op::FutexWoken | Op::BarrierLeave),
            ) => Verdict::NeedsHelp,
            (Edit::MoveEventsUp(at, _), Some(_)) => {
                self.exhausted.insert(*at);
                Verdict::Useless
            }
            (_, Some(_)) => Verdict::Useless,
            (Edit::MoveEventsUp(..), None) if Cost::of(&moved_events(self.trace, order)) >= self.cost => {
                Verdict::Useless
            }
            (_, None) => Verdict::Feasible,
        }
    }

    /// Returns the transformation of an edit, the segment that it is about, and the number of events or threads.
    fn subject(&self, edit: &Edit) -> (Transformation, usize, usize) {
        let next = |at: usize| self.segments.next(at).unwrap_or(at);
        match edit {
            Edit::DropThread(at) | Edit::Drop(at) => (Transformation::RemoveLast, *at, 0),
            Edit::MoveUp(at) => (Transformation::ConsolidateUpTei, next(*at), 0),
            Edit::MoveDown(at) => (Transformation::ConsolidateDown, *at, 0),
            Edit::MoveEventsUp(at, count) => (Transformation::ConsolidateUpActions, next(*at), *count),
            // No segment has that many events.
            Edit::RunOn(all) => (Transformation::ConsolidateUpActions, all[0], usize::MAX - all.len()),
        }
    }

    fn change(&self, edit: &Edit) -> Change {
        let (transformation, piece, count) = self.subject(edit);
        let thread = self.trace.thread_id(self.segments.pieces[piece].thread).clone();
        Change { transformation, thread, nth: self.own_events_before[piece], count }
    }

    fn candidate(&self, edit: Edit, change: Change, order: Vec<usize>) -> Candidate {
        let run_on = match &edit {
            Edit::RunOn(all) => all.iter().map(|&at| self.segments.pieces[at].to - 1).collect(),
            _ => Vec::new(),
        };
        Candidate { transformation: change.transformation, change, order, run_on }
    }
}

/// The prospects of a candidate.
enum Verdict {
    Feasible,
    /// It is infeasible unless another thread does what is missing.
    NeedsHelp,
    /// It is infeasible, or no improvement.
    Useless,
}

impl Edit {
    fn apply(&self, segments: &SegmentOrder) -> Option<SegmentOrder> {
        match *self {
            Self::DropThread(at) => segments.remove_thread(at),
            Self::Drop(at) => segments.remove_last(at),
            Self::MoveUp(at) => segments.move_up(at),
            Self::MoveDown(at) => segments.move_down(at),
            Self::MoveEventsUp(at, count) => segments.move_up_actions(at, count),
            Self::RunOn(_) => Some(segments.clone()),
        }
    }
}

/// Returns edits that request fewer context switches than the trace has.
fn fewer_switches(segments: &SegmentOrder, first: usize, conflicts: &SegmentConflicts) -> Vec<RankedEdit> {
    let last = segments.pieces.len().saturating_sub(1);
    let mut edits = Vec::new();
    let mut add = |edit, broken| edits.push(RankedEdit { edit, broken });
    for at in first..segments.pieces.len() {
        let next = segments.next(at);
        if next.is_some() && segments.previous(at).is_none() {
            let thread = segments.pieces[at].thread;
            let own = (at..=last).filter(|&other| segments.pieces[other].thread == thread);
            add(Edit::DropThread(at), own.map(|own| conflicts.broken_by_dropping(own)).sum());
        }
        // Without the very last segment the run continues with the one before it, which saves no switch.
        if next.is_none() && at != last {
            add(Edit::Drop(at), conflicts.broken_by_dropping(at));
        }
        if let Some(next) = next {
            add(Edit::MoveUp(at), conflicts.broken_by_moving_up(next, at + 1..next));
            add(Edit::MoveDown(next), conflicts.broken_by_moving_down(at, at + 1..next));
        }
    }
    edits
}

/// In longer traces, only those events are moved up that may end in a wait.
const MAX_EVENTS: usize = 1_000;

/// Returns edits that request as many context switches; some of them request fewer preemptions.
fn fewer_preemptions(
    trace: &Trace,
    segments: &SegmentOrder,
    first: usize,
    conflicts: &SegmentConflicts,
) -> Vec<RankedEdit> {
    let mut edits = Vec::new();
    let mut add = |edit, broken| edits.push(RankedEdit { edit, broken });
    // Threads that were preempted and never resumed: let them run until they block.
    let left: Vec<usize> = (first..segments.pieces.len().saturating_sub(1))
        .filter(|&at| segments.next(at).is_none())
        .filter(|&at| trace.events[segments.pieces[at].to].flags.has(Flags::PREEMPTS))
        .collect();
    if left.len() > 1 {
        add(Edit::RunOn(left.clone()), 0);
    }
    left.into_iter().for_each(|at| add(Edit::RunOn(vec![at]), 0));
    // The second stage of Consolidate Up: the thread runs until it blocks.
    let mut machine = Machine::before(&trace.events);
    for (at, piece) in segments.pieces.iter().enumerate() {
        trace.events[piece.from..piece.to].iter().for_each(|event| machine.follow(event));
        let Some(next) = segments.next(at).filter(|_| at >= first) else { continue };
        let moved = &trace.events[segments.pieces[next].from..segments.pieces[next].to];
        let conflicting = conflicts.conflicting_events(next, at + 1..next);
        let mut machine = machine.clone();
        for (count, event) in moved.iter().enumerate() {
            let is_end = count > 0
                && (trace.events.len() <= MAX_EVENTS || event.op.yields() || !is_enabled(&machine, event));
            if is_end {
                let broken = conflicting.partition_point(|&event| event < segments.pieces[next].from + count);
                add(Edit::MoveEventsUp(at, count), broken);
            }
            if !is_enabled(&machine, event) {
                break;
            }
            machine.follow(event);
        }
    }
    edits
}
