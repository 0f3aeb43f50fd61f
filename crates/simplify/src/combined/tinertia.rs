//! Tinertia by itself, which takes turns with everything else.
//!
//! Where it gets further, the result is not worse than Tinertia's; where it does not, it must not take most of the
//! time. So it begins when the rest has worked for a while, and gets a share of the work: half of it while it has
//! about as many context switches left, and less if it is far behind. At the end it continues to its own end, unless
//! it is hopeless.

use super::{MANY_SEGMENTS, SHORT, Simplifier};
use crate::{
    Runner,
    dynamic::{Tinertia, segment_order::SegmentOrder},
};
use unsnarl_model::Trace;

/// The work of the rest before Tinertia begins, in events.
const BEGIN: u64 = 4_000_000;

/// The work, beyond that of the rest, after which Tinertia is given up if it is far behind.
const HOPELESS: u64 = 30_000_000;

/// The share of the rest for each share of Tinertia, if that is far behind.
const REST: u64 = 8;

/// Tinertia with its work.
pub(super) struct TakesTurns {
    tinertia: Tinertia,
    /// The work of all runs when it was made.
    since: u64,
    /// Its own work.
    spent: u64,
}

impl TakesTurns {
    pub(super) fn new(start: Trace, work: u64) -> Self {
        Self { tinertia: Tinertia::new(start), since: work, spent: 0 }
    }

    /// Returns whether it has far more context switches left than the best trace.
    fn is_far_behind(&self, best: u64) -> bool {
        self.tinertia.switches() > 2 * best + 16
    }

    /// Returns the work of the rest.
    const fn rest(&self, work: u64) -> u64 {
        work - self.since - self.spent
    }

    fn is_its_turn(&self, work: u64, best: u64) -> bool {
        let share = if self.is_far_behind(best) { REST } else { 1 };
        !self.tinertia.is_done() && self.rest(work) > BEGIN + share * self.spent
    }

    fn is_hopeless(&self, work: u64, best: u64) -> bool {
        self.is_far_behind(best) && self.spent > HOPELESS + self.rest(work)
    }
}

impl<R: Runner> Simplifier<'_, R> {
    /// Lets Tinertia simplify the best trace, if it is long or has many segments left. It also runs schedules that are
    /// infeasible as they stand, to which the program often adapts.
    pub(super) fn sweep(&mut self) -> Result<(), R::Error> {
        let best = &self.goal.best.events;
        if best.len() <= SHORT && SegmentOrder::of(best).pieces.len() <= MANY_SEGMENTS {
            return Ok(());
        }
        let mut turns = TakesTurns::new(self.goal.best.clone(), self.runner.work);
        while self.step(&mut turns)? {}
        self.stats.rounds += turns.tinertia.stats.rounds;
        self.reorder_best_if_worth_it().map(drop)
    }

    /// Lets Tinertia work if it is its turn; returns whether it improved the best trace.
    pub(super) fn take_turns(&mut self) -> Result<bool, R::Error> {
        let Some(mut turns) = self.tinertia.take() else { return Ok(false) };
        let before = self.goal.rank;
        while turns.is_its_turn(self.runner.work, before.0.switches) && self.step(&mut turns)? {}
        self.tinertia = Some(turns);
        Ok(self.goal.rank < before)
    }

    /// Lets Tinertia come to its end, and improves its result.
    pub(super) fn finish_tinertia(&mut self) -> Result<(), R::Error> {
        let Some(mut turns) = self.tinertia.take() else { return Ok(()) };
        let before = self.goal.rank;
        while !turns.is_hopeless(self.runner.work, self.goal.rank.0.switches) && self.step(&mut turns)? {}
        self.stats.rounds += turns.tinertia.stats.rounds;
        self.improve_statically(&turns.tinertia.current)?;
        if self.goal.rank < before { self.descend() } else { Ok(()) }
    }

    /// Runs Tinertia's next candidate; returns false if there is none.
    fn step(&mut self, turns: &mut TakesTurns) -> Result<bool, R::Error> {
        self.runner.runner.check_interrupt()?;
        if self.runs_left() == 0 {
            return Ok(false);
        }
        let Some(plan) = turns.tinertia.next_plan() else { return Ok(false) };
        let before = self.runner.work;
        let actual = self.execute(&plan)?;
        turns.spent += self.runner.work - before;
        if let Some(transformation) = turns.tinertia.observe(actual)
            && self.goal.is_met_by(&turns.tinertia.current)
        {
            self.accept(turns.tinertia.current.clone(), transformation)?;
        }
        Ok(true)
    }
}
