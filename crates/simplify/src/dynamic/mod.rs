//! Fewer context switches by running the program again.
//!
//! Tinertia (Jalbert and Sen, "A Trace Simplification Technique for Effective Debugging of Concurrent
//! Programs", FSE 2010): change the schedule, run it as far as possible, and keep the executed trace if it
//! has the same failure at no higher cost. The rules for running a schedule that no longer fits are those of
//! relaxed replay (`unsnarl-sched`, `relaxed.rs`).
//!
//! This is algorithm 1 of the paper as it is printed.

pub(crate) mod segment_order;
mod stats;

pub use stats::{SimplificationStats, Transformation};

use crate::{Cost, Runner, prove::Proof};
use segment_order::{Piece, SegmentOrder};
use unsnarl_model::{Signature, Trace};

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
    let mut tinertia = Tinertia {
        signature: trace.signature(),
        current: trace.clone(),
        runner,
        watch,
        stats: SimplificationStats::default(),
    };
    let stopped = tinertia.work().err();
    let Tinertia { current: trace, stats, .. } = tinertia;
    SimplificationResult {
        trace,
        stats,
        proof: None,
        switches_ruled_out: None,
        has_hidden_dependence: false,
        stopped,
    }
}

struct Tinertia<'a, R: Runner> {
    signature: Signature,
    /// The paper's τ_cur.
    current: Trace,
    runner: &'a mut R,
    watch: &'a mut dyn FnMut(Improvement<'_>),
    stats: SimplificationStats,
}

impl<R: Runner> Tinertia<'_, R> {
    fn work(&mut self) -> Result<(), R::Error> {
        loop {
            let old = Cost::of(&self.current.events).switches;
            self.stats.rounds += 1;
            self.remove_last()?;
            self.consolidate_up()?;
            self.consolidate_down()?;
            if old <= Cost::of(&self.current.events).switches {
                return Ok(());
            }
        }
    }

    /// Lines 5 to 10: backwards over the trace. Only a segment's first action counts.
    fn remove_last(&mut self) -> Result<(), R::Error> {
        self.backwards(SegmentOrder::remove_last, Transformation::RemoveLast)
    }

    /// Lines 11 to 17: forwards. Only a segment's last action counts.
    fn consolidate_up(&mut self) -> Result<(), R::Error> {
        let mut segments = SegmentOrder::of(&self.current.events);
        let mut at = 1;
        loop {
            let piece = segments.pieces.partition_point(|piece| piece.to < at);
            let Some(Piece { to, .. }) = segments.pieces.get(piece) else { return Ok(()) };
            at = to + 1;
            let Some(candidate) = segments.move_up(piece) else { continue };
            if let Some(actual) = self.is_variant(&candidate, Transformation::ConsolidateUpTei)? {
                // The longest movable prefix is assumed to be the one that was just executed.
                let executed = executed_of_next(&self.current, &segments, piece, &actual);
                let Some(candidate) = segments.move_up_actions(piece, executed) else { continue };
                if self.is_variant(&candidate, Transformation::ConsolidateUpActions)?.is_some() {
                    continue;
                }
            }
            segments = SegmentOrder::of(&self.current.events);
        }
    }

    /// Lines 18 to 22: backwards. Only a segment's first action counts.
    fn consolidate_down(&mut self) -> Result<(), R::Error> {
        self.backwards(SegmentOrder::move_down, Transformation::ConsolidateDown)
    }

    /// Changes the segments from last to first, continuing in the changed trace.
    fn backwards(
        &mut self,
        change: fn(&SegmentOrder, usize) -> Option<SegmentOrder>,
        transformation: Transformation,
    ) -> Result<(), R::Error> {
        let mut segments = SegmentOrder::of(&self.current.events);
        let mut at = self.current.events.len();
        while let Some(piece) = segments.pieces.partition_point(|piece| piece.from < at).checked_sub(1) {
            at = segments.pieces[piece].from;
            let Some(candidate) = change(&segments, piece) else { continue };
            if self.is_variant(&candidate, transformation)?.is_none() {
                at = at.min(self.current.events.len());
                segments = SegmentOrder::of(&self.current.events);
            }
        }
        Ok(())
    }

    /// Runs a candidate. If it is a variant-trace (section 4.2.1), the executed trace becomes the current
    /// one; otherwise it is returned.
    fn is_variant(
        &mut self,
        candidate: &SegmentOrder,
        transformation: Transformation,
    ) -> Result<Option<Trace>, R::Error> {
        self.runner.check_interrupt()?;
        let actual = self.runner.run(&candidate.plan(&self.current))?;
        self.stats.executions += 1;
        let cost = Cost::of(&actual.events).switches;
        if actual.signature() != self.signature || cost > candidate.switches() {
            return Ok(Some(actual));
        }
        self.stats.credit(transformation, Cost::of(&self.current.events).switches, cost);
        self.current = actual;
        (self.watch)(Improvement { transformation, trace: &self.current, stats: &self.stats });
        Ok(None)
    }
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
