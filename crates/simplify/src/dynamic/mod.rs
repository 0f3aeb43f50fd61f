//! Fewer context switches by running the program again.
//!
//! Tinertia (Jalbert and Sen, "A Trace Simplification Technique for Effective Debugging of Concurrent
//! Programs", FSE 2010): change the schedule, run it as far as possible, and keep the executed trace if it
//! has the same failure at no higher cost. The rules for running a schedule that no longer fits are those of
//! relaxed replay (`unsnarl-sched`, `relaxed.rs`).
//!
//! This is algorithm 1 of the paper as it is printed, except that it always ends: see `is_progress`.

pub(crate) mod segment_order;
mod stats;

pub use stats::{SimplificationStats, Transformation};

use crate::{
    Cost, Runner,
    livelock::{CuttingRunner, cut, is_livelock},
    prove::Proof,
};
use segment_order::{Piece, SegmentOrder};
use std::cmp::Ordering;
use unsnarl_model::{Plan, RunLimits, Signature, Trace};

/// The best trace found, and how it was found.
#[derive(Clone, Debug)]
pub struct SimplificationResult<E> {
    /// The trace; the given one if there is no better.
    pub trace: Trace,
    /// The work it took.
    pub stats: SimplificationStats,
    /// A proof that there is no better schedule, if it was requested and found.
    pub proof: Option<Proof>,
    /// The progress of the proof: no schedule with at most this many context switches has this failure.
    pub switches_ruled_out: Option<u64>,
    /// The failure depends on something that is not an event: an order that keeps all dependences had another
    /// result. Then nothing can be proved.
    pub has_hidden_dependence: bool,
    /// The error that ended the work early.
    pub stopped: Option<E>,
}

/// A better trace.
#[derive(Clone, Copy, Debug)]
pub struct Improvement<'a> {
    /// The transformation that found it.
    pub transformation: Transformation,
    pub trace: &'a Trace,
    /// The work so far.
    pub stats: &'a SimplificationStats,
}

/// Simplifies a failing trace by the paper's algorithm 1. `watch` is called for each improvement.
pub fn simplify<R: Runner>(
    trace: &Trace,
    runner: &mut R,
    watch: &mut dyn FnMut(Improvement<'_>),
) -> SimplificationResult<R::Error> {
    let mut runner = CuttingRunner(runner);
    let mut tinertia = Tinertia::new(cut(bounded(trace)));
    let switches = Cost::of(&trace.events).switches;
    tinertia.stats.credit(Transformation::RemoveLast, switches, tinertia.before_round);
    let stopped = loop {
        if let Err(stopped) = runner.check_interrupt() {
            break Some(stopped);
        }
        let Some(plan) = tinertia.next_plan() else { break None };
        match runner.run(&plan) {
            Ok(actual) => {
                if let Some(transformation) = tinertia.observe(actual) {
                    watch(Improvement { transformation, trace: &tinertia.current, stats: &tinertia.stats });
                }
            }
            Err(stopped) => break Some(stopped),
        }
    };
    let Tinertia { current, stats, .. } = tinertia;
    SimplificationResult {
        trace: with_limits(current, trace.plan.limits),
        stats,
        proof: None,
        switches_ruled_out: None,
        has_hidden_dependence: false,
        stopped,
    }
}

/// The algorithm between two runs: it says which plan to run next, and is given the result.
pub(crate) struct Tinertia {
    signature: Signature,
    /// The paper's τ_cur.
    pub(crate) current: Trace,
    /// Its segments.
    segments: SegmentOrder,
    /// The switches of the current trace at the beginning of the round.
    before_round: u64,
    stage: Stage,
    pending: Option<Pending>,
    pub(crate) stats: SimplificationStats,
}

/// The position in a round; lines 5 to 22.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Lines 5 to 10: backwards over the trace, from before this event. Only a segment's first action counts.
    RemoveLast {
        at: usize,
    },
    /// Lines 11 to 17: forwards, from the segment that contains this event's predecessor. Only a segment's last
    /// action counts.
    ConsolidateUp {
        at: usize,
    },
    /// The second stage of the same, for this segment: as many actions as the first stage executed.
    ConsolidateUpActions {
        at: usize,
        piece: usize,
        executed: usize,
    },
    /// Lines 18 to 22: backwards. Only a segment's first action counts.
    ConsolidateDown {
        at: usize,
    },
    Done,
}

/// The candidate that is being run.
struct Pending {
    transformation: Transformation,
    /// The context switches that it requests.
    switches: u64,
    /// The segment to which the thread's next one was moved.
    piece: usize,
}

impl Tinertia {
    pub(crate) fn new(trace: Trace) -> Self {
        let segments = SegmentOrder::of(&trace.events);
        let mut stats = SimplificationStats::default();
        stats.rounds = 1;
        Self {
            signature: trace.signature(),
            before_round: segments.switches(),
            stage: Stage::RemoveLast { at: trace.events.len() },
            current: trace,
            segments,
            pending: None,
            stats,
        }
    }

    /// Returns whether there is nothing left to run.
    pub(crate) const fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    /// Returns the context switches that are left.
    pub(crate) fn switches(&self) -> u64 {
        self.segments.switches()
    }

    /// Returns the plan of the next candidate; `None` at the end.
    pub(crate) fn next_plan(&mut self) -> Option<Plan> {
        loop {
            let (transformation, piece, candidate) = match self.stage {
                Stage::RemoveLast { at } => match self.before(at) {
                    Some(piece) => {
                        self.stage = Stage::RemoveLast { at: self.segments.pieces[piece].from };
                        (Transformation::RemoveLast, piece, self.segments.remove_last(piece))
                    }
                    None => {
                        self.stage = Stage::ConsolidateUp { at: 1 };
                        continue;
                    }
                },
                Stage::ConsolidateUp { at } => {
                    let piece = self.segments.pieces.partition_point(|piece| piece.to < at);
                    match self.segments.pieces.get(piece) {
                        Some(&Piece { to, .. }) => {
                            self.stage = Stage::ConsolidateUp { at: to + 1 };
                            (Transformation::ConsolidateUpTei, piece, self.segments.move_up(piece))
                        }
                        None => {
                            self.stage = Stage::ConsolidateDown { at: self.current.events.len() };
                            continue;
                        }
                    }
                }
                Stage::ConsolidateUpActions { at, piece, executed } => {
                    self.stage = Stage::ConsolidateUp { at };
                    let candidate = self.segments.move_up_actions(piece, executed);
                    (Transformation::ConsolidateUpActions, piece, candidate)
                }
                Stage::ConsolidateDown { at } => match self.before(at) {
                    Some(piece) => {
                        self.stage = Stage::ConsolidateDown { at: self.segments.pieces[piece].from };
                        (Transformation::ConsolidateDown, piece, self.segments.move_down(piece))
                    }
                    None => {
                        self.next_round();
                        continue;
                    }
                },
                Stage::Done => return None,
            };
            let Some(candidate) = candidate else { continue };
            self.pending = Some(Pending { transformation, switches: candidate.switches(), piece });
            return Some(candidate.plan(&self.current));
        }
    }

    /// Returns the last segment that begins before this event.
    fn before(&self, at: usize) -> Option<usize> {
        self.segments.pieces.partition_point(|piece| piece.from < at).checked_sub(1)
    }

    fn next_round(&mut self) {
        let switches = self.segments.switches();
        if self.before_round <= switches {
            self.stage = Stage::Done;
            return;
        }
        self.before_round = switches;
        self.stats.rounds += 1;
        self.stage = Stage::RemoveLast { at: self.current.events.len() };
    }

    /// Judges the run of the latest plan. If it is a variant-trace (section 4.2.1) it becomes the current trace,
    /// and its transformation is returned.
    pub(crate) fn observe(&mut self, actual: Trace) -> Option<Transformation> {
        let Pending { transformation, switches, piece } = self.pending.take()?;
        self.stats.executions += 1;
        let is_variant = actual.signature() == self.signature
            && Cost::of(&actual.events).switches <= switches
            && is_progress(&actual, &self.current);
        if !is_variant {
            if let (Transformation::ConsolidateUpTei, Stage::ConsolidateUp { at }) =
                (transformation, self.stage)
            {
                // The longest movable prefix is assumed to be the one that was just executed.
                let executed = executed_of_next(&self.current, &self.segments, piece, &actual);
                self.stage = Stage::ConsolidateUpActions { at, piece, executed };
            }
            return None;
        }
        let segments = SegmentOrder::of(&actual.events);
        self.stats.credit(transformation, self.segments.switches(), segments.switches());
        (self.current, self.segments) = (actual, segments);
        if let Stage::RemoveLast { at } | Stage::ConsolidateDown { at } = &mut self.stage {
            *at = (*at).min(self.current.events.len());
        }
        Some(transformation)
    }
}

/// Returns whether the algorithm may continue with the executed trace.
///
/// The paper accepts any trace that costs no more. But each run of a loop that waits may execute another round, so
/// that would not always end. Here the switches, the preemptions and the events decrease, in this order of
/// importance, or they are equal and events moved towards the front. Both can happen only finitely often.
fn is_progress(actual: &Trace, current: &Trace) -> bool {
    let rank = |trace: &Trace| (Cost::of(&trace.events), trace.events.len());
    match rank(actual).cmp(&rank(current)) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => {
            let lengths = |trace: &Trace| -> Vec<usize> {
                SegmentOrder::of(&trace.events).pieces.iter().map(Piece::len).collect()
            };
            lengths(actual) > lengths(current)
        }
    }
}

/// Returns the trace with a plan that stops runs which become much longer: they are no improvement.
pub(crate) fn bounded(trace: &Trace) -> Trace {
    let mut limits = trace.plan.limits;
    // If the limit is the failure, it stays. A livelock takes many events to be recognised.
    if trace.outcome.limit().is_none() && !is_livelock(trace) {
        limits.events = limits.events.min(4 * trace.events.len() as u64 + 10_000);
    }
    with_limits(trace.clone(), limits)
}

pub(crate) fn with_limits(mut trace: Trace, limits: RunLimits) -> Trace {
    trace.plan.limits = limits;
    trace
}

/// Returns how many events of the thread's next piece were executed when it was moved up to right after this
/// one. Up to there the run equals the trace.
pub(crate) fn executed_of_next(
    trace: &Trace,
    segments: &SegmentOrder,
    piece: usize,
    actual: &Trace,
) -> usize {
    let Some(next) = segments.next(piece) else { return 0 };
    let start = segments.pieces[..=piece].iter().map(segment_order::Piece::len).sum::<usize>();
    let (piece, thread) = (segments.pieces[next], trace.thread_id(segments.pieces[next].thread));
    let moved = trace.events[piece.from..piece.to].iter().map(|event| trace.action(event));
    let done = actual.events.iter().skip(start);
    let same = moved.zip(done).take_while(|(expected, event)| {
        actual.thread_id(event.thread) == thread && actual.action(event) == *expected
    });
    same.count()
}
