//! Non-preemptive and fair scheduling: the tail of simplified schedules (Tinertia, section 4.2.1, after
//! Musuvathi and Qadeer's fair scheduling) and the order of a plain recording.
//!
//! A thread runs until it blocks, yields, sleeps or spins. Then the next thread in creation order goes on. A
//! thread that runs very long without doing any of that is made to yield once, since polling loops over
//! several operations look like progress.

use crate::{RunView, ThreadSet};
use unsnarl_model::ThreadIx;

/// The number of consecutive schedule points after which a thread must yield to the others.
const MAX_CONSECUTIVE: u32 = 10_000;

#[derive(Debug, Default)]
pub(crate) struct FairScheduler {
    in_a_row: u32,
}

impl FairScheduler {
    #[inline]
    pub(crate) fn pick(&mut self, world: &impl RunView) -> ThreadIx {
        if self.in_a_row < MAX_CONSECUTIVE && world.current_can_continue() {
            self.in_a_row += 1;
            return world.current();
        }
        self.in_a_row = 0;
        next_in_turn(world)
    }
}

/// Picks the thread that goes on when the current one cannot or should not: first those with work to do;
/// then, in turn, those that yield and those that wait for a timeout, so that a spinning thread and a
/// sleeping one both progress.
fn next_in_turn(world: &impl RunView) -> ThreadIx {
    let current = world.current();
    let (ready, may_expire) = (world.ready(), world.may_expire());
    let next = |set: &ThreadSet| set.next_after(current).filter(|&t| t != current);
    let first = next(ready);
    let mut candidate = first;
    while let Some(thread) = candidate {
        if !world.yields(thread) {
            return thread;
        }
        candidate = ready.next_after(thread).filter(|&t| t != current && Some(t) != first);
    }
    if may_expire.is_empty() {
        return first.unwrap_or(current);
    }
    match (first, next(may_expire)) {
        (Some(a), Some(b)) => {
            if turn(current, a) < turn(current, b) {
                a
            } else {
                b
            }
        }
        (Some(thread), None) => thread,
        (None, Some(thread)) if ready.contains(current) => thread,
        (None, _) => world.earliest_timeout().unwrap_or(current),
    }
}

/// Returns how far behind `current` a thread's turn is.
const fn turn(current: ThreadIx, thread: ThreadIx) -> u16 {
    thread.0.wrapping_sub(current.0).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Toy;

    #[test]
    fn thread_runs_until_it_blocks() {
        let mut toy = Toy::new(3);
        let mut fair = FairScheduler::default();
        assert_eq!(fair.pick(&toy), ThreadIx(0));
        toy.block(ThreadIx(0));
        assert_eq!(fair.pick(&toy), ThreadIx(1));
    }

    #[test]
    fn yielding_thread_lets_others_run() {
        let mut toy = Toy::new(3);
        let mut fair = FairScheduler::default();
        toy.set_yields(ThreadIx(0), true);
        assert_eq!(fair.pick(&toy), ThreadIx(1));
        toy.set_yields(ThreadIx(1), true);
        toy.set_yields(ThreadIx(2), true);
        toy.run(ThreadIx(1));
        assert_eq!(fair.pick(&toy), ThreadIx(2), "all give way: in turn");
    }

    #[test]
    fn sleepers_wake_when_others_only_spin() {
        let mut toy = Toy::new(2);
        let mut fair = FairScheduler::default();
        toy.set_yields(ThreadIx(0), true);
        toy.set_by_timeout(ThreadIx(1));
        assert_eq!(fair.pick(&toy), ThreadIx(1));
    }

    #[test]
    fn earliest_deadline_expires_first() {
        let mut toy = Toy::new(3);
        let mut fair = FairScheduler::default();
        toy.block(ThreadIx(0));
        toy.set_by_timeout(ThreadIx(1));
        toy.set_by_timeout(ThreadIx(2));
        toy.earliest_timeout = Some(ThreadIx(2));
        assert_eq!(fair.pick(&toy), ThreadIx(2));
    }

    #[test]
    fn long_running_thread_is_preempted() {
        let toy = Toy::new(2);
        let mut fair = FairScheduler::default();
        assert!((0..=MAX_CONSECUTIVE).any(|_| fair.pick(&toy) == ThreadIx(1)));
    }
}
