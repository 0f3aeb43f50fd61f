//! Fewer context switches by running the program again.
//!
//! Tinertia (Jalbert and Sen, "A Trace Simplification Technique for Effective Debugging of Concurrent
//! Programs", FSE 2010): change the schedule, run it as far as possible, and keep the executed trace if it
//! has the same failure at no higher cost. The rules for running a schedule that no longer fits are those of
//! relaxed replay (`unsnarl-sched`, `relaxed.rs`).
//!
//! This is algorithm 1 of the paper as it is printed.

pub(crate) mod script;
mod tally;

pub use tally::{Operation, Tally};

use crate::{Cost, Runner, prove::Certificate};
use script::{Piece, SegmentScript};
use unsnarl_model::{Signature, Trace};

/// The best trace found, and how it was found.
#[derive(Clone, Debug)]
pub struct Simplified<E> {
    /// The trace; the given one if there is no better.
    pub trace: Trace,
    /// The work it took.
    pub tally: Tally,
    /// A proof that there is no better schedule, if it was requested and found.
    pub certificate: Option<Certificate>,
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
    /// The operation that found it.
    pub operation: Operation,
    pub trace: &'a Trace,
    /// The work so far.
    pub tally: &'a Tally,
}

/// Simplifies a failing trace by the paper's algorithm 1. `watch` is called for each improvement.
pub fn simplify<R: Runner>(
    trace: &Trace,
    runner: &mut R,
    watch: &mut dyn FnMut(Improvement<'_>),
) -> Simplified<R::Error> {
    let mut tinertia = Tinertia {
        signature: trace.signature(),
        current: trace.clone(),
        runner,
        watch,
        tally: Tally::default(),
    };
    let stopped = tinertia.work().err();
    let Tinertia { current: trace, tally, .. } = tinertia;
    Simplified {
        trace,
        tally,
        certificate: None,
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
    tally: Tally,
}

impl<R: Runner> Tinertia<'_, R> {
    fn work(&mut self) -> Result<(), R::Error> {
        loop {
            let old = Cost::of(&self.current.events).switches;
            self.tally.rounds += 1;
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
        self.backwards(SegmentScript::remove_last, Operation::RemoveLast)
    }

    /// Lines 11 to 17: forwards. Only a segment's last action counts.
    fn consolidate_up(&mut self) -> Result<(), R::Error> {
        let mut script = SegmentScript::of(&self.current.events);
        let mut at = 1;
        loop {
            let piece = script.pieces.partition_point(|piece| piece.to < at);
            let Some(Piece { to, .. }) = script.pieces.get(piece) else { return Ok(()) };
            at = to + 1;
            let Some(candidate) = script.move_up(piece) else { continue };
            if let Some(actual) = self.is_variant(&candidate, Operation::ConsolidateUpTei)? {
                // The longest movable prefix is assumed to be the one that was just executed.
                let executed = executed_of_next(&self.current, &script, piece, &actual);
                let Some(candidate) = script.move_up_actions(piece, executed) else { continue };
                if self.is_variant(&candidate, Operation::ConsolidateUpActions)?.is_some() {
                    continue;
                }
            }
            script = SegmentScript::of(&self.current.events);
        }
    }

    /// Lines 18 to 22: backwards. Only a segment's first action counts.
    fn consolidate_down(&mut self) -> Result<(), R::Error> {
        self.backwards(SegmentScript::move_down, Operation::ConsolidateDown)
    }

    /// Changes the segments from last to first, continuing in the changed trace.
    fn backwards(
        &mut self,
        change: fn(&SegmentScript, usize) -> Option<SegmentScript>,
        operation: Operation,
    ) -> Result<(), R::Error> {
        let mut script = SegmentScript::of(&self.current.events);
        let mut at = self.current.events.len();
        while let Some(piece) = script.pieces.partition_point(|piece| piece.from < at).checked_sub(1) {
            at = script.pieces[piece].from;
            let Some(candidate) = change(&script, piece) else { continue };
            if self.is_variant(&candidate, operation)?.is_none() {
                at = at.min(self.current.events.len());
                script = SegmentScript::of(&self.current.events);
            }
        }
        Ok(())
    }

    /// Runs a candidate. If it is a variant-trace (section 4.2.1), the executed trace becomes the current
    /// one; otherwise it is returned.
    fn is_variant(
        &mut self,
        candidate: &SegmentScript,
        operation: Operation,
    ) -> Result<Option<Trace>, R::Error> {
        self.runner.check_interrupt()?;
        let actual = self.runner.run(&candidate.plan(&self.current))?;
        self.tally.executions += 1;
        let cost = Cost::of(&actual.events).switches;
        if actual.signature() != self.signature || cost > candidate.switches() {
            return Ok(Some(actual));
        }
        self.tally.credit(operation, Cost::of(&self.current.events).switches, cost);
        self.current = actual;
        (self.watch)(Improvement { operation, trace: &self.current, tally: &self.tally });
        Ok(None)
    }
}

/// Returns how many events of the thread's next piece were executed when it was moved up to right after this
/// one. Up to there the run equals the trace.
pub(crate) fn executed_of_next(trace: &Trace, script: &SegmentScript, piece: usize, actual: &Trace) -> usize {
    let Some(next) = script.next(piece) else { return 0 };
    let start = script.pieces[..=piece].iter().map(script::Piece::len).sum::<usize>();
    let (piece, thread) = (script.pieces[next], trace.thread_id(script.pieces[next].thread));
    let moved = trace.events[piece.from..piece.to].iter().map(|event| trace.action(event));
    let done = actual.events.iter().skip(start);
    let same = moved.zip(done).take_while(|(expected, event)| {
        actual.thread_id(event.thread) == thread && actual.action(event) == *expected
    });
    same.count()
}
