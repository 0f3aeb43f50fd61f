//! A trace taken apart into its segments, and put together in another way.
//!
//! The composite operations of Tinertia, section 3.3: what they move are segments, the paper's thread execution
//! intervals.

use unsnarl_model::{
    Action, Event, Fidelity, ModuleIx, Op, Plan, Policy, Prefix, Schedule, Site, ThreadIx, Trace,
};

/// Some events in a row of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Piece {
    pub(crate) thread: ThreadIx,
    /// The numbers of its events in the trace: from, and behind the last.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Piece {
    pub(crate) const fn len(&self) -> usize {
        self.to - self.from
    }
}

/// A schedule made of pieces of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SegmentScript {
    /// In order; neighbours may be of one thread.
    pub(crate) pieces: Vec<Piece>,
}

impl SegmentScript {
    /// The trace as it is: a piece for each segment.
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

    /// How many context switches it asks for.
    pub(crate) fn switches(&self) -> u64 {
        self.pieces.windows(2).filter(|pair| pair[0].thread != pair[1].thread).count() as u64
    }

    /// The piece before this one that is of the same thread.
    pub(crate) fn previous(&self, at: usize) -> Option<usize> {
        (0..at).rev().find(|&other| self.pieces[other].thread == self.pieces[at].thread)
    }

    /// The piece after this one that is of the same thread.
    pub(crate) fn next(&self, at: usize) -> Option<usize> {
        (at + 1..self.pieces.len()).find(|&other| self.pieces[other].thread == self.pieces[at].thread)
    }

    /// Without the last segment of its thread, which this one must be.
    pub(crate) fn remove_last(&self, at: usize) -> Option<Self> {
        if self.next(at).is_some() || self.pieces.len() < 2 {
            return None;
        }
        let mut script = self.clone();
        script.pieces.remove(at);
        Some(script)
    }

    /// Without all segments of the thread, which this one must be the first of.
    pub(crate) fn remove_thread(&self, at: usize) -> Option<Self> {
        if self.previous(at).is_some() || self.next(at).is_none() {
            return None;
        }
        let thread = self.pieces[at].thread;
        let pieces: Vec<Piece> = self.pieces.iter().copied().filter(|piece| piece.thread != thread).collect();
        (!pieces.is_empty()).then_some(Self { pieces })
    }

    /// The thread's next segment right after this one.
    pub(crate) fn move_up(&self, at: usize) -> Option<Self> {
        let next = self.next(at)?;
        let mut script = self.clone();
        let piece = script.pieces.remove(next);
        script.pieces.insert(at + 1, piece);
        Some(script)
    }

    /// The first so many events of the thread's next segment right after this one.
    pub(crate) fn move_up_actions(&self, at: usize, count: usize) -> Option<Self> {
        let next = self.next(at)?;
        let piece = self.pieces[next];
        if count == 0 || count >= piece.len() {
            return None;
        }
        let mut script = self.clone();
        let cut = piece.from + count;
        script.pieces[next].from = cut;
        script.pieces.insert(at + 1, Piece { to: cut, ..piece });
        Some(script)
    }

    /// The thread's segment before this one right before it.
    pub(crate) fn move_down(&self, at: usize) -> Option<Self> {
        let previous = self.previous(at)?;
        let mut script = self.clone();
        let piece = script.pieces.remove(previous);
        script.pieces.insert(at - 1, piece);
        Some(script)
    }

    /// The numbers of its events in the trace.
    pub(crate) fn order(&self) -> Vec<usize> {
        self.pieces.iter().flat_map(|piece| piece.from..piece.to).collect()
    }

    /// The plan that executes it as far as it makes sense (section 4.2.1).
    pub(crate) fn plan(&self, trace: &Trace) -> Plan {
        relaxed_plan(trace, &self.order(), &[])
    }
}

/// The plan that executes these events of a trace in this order, as far as it makes sense, and goes on without
/// preemptions. After the places of `run_on` a thread goes on until it has to wait.
pub(crate) fn relaxed_plan(trace: &Trace, order: &[usize], run_on: &[usize]) -> Plan {
    let mut steps = Vec::with_capacity(order.len() + 1);
    for (place, &at) in order.iter().enumerate() {
        let thread = trace.events[at].thread;
        steps.push((thread, trace.action(&trace.events[at])));
        if run_on.contains(&place) {
            steps.push((thread, RUN_UNTIL_BLOCKED));
        }
    }
    steps.extend(failing_thread_without_event(trace).map(|thread| (thread, RUN_UNTIL_BLOCKED)));
    Plan { prefix: prefix_of(trace, steps), tail: Policy::Fair, ..trace.plan.clone() }
}

/// These steps of a trace's threads, to be followed as far as it makes sense.
pub(crate) fn prefix_of(trace: &Trace, steps: Vec<(ThreadIx, Action)>) -> Prefix {
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

/// What nobody ever does: a thread that is expected to do it goes on with whatever it does.
pub(crate) const RUN_UNTIL_BLOCKED: Action =
    Action { op: Op::Exit, site: Site { module: ModuleIx(0), offset: u64::MAX } };

/// Who failed in the middle of an operation that therefore is no event, if another thread's event was the last:
/// it must have the processor in the end.
fn failing_thread_without_event(trace: &Trace) -> Option<ThreadIx> {
    let last = trace.events.last()?.thread;
    trace.outcome.thread.filter(|&failed| failed != last && trace.outcome.is_failure())
}
