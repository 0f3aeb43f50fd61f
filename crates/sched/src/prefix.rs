//! Following a schedule exactly.

use crate::{Pick, PrefixDivergence, RunView, is_about_to};
use alloc::vec::Vec;
use unsnarl_model::{PlannedAction, Segment};

/// A prefix without its tables of threads and modules: the segments to follow, with the planned action at each
/// schedule point.
#[derive(Clone, Debug, Default)]
pub struct PrefixSteps {
    /// The threads and their numbers of schedule points, by the plan's numbering of threads.
    pub segments: Vec<Segment>,
    /// The planned actions; one for each schedule point, or none at all.
    pub actions: Vec<PlannedAction>,
}

/// Exact replay: the thread of the schedule runs and does what is planned, or the run has diverged.
#[derive(Debug)]
pub(crate) struct ExactFollower {
    prefix: PrefixSteps,
    segment: usize,
    /// The number of schedule points of the current segment that are done.
    done: u32,
    /// The total number of schedule points that are done.
    point: u64,
}

impl ExactFollower {
    pub(crate) const fn new(prefix: PrefixSteps) -> Self {
        Self { prefix, segment: 0, done: 0, point: 0 }
    }

    /// Picks the next thread; returns `None` at the end of the schedule.
    #[inline]
    pub(crate) fn pick(&mut self, world: &impl RunView) -> Option<Pick> {
        let mut segment = self.prefix.segments.get(self.segment)?;
        while self.done == segment.points {
            self.segment += 1;
            self.done = 0;
            segment = self.prefix.segments.get(self.segment)?;
        }
        let thread = world.resolve_thread(segment.thread);
        let runnable = thread.is_some_and(|t| world.ready().contains(t) || world.by_timeout().contains(t));
        let planned = self.prefix.actions.get(self.point as usize);
        match thread {
            Some(thread) if runnable && planned.is_none_or(|planned| is_about_to(world, thread, planned)) => {
                self.done += 1;
                self.point += 1;
                Some(Pick::Run(thread))
            }
            _ => Some(Pick::Diverged(PrefixDivergence {
                point: self.point,
                expected: segment.thread,
                thread,
                runnable,
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Toy;
    use alloc::vec;
    use unsnarl_model::{Action, Op, Site, ThreadIx};

    fn segment(thread: u16, points: u32) -> Segment {
        Segment { thread: ThreadIx(thread), points }
    }

    #[test]
    fn exact_prefix_is_followed_then_ends() {
        let toy = Toy::new(2);
        let prefix = PrefixSteps { segments: vec![segment(0, 1), segment(1, 2)], actions: vec![] };
        let mut exact = ExactFollower::new(prefix);
        let picks = [exact.pick(&toy), exact.pick(&toy), exact.pick(&toy), exact.pick(&toy)];
        let run = |t| Some(Pick::Run(ThreadIx(t)));
        assert_eq!(picks, [run(0), run(1), run(1), None]);
    }

    #[test]
    fn blocked_thread_or_other_action_diverges() {
        let mut toy = Toy::new(2);
        toy.block(ThreadIx(1));
        let mut exact = ExactFollower::new(PrefixSteps { segments: vec![segment(1, 1)], actions: vec![] });
        assert!(matches!(exact.pick(&toy), Some(Pick::Diverged(PrefixDivergence { runnable: false, .. }))));

        let planned = Action { op: Op::Lock, site: Site::default() }.into();
        let mut exact =
            ExactFollower::new(PrefixSteps { segments: vec![segment(0, 1)], actions: vec![planned] });
        toy.next(ThreadIx(0), Op::Unlock, 0);
        assert!(matches!(
            exact.pick(&toy),
            Some(Pick::Diverged(PrefixDivergence { runnable: true, point: 0, .. }))
        ));
        toy.next(ThreadIx(0), Op::Lock, 0);
        assert_eq!(exact.pick(&toy), Some(Pick::Run(ThreadIx(0))));
    }
}
