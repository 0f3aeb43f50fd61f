//! Race-directed random testing: Sen, "Race Directed Random Testing of Concurrent Programs", PLDI 2008,
//! algorithm 1; over contended locks as in the Tinertia paper, section 5.5.
//!
//! A random walk in which a thread that reaches one of two sites is held there. When another thread reaches
//! the other site, on the same object, the two are about to conflict: the one at the first site goes first,
//! then the other. If all threads that can run are held, one of them is released.
//!
//! Deviations: the plan, not chance, decides which of the two goes first, so that a search can try the order
//! that it has not seen. The running thread is changed at a rate drawn for each run instead of at each
//! schedule point, because only the two sites matter. A released thread is not held again at the same
//! operation, so that no thread is held for ever.

use crate::{RunView, ThreadSet, rng::Rng};
use unsnarl_model::ThreadIx;

/// The running thread is changed at one in this many schedule points; one rate is drawn for each run.
const SWITCH_RATES: [u32; 4] = [2, 4, 16, 64];

/// The numbers of consecutive schedule points at which the other threads only wait, or do anything at all,
/// before a held thread is released: they may be waiting for it.
const STALL_LIMITS: StallLimits = StallLimits { waiting: 32, working: 1000 };

#[derive(Clone, Copy, Debug)]
struct StallLimits {
    waiting: u32,
    working: u32,
}

#[derive(Debug)]
pub(crate) struct RaceDirectedScheduler {
    rng: Rng,
    switch_rate: u32,
    places: [u16; 2],
    held: ThreadSet,
    /// Threads that were released and have not executed their operation yet.
    released: ThreadSet,
    /// The thread that goes next, after the first of a conflicting pair.
    next: Option<ThreadIx>,
    stalls: StallLimits,
}

impl RaceDirectedScheduler {
    pub(crate) fn new(first: u16, second: u16, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let switch_rate = SWITCH_RATES[rng.below(SWITCH_RATES.len() as u32) as usize];
        Self {
            rng,
            switch_rate,
            places: [first, second],
            held: ThreadSet::new(),
            released: ThreadSet::new(),
            next: None,
            stalls: STALL_LIMITS,
        }
    }

    pub(crate) fn pick(&mut self, world: &impl RunView) -> ThreadIx {
        let can_run =
            |thread: ThreadIx| world.ready().contains(thread) || world.may_expire().contains(thread);
        if let Some(next) = self.next.take().filter(|&next| can_run(next)) {
            self.released.set(next, false);
            return next;
        }
        if !self.held.is_empty() && self.is_stalled(world) {
            return self.release(world);
        }
        loop {
            let Some(thread) = self.candidate(world) else { return self.release(world) };
            let at = self.places.map(|place| world.is_at(thread, place));
            if at == [false, false] || self.released.contains(thread) {
                self.released.set(thread, false);
                return thread;
            }
            let Some(partner) = self.partner(world, thread, at) else {
                self.held.set(thread, true);
                self.stalls = STALL_LIMITS;
                continue;
            };
            // If both are at both sites, either may be the first.
            let goes_first = at[0] && (!at[1] || self.rng.below(2) == 0);
            let (first, second) = if goes_first { (thread, partner) } else { (partner, thread) };
            self.held.set(partner, false);
            self.released.set(second, true);
            self.next = (self.rng.below(4) != 0).then_some(second);
            return first;
        }
    }

    fn is_stalled(&mut self, world: &impl RunView) -> bool {
        let mut free = world.ready().iter().filter(|&thread| !self.held.contains(thread));
        let work = free.any(|thread| !world.yields(thread));
        self.stalls.waiting = if work { STALL_LIMITS.waiting } else { self.stalls.waiting.saturating_sub(1) };
        self.stalls.working = self.stalls.working.saturating_sub(1);
        self.stalls.waiting == 0 || self.stalls.working == 0
    }

    /// Returns a thread that is not held: mostly the one that ran last.
    fn candidate(&mut self, world: &impl RunView) -> Option<ThreadIx> {
        let current = world.current();
        if world.current_can_continue()
            && !self.held.contains(current)
            && self.rng.below(self.switch_rate) != 0
        {
            return Some(current);
        }
        let all = || world.ready().iter().chain(world.may_expire().iter());
        let count = all().filter(|&thread| !self.held.contains(thread)).count() as u32;
        if count == 0 {
            return None;
        }
        let nth = if count == 1 { 0 } else { self.rng.below(count) as usize };
        all().filter(|&thread| !self.held.contains(thread)).nth(nth)
    }

    /// Returns a held thread at the other site whose operation conflicts with the thread's.
    fn partner(&self, world: &impl RunView, thread: ThreadIx, at: [bool; 2]) -> Option<ThreadIx> {
        let [first, second] = self.places;
        let opposite =
            |other: ThreadIx| (at[0] && world.is_at(other, second)) || (at[1] && world.is_at(other, first));
        let can_run = |other| world.ready().contains(other) || world.may_expire().contains(other);
        self.held.iter().find(|&other| can_run(other) && opposite(other) && world.conflict(thread, other))
    }

    /// Releases one of the held threads at random; returns any thread if none of them can run.
    fn release(&mut self, world: &impl RunView) -> ThreadIx {
        self.stalls = STALL_LIMITS;
        let all = || world.ready().iter().chain(world.may_expire().iter());
        let held = all().filter(|&thread| self.held.contains(thread)).count();
        let is_candidate = |race: &Self, thread: ThreadIx| held == 0 || race.held.contains(thread);
        let count = all().filter(|&thread| is_candidate(self, thread)).count() as u32;
        let nth = if count > 1 { self.rng.below(count) as usize } else { 0 };
        let thread = all().filter(|&thread| is_candidate(self, thread)).nth(nth).unwrap_or(ThreadIx::MAIN);
        self.held.set(thread, false);
        thread
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Toy;
    use unsnarl_model::Op;

    /// Thread 0 makes `steps` steps and then writes at site 7; thread 1 writes at site 7 at once. Returns the
    /// thread that came first there.
    fn first_there(places: [u16; 2], seed: u64, steps: u64) -> ThreadIx {
        let mut toy = Toy::new(2);
        let mut race = RaceDirectedScheduler::new(places[0], places[1], seed);
        toy.next(ThreadIx(1), Op::Write, 7);
        toy.put(ThreadIx(1), 1);
        let mut done = 0;
        loop {
            if done == steps {
                toy.next(ThreadIx(0), Op::Write, 7);
                toy.put(ThreadIx(0), 0);
            } else {
                toy.next(ThreadIx(0), Op::Write, 100 + done);
            }
            let thread = race.pick(&toy);
            toy.run(thread);
            if thread == ThreadIx(1) || done == steps {
                return thread;
            }
            done += 1;
        }
    }

    #[test]
    fn planned_order_holds_for_late_partner() {
        for seed in 0..200 {
            assert_eq!(first_there([0, 1], seed, 200), ThreadIx(0));
            assert_eq!(first_there([1, 0], seed, 200), ThreadIx(1));
        }
    }

    #[test]
    fn held_thread_is_released_when_others_wait_for_it() {
        let mut toy = Toy::new(2);
        let mut race = RaceDirectedScheduler::new(0, 0, 1);
        toy.next(ThreadIx(0), Op::Write, 7);
        toy.put(ThreadIx(0), 0);
        toy.set_yields(ThreadIx(1), true);
        let picks = (0..100).map(|_| {
            let thread = race.pick(&toy);
            toy.run(thread);
            thread
        });
        assert!(picks.take(60).any(|thread| thread == ThreadIx(0)));
    }

    #[test]
    fn one_thread_is_released_when_all_are_held() {
        let mut toy = Toy::new(2);
        let mut race = RaceDirectedScheduler::new(0, 0, 1);
        for thread in [ThreadIx(0), ThreadIx(1)] {
            toy.next(thread, Op::Write, 100 + u64::from(thread.0));
            toy.put(thread, 0);
        }
        // Both are at the site, but on different objects.
        let first = race.pick(&toy);
        toy.run(first);
        assert!(race.held.len() <= 2);
        race.pick(&toy);
    }
}
