//! No thread is neglected for ever, whatever the policy.
//!
//! A policy may favour some threads without end: strict priorities do, a priority that is drawn once and happens to be
//! low does, and skipping threads that poll does if others hand work to each other meanwhile. That is what such a
//! policy is for, as long as it ends: programs in which a thread waits for a neglected one without blocking do not.
//!
//! So time is divided into rounds of [`ROUND`] schedule points. Each thread that can go on at the end of a round and
//! did not run in it gets a turn then: it runs without preemption until it cannot, and all of them together get as
//! many points as a round has. The policy is not consulted meanwhile and does not notice. Runs that are shorter than a
//! round are not affected at all.
//!
//! The guarantee (strong fairness up to a bound): a thread that can go on at the end of each round runs at least once
//! in any two rounds and the turns between them, and if n threads are neglected, each of them gets 1/2n of all points.

use crate::{RunView, ThreadSet};
use alloc::boxed::Box;
use unsnarl_model::ThreadIx;

/// The number of schedule points of a round; more if there are very many threads.
const ROUND: u32 = 1 << 15;
/// The number of points of a round for each thread, at least.
const ROUND_OF_THREAD: u32 = 32;
/// The number of points after which a turn ends if the thread only polls.
const POLLS: u32 = 64;

#[derive(Debug)]
pub(crate) struct StarvationGuard {
    /// The number of points until the round ends; 0 during turns.
    left: u32,
    /// The thread that ran last by the policy.
    last: ThreadIx,
    /// The threads that ran in this round. Large, so it is not beside what every pick needs.
    ran: Box<ThreadSet>,
    turn: Option<Turn>,
}

/// The turn of a neglected thread.
#[derive(Clone, Copy, Debug)]
struct Turn {
    thread: ThreadIx,
    done: u32,
    most: u32,
}

impl StarvationGuard {
    pub(crate) fn new() -> Self {
        Self { left: ROUND, last: ThreadIx::MAIN, ran: Box::default(), turn: None }
    }

    /// Returns the thread that must run now; `None` if the policy may choose.
    #[inline]
    pub(crate) fn pick(&mut self, world: &impl RunView) -> Option<ThreadIx> {
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        self.next_turn(world)
    }

    /// Notes the policy's choice.
    #[inline]
    pub(crate) fn note(&mut self, thread: ThreadIx) {
        if thread != self.last {
            self.last = thread;
            self.ran.set(thread, true);
        }
    }

    #[cold]
    fn next_turn(&mut self, world: &impl RunView) -> Option<ThreadIx> {
        if let Some(turn) = &mut self.turn {
            let goes_on = world.ready().contains(turn.thread)
                && turn.done < turn.most
                && (turn.done < POLLS || !world.yields(turn.thread));
            if goes_on {
                turn.done += 1;
                return Some(turn.thread);
            }
        }
        let Self { ran, turn, .. } = self;
        let mut neglected =
            world.ready().iter().chain(world.may_expire().iter()).filter(|&t| !ran.contains(t));
        if let Some(thread) = neglected.next() {
            let most = turn.map_or_else(|| ROUND / (1 + neglected.count() as u32), |turn| turn.most);
            self.turn = Some(Turn { thread, done: 1, most: most.max(1) });
            self.ran.set(thread, true);
            return Some(thread);
        }
        self.turn = None;
        self.ran.clear();
        self.ran.set(self.last, true);
        self.left = ROUND.max(ROUND_OF_THREAD.saturating_mul(world.ready().len() as u32));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Toy;
    use alloc::vec::Vec;

    /// Runs so many points under a policy that always chooses thread 0.
    fn favour_first(toy: &mut Toy, points: u32) -> Vec<u32> {
        let mut guard = StarvationGuard::new();
        let mut counts = alloc::vec![0; 3];
        for _ in 0..points {
            let thread = guard.pick(toy).unwrap_or_else(|| {
                guard.note(ThreadIx(0));
                ThreadIx(0)
            });
            toy.run(thread);
            counts[thread.index()] += 1;
        }
        counts
    }

    #[test]
    fn neglected_threads_share_half_of_the_points() {
        let counts = favour_first(&mut Toy::new(3), 40 * ROUND);
        let share = 9 * ROUND..=11 * ROUND;
        assert!(counts[1..].iter().all(|count| share.contains(count)), "{counts:?}");
        let mut toy = Toy::new(3);
        toy.block(ThreadIx(1));
        let counts = favour_first(&mut toy, 40 * ROUND);
        assert!(counts[1] == 0 && counts[2] >= 19 * ROUND, "{counts:?}");
    }

    #[test]
    fn short_runs_are_not_affected() {
        assert_eq!(favour_first(&mut Toy::new(3), ROUND), [ROUND, 0, 0]);
    }

    #[test]
    fn polling_thread_has_short_turns() {
        let mut toy = Toy::new(2);
        toy.set_yields(ThreadIx(1), true);
        let counts = favour_first(&mut toy, 10 * ROUND);
        assert!((9 * POLLS..=10 * POLLS).contains(&counts[1]), "{counts:?}");
    }
}
