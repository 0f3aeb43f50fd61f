//! Leaves out the end or the beginning of a long schedule.
//!
//! Often a failure is decided long before it shows: once an update is lost, it does not matter how the threads
//! are scheduled. Then the schedule can end there, and the run continues without preemptions. And a program that does
//! the same again and again often does it at its beginning as well: without the first part of the schedule, once all
//! threads have begun, each of them runs until it comes to the operation with which the rest of its schedule begins. Both
//! places are found by halving.

use super::Simplifier;
use crate::{
    Runner,
    dynamic::{Transformation, segment_order::SegmentOrder},
};

/// The part of the schedule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    End,
    Beginning,
}

impl<R: Runner> Simplifier<'_, R> {
    /// Leaves out as many segments of the best trace as possible from its end or its beginning.
    pub(super) fn truncate(&mut self, part: Part) -> Result<(), R::Error> {
        let base = self.goal.best.clone();
        let segments = SegmentOrder::of(&base.events);
        let first = match part {
            Part::End => 0,
            Part::Beginning => all_begun(&segments),
        };
        // So many can be left out, and so many cannot.
        let (mut can, mut cannot) = (0, segments.pieces.len() - first);
        while cannot - can > 1 && self.runs_left() > 0 {
            let count = usize::midpoint(can, cannot);
            let left = match part {
                Part::End => segments.pieces[..segments.pieces.len() - count].to_vec(),
                Part::Beginning => [&segments.pieces[..first], &segments.pieces[first + count..]].concat(),
            };
            let plan = SegmentOrder { pieces: left }.plan(&base);
            let is_better = !self.is_known_useless(&plan) && {
                let actual = self.execute(&plan)?;
                self.accept(actual, Transformation::RemoveLast)?
            };
            *(if is_better { &mut can } else { &mut cannot }) = count;
        }
        Ok(())
    }
}

/// Returns the number of segments after which all threads have begun.
fn all_begun(segments: &SegmentOrder) -> usize {
    let is_first = |&at: &usize| segments.previous(at).is_none();
    (0..segments.pieces.len()).rfind(is_first).map_or(0, |last| last + 1)
}
