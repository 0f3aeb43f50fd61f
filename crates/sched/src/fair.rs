//! Without preemptions, and fair: the tail of simplified schedules (Tinertia, section 4.2.1, after
//! Musuvathi and Qadeer's fair scheduling) and the order of a plain recording.
//!
//! A thread runs until it cannot, or until it gives way: it yields, sleeps or spins. Then the next
//! in the order of creation goes on. Whoever runs very long without doing any of that is made to
//! give way once, since polling loops over several operations look like progress.

use crate::World;
use unsnarl_model::ThreadIx;

/// So many points in a row, and a thread must let the others go first.
const PATIENCE: u32 = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Fair {
    in_a_row: u32,
}

impl Fair {
    #[inline]
    pub(crate) fn pick(&mut self, world: &impl World) -> ThreadIx {
        let current = world.current();
        if self.in_a_row < PATIENCE && world.ready().contains(current) && !world.gives_way(current) {
            self.in_a_row += 1;
            return current;
        }
        self.in_a_row = 0;
        next_in_turn(world)
    }
}

/// Who goes on when the current thread cannot or should not: first those with work to do, then
/// those who give way and those whose time must pass for them to go on.
fn next_in_turn(world: &impl World) -> ThreadIx {
    let current = world.current();
    let others = || world.ready().iter_after(current).filter(|&t| t != current);
    others()
        .find(|&t| !world.gives_way(t))
        .or_else(|| {
            let late = world.late().iter_after(current).filter(|&t| t != current);
            // In turn, so that a spinning thread and a sleeping one both go on.
            match (others().next(), late.min_by_key(|&t| turn(current, t))) {
                (Some(a), Some(b)) => Some(if turn(current, a) < turn(current, b) { a } else { b }),
                (Some(a), None) => Some(a),
                (None, Some(_)) if !world.ready().contains(current) => world.first_late(),
                (None, late) => late,
            }
        })
        .unwrap_or(current)
}

/// How far behind `current` a thread's turn is.
fn turn(current: ThreadIx, thread: ThreadIx) -> u16 {
    thread.0.wrapping_sub(current.0).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Toy;

    #[test]
    fn a_thread_runs_until_it_cannot() {
        let mut toy = Toy::new(3);
        let mut fair = Fair::default();
        assert_eq!(fair.pick(&toy), ThreadIx(0));
        toy.block(ThreadIx(0));
        assert_eq!(fair.pick(&toy), ThreadIx(1));
    }

    #[test]
    fn who_gives_way_lets_the_others_go_first() {
        let mut toy = Toy::new(3);
        let mut fair = Fair::default();
        toy.give_way(ThreadIx(0), true);
        assert_eq!(fair.pick(&toy), ThreadIx(1));
        toy.give_way(ThreadIx(1), true);
        toy.give_way(ThreadIx(2), true);
        toy.run(ThreadIx(1));
        assert_eq!(fair.pick(&toy), ThreadIx(2), "all give way: in turn");
    }

    #[test]
    fn sleepers_go_on_when_the_rest_only_spins() {
        let mut toy = Toy::new(2);
        let mut fair = Fair::default();
        toy.give_way(ThreadIx(0), true);
        toy.make_late(ThreadIx(1));
        assert_eq!(fair.pick(&toy), ThreadIx(1));
    }

    #[test]
    fn the_earliest_deadline_passes_first() {
        let mut toy = Toy::new(3);
        let mut fair = Fair::default();
        toy.block(ThreadIx(0));
        toy.make_late(ThreadIx(1));
        toy.make_late(ThreadIx(2));
        toy.first_late = Some(ThreadIx(2));
        assert_eq!(fair.pick(&toy), ThreadIx(2));
    }

    #[test]
    fn nobody_runs_for_ever() {
        let toy = Toy::new(2);
        let mut fair = Fair::default();
        assert!((0..=PATIENCE).any(|_| fair.pick(&toy) == ThreadIx(1)));
    }
}
