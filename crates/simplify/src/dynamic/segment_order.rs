//! A trace as a sequence of segments that can be rearranged.
//!
//! These are the composite operations of Tinertia, section 3.3, which move segments, the paper's thread
//! execution intervals.

use unsnarl_model::{Event, Fidelity, Plan, PlannedAction, Policy, Prefix, Schedule, ThreadIx, Trace};

/// Consecutive events of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Piece {
    pub(crate) thread: ThreadIx,
    /// The numbers of its events in the trace: the first, and one past the last.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Piece {
    pub(crate) const fn len(&self) -> usize {
        self.to - self.from
    }
}

/// An order of the pieces of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SegmentOrder {
    /// In order; adjacent pieces may belong to one thread.
    pub(crate) pieces: Vec<Piece>,
}

impl SegmentOrder {
    /// Splits the trace into a piece for each segment.
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut pieces: Vec<Piece> = Vec::new();
        for (at, event) in events.iter().enumerate() {
            match pieces.last_mut() {
                Some(last) if last.thread == event.thread => last.to = at + 1,
                _ => pieces.push(Piece { thread: event.thread, from: at, to: at + 1 }),
            }
        }
        Self { pieces }
    }

    /// Returns the number of context switches it requests.
    pub(crate) fn switches(&self) -> u64 {
        self.pieces.windows(2).filter(|pair| pair[0].thread != pair[1].thread).count() as u64
    }

    /// Returns the previous piece of the same thread.
    pub(crate) fn previous(&self, at: usize) -> Option<usize> {
        (0..at).rev().find(|&other| self.pieces[other].thread == self.pieces[at].thread)
    }

    /// Returns the next piece of the same thread.
    pub(crate) fn next(&self, at: usize) -> Option<usize> {
        (at + 1..self.pieces.len()).find(|&other| self.pieces[other].thread == self.pieces[at].thread)
    }

    /// Removes the segment, which must be the last of its thread.
    pub(crate) fn remove_last(&self, at: usize) -> Option<Self> {
        if self.next(at).is_some() || self.pieces.len() < 2 {
            return None;
        }
        let mut segments = self.clone();
        segments.pieces.remove(at);
        Some(segments)
    }

    /// Removes all segments of the thread; this one must be its first.
    pub(crate) fn remove_thread(&self, at: usize) -> Option<Self> {
        if self.previous(at).is_some() || self.next(at).is_none() {
            return None;
        }
        let thread = self.pieces[at].thread;
        let pieces: Vec<Piece> = self.pieces.iter().copied().filter(|piece| piece.thread != thread).collect();
        (!pieces.is_empty()).then_some(Self { pieces })
    }

    /// Moves the thread's next segment to right after this one.
    pub(crate) fn move_up(&self, at: usize) -> Option<Self> {
        let next = self.next(at)?;
        let mut segments = self.clone();
        let piece = segments.pieces.remove(next);
        segments.pieces.insert(at + 1, piece);
        Some(segments)
    }

    /// Moves the first `count` events of the thread's next segment to right after this one.
    pub(crate) fn move_up_actions(&self, at: usize, count: usize) -> Option<Self> {
        let next = self.next(at)?;
        let piece = self.pieces[next];
        if count == 0 || count >= piece.len() {
            return None;
        }
        let mut segments = self.clone();
        let cut = piece.from + count;
        segments.pieces[next].from = cut;
        segments.pieces.insert(at + 1, Piece { to: cut, ..piece });
        Some(segments)
    }

    /// Moves the thread's previous segment to right before this one.
    pub(crate) fn move_down(&self, at: usize) -> Option<Self> {
        let previous = self.previous(at)?;
        let mut segments = self.clone();
        let piece = segments.pieces.remove(previous);
        segments.pieces.insert(at - 1, piece);
        Some(segments)
    }

    /// Returns the numbers of its events in the trace.
    pub(crate) fn order(&self) -> Vec<usize> {
        self.pieces.iter().flat_map(|piece| piece.from..piece.to).collect()
    }

    /// Returns the plan that executes it as far as possible (section 4.2.1).
    pub(crate) fn plan(&self, trace: &Trace) -> Plan {
        relaxed_plan(trace, &self.order(), &[])
    }
}

/// Returns the plan that executes these events of a trace in this order as far as possible, and continues
/// without preemptions. After the positions of `run_on` a thread continues until it blocks.
pub(crate) fn relaxed_plan(trace: &Trace, order: &[usize], run_on: &[usize]) -> Plan {
    let mut steps = Vec::with_capacity(order.len() + 1);
    for (place, &at) in order.iter().enumerate() {
        let thread = trace.events[at].thread;
        steps.push((thread, trace.action(&trace.events[at]).into()));
        if run_on.contains(&place) {
            steps.push((thread, PlannedAction::RunUntilBlocked));
        }
    }
    steps.extend(failing_thread_without_event(trace).map(|thread| (thread, PlannedAction::RunUntilBlocked)));
    Plan { prefix: prefix_of(trace, steps), tail: Policy::Fair, ..trace.plan.clone() }
}

/// Returns a relaxed prefix of these steps of a trace's threads.
pub(crate) fn prefix_of(trace: &Trace, steps: Vec<(ThreadIx, PlannedAction)>) -> Prefix {
    let mut schedule = Schedule::default();
    steps.iter().for_each(|(thread, _)| schedule.push(*thread));
    Prefix {
        threads: trace.threads.iter().map(|thread| thread.id.clone()).collect(),
        modules: trace.modules.iter().map(|module| module.path.clone()).collect(),
        segments: schedule.segments,
        actions: steps.into_iter().map(|(_, action)| action).collect(),
        fidelity: Fidelity::Relaxed,
    }
}

/// Returns the thread that failed inside an operation, which therefore is no event, if another thread had the
/// last event: the failing thread must run last.
fn failing_thread_without_event(trace: &Trace) -> Option<ThreadIx> {
    let last = trace.events.last()?.thread;
    trace.outcome.thread.filter(|&failed| failed != last && trace.outcome.is_failure())
}
