//! Which time-outs may expire now.
//!
//! Nothing takes time in a controlled run, so the scheduler decides when a sleep or a timed wait ends. That it ends
//! *early*, before other threads do what they could do at once, is what happens natively if those threads were
//! preempted for that long. Bugs need this, so a search must try it; but it must not happen again and again,
//! because then a correct program that polls never ends. [`Timeouts::Fair`] therefore treats it as something that
//! has a price:
//!
//! - *Time passes by rights* up to the earliest deadline if no thread is ready; likewise, the longer the more, if all
//!   ready threads do nothing but poll without effect ([`idle_time`]).
//! - *Credit.* A time-out that skips time while other threads can go on pays for what it skips, and at least
//!   [`LEAST_PRICE`]. There is a credit of [`MOST_CREDIT`], and each event gives [`PACE`] back. A longer time-out
//!   cannot pay.
//! - *Patience.* A wait that has lasted for many events of other threads, in proportion to its length, may end at no
//!   price: it is as if each event had taken [`PACE`]. So long time-outs expire too if others run on and on.
//! - *Both get more expensive* with each early time-out of the same thread.
//!
//! # Why programs that poll terminate
//!
//! Let E be the number of events so far.
//!
//! 1. All early time-outs up to then skipped at most `MOST_CREDIT + 2·PACE·E` of time: the credit pays for those that
//!    have a price, and patience ends a wait of length L after L/`PACE` events. So virtual time does not run away.
//! 2. The n-th early time-out of a thread takes a number of events that grows with n, whether they earn credit or are
//!    waited for. So a thread has O(√E) of them, and however long a round of polling is, the share of such rounds in all
//!    events goes to 0.
//! 3. A wait may end at the latest when the events of (2) have happened. From then on its thread can go on like any
//!    other, and `starvation.rs` guarantees that it does.
//!
//! By (3), every thread that can go on natively does so in a controlled run; by (2), rounds of polling do not crowd out
//! the rest. So an infinite run would be a fair infinite execution of the program, in which time passes without bound,
//! and a correct program has none.

use crate::ThreadSet;
use unsnarl_model::{ThreadIx, Timeouts};

/// A millisecond of virtual time.
const MS: u64 = 1_000_000;
/// The time that may be skipped early altogether, if no event gives credit back. Longer time-outs are long.
const MOST_CREDIT: u64 = 900 * MS;
/// The time that an event of some thread may stand for.
const PACE: u64 = MS / 10;
/// The least price of an early time-out.
const LEAST_PRICE: u64 = 10 * MS;
/// By how much the least price rises with each early time-out of the same thread.
const PRICE_RISE: u64 = MS;
/// The least number of events after which a wait may end for free; as many more for each early time-out of the
/// same thread.
const LEAST_PATIENCE: u64 = 32;
/// The number of fruitless events, for each ready thread, that double the time that passes by rights.
const IDLE_ROUND: u64 = 16;

/// The progress of the run, on which time-outs depend.
#[derive(Clone, Copy, Debug)]
pub struct RunProgress {
    /// The virtual time.
    pub now: u64,
    /// The number of events.
    pub events: u64,
    /// The number of events since the last one that changed anything.
    pub fruitless: u64,
}

/// A wait of a thread that can go on only by a time-out.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimedWait {
    /// The time at which it ends; `None` if something other than time ends it.
    pub deadline: Option<u64>,
    /// See [`EarlyTimeouts::patience`].
    pub patience: u64,
    /// The number of early time-outs that the thread had.
    pub early: u32,
}

/// The time-outs that had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// Some whose price was too high for the moment.
    pub short: bool,
    /// Some that are too long to expire early.
    pub long: bool,
}

/// The rule for time-outs, and the set of those that may expire now.
#[derive(Debug)]
pub struct EarlyTimeouts {
    rule: Timeouts,
    may_expire: ThreadSet,
    /// The credit at [`Self::credited`], an event's number.
    credit: u64,
    credited: u64,
    /// The time that has passed by rights when the set was determined; 0 if it is the present.
    passed: u64,
    /// The set is valid up to this event, unless waits begin or end.
    valid_until: u64,
    withheld: Withheld,
}

impl EarlyTimeouts {
    /// Creates the rule, with no waits.
    #[must_use]
    pub const fn new(rule: Timeouts) -> Self {
        Self {
            rule,
            may_expire: ThreadSet::new(),
            credit: MOST_CREDIT,
            credited: 0,
            passed: 0,
            valid_until: 0,
            withheld: Withheld { short: false, long: false },
        }
    }

    /// Returns the rule.
    #[must_use]
    pub const fn rule(&self) -> Timeouts {
        self.rule
    }

    /// Returns the threads whose wait may end by a time-out now.
    #[must_use]
    #[inline]
    pub const fn may_expire(&self) -> &ThreadSet {
        &self.may_expire
    }

    /// Returns the time-outs that could not expire early so far.
    #[must_use]
    pub const fn withheld(&self) -> Withheld {
        self.withheld
    }

    /// Returns the number of the event from which on a wait that begins now may end at no price.
    #[must_use]
    pub fn patience(&self, run: RunProgress, deadline: u64, early: u32) -> u64 {
        let length = deadline.saturating_sub(run.now) / PACE;
        run.events.saturating_add(length.max(LEAST_PATIENCE * (1 + u64::from(early))))
    }

    /// Notes that a thread can go on only by a time-out from now on, or that its wait has changed.
    pub fn enter(&mut self, thread: ThreadIx) {
        if self.rule == Timeouts::Eager {
            self.may_expire.set(thread, true);
        }
        self.invalidate();
    }

    /// Notes that a thread does not wait for a time-out any more.
    pub fn leave(&mut self, thread: ThreadIx) {
        self.may_expire.set(thread, false);
        self.invalidate();
    }

    /// Makes the next [`update`](Self::update) necessary.
    pub const fn invalidate(&mut self) {
        self.valid_until = 0;
    }

    /// Returns whether the set may have changed since it was determined.
    #[must_use]
    #[inline]
    pub fn is_outdated(&self, run: RunProgress, ready: &ThreadSet) -> bool {
        self.rule != Timeouts::Eager
            && (run.events >= self.valid_until
                || ready.is_empty()
                || self.passed > 0
                || run.fruitless >= IDLE_ROUND * ready.len() as u64)
    }

    /// Determines which of the threads in `by_timeout` may go on now.
    pub fn update(
        &mut self,
        run: RunProgress,
        ready: &ThreadSet,
        by_timeout: &ThreadSet,
        yields: impl Fn(ThreadIx) -> bool,
        wait: impl Fn(ThreadIx) -> TimedWait,
    ) {
        let earliest = by_timeout.iter().filter_map(|thread| wait(thread).deadline).min();
        self.passed = match earliest {
            Some(earliest) if ready.is_empty() => earliest,
            Some(earliest) => match idle_time(run.fruitless, ready.len()) {
                0 => 0,
                idle if ready.iter().all(yields) => earliest.min(run.now.saturating_add(idle)),
                _ => 0,
            },
            None => 0,
        };
        let base = run.now.max(self.passed);
        let credit = if self.rule == Timeouts::Fair { self.credit_at(run.events) } else { 0 };
        self.valid_until = u64::MAX;
        for thread in by_timeout.iter() {
            let TimedWait { deadline, patience, early } = wait(thread);
            let skipped = deadline.map_or(0, |deadline| deadline.saturating_sub(base));
            let price = price(skipped, early);
            let is_paid = price <= credit || (self.rule == Timeouts::Fair && run.events >= patience);
            let may = skipped == 0 || is_paid;
            self.may_expire.set(thread, may);
            if !may {
                self.withheld.long |= skipped > MOST_CREDIT;
                self.withheld.short |= skipped <= MOST_CREDIT;
                // Time itself passes more slowly than the credit grows.
                let affordable = (price - credit) / (2 * PACE);
                self.valid_until = self.valid_until.min(patience).min(run.events.saturating_add(affordable));
            }
        }
    }

    /// Notes that a wait ends by its time-out. Returns whether it ended early.
    pub fn expire(&mut self, run: RunProgress, wait: TimedWait) -> bool {
        let base = run.now.max(self.passed);
        let skipped = wait.deadline.map_or(0, |deadline| deadline.saturating_sub(base));
        if skipped == 0 || self.rule == Timeouts::Eager {
            return false;
        }
        if run.events < wait.patience {
            self.credit = self.credit_at(run.events).saturating_sub(price(skipped, wait.early));
            self.credited = run.events;
        }
        true
    }

    /// Returns the credit after so many events.
    fn credit_at(&self, events: u64) -> u64 {
        let earned = (events - self.credited).saturating_mul(PACE);
        self.credit.saturating_add(earned).min(MOST_CREDIT)
    }
}

/// Returns what it costs to skip so much time after so many early time-outs of the same thread.
fn price(skipped: u64, early: u32) -> u64 {
    skipped.max(LEAST_PRICE + PRICE_RISE * u64::from(early))
}

/// Returns how much time passes by rights if so many threads have done nothing but poll for so many events: none at
/// first, then twice as much with each round. A thread that has something to do needs less than such a round to find
/// that out.
fn idle_time(fruitless: u64, ready: usize) -> u64 {
    match fruitless / (ready as u64 * IDLE_ROUND) {
        0 => 0,
        rounds => MS << rounds.min(40),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    const FIRST: ThreadIx = ThreadIx(0);

    /// Threads that wait, and one that is ready unless `alone`.
    struct Waits {
        rule: EarlyTimeouts,
        run: RunProgress,
        ready: ThreadSet,
        waiting: ThreadSet,
        waits: Vec<TimedWait>,
    }

    impl Waits {
        fn new(rule: Timeouts, lengths: &[u64], is_ready: bool) -> Self {
            let run = RunProgress { now: 1_000 * MS, events: 50, fruitless: 0 };
            let mut waits = Self {
                rule: EarlyTimeouts::new(rule),
                run,
                ready: ThreadSet::new(),
                waiting: ThreadSet::new(),
                waits: vec![TimedWait::default(); lengths.len()],
            };
            waits.ready.set(ThreadIx(lengths.len() as u16), is_ready);
            lengths.iter().enumerate().for_each(|(ix, &length)| waits.begin(ix, length));
            waits
        }

        /// The thread begins to wait.
        fn begin(&mut self, ix: usize, length: u64) {
            let deadline = self.run.now + length;
            let early = self.waits[ix].early;
            let patience = self.rule.patience(self.run, deadline, early);
            self.waits[ix] = TimedWait { deadline: Some(deadline), patience, early };
            self.waiting.set(ThreadIx(ix as u16), true);
            self.rule.enter(ThreadIx(ix as u16));
        }

        fn may_expire(&mut self, spinning: bool) -> Vec<u16> {
            let Self { rule, run, ready, waiting, waits } = self;
            if rule.is_outdated(*run, ready) {
                rule.update(*run, ready, waiting, |_| spinning, |thread| waits[thread.index()]);
            }
            rule.may_expire().iter().map(|thread| thread.0).collect()
        }

        /// The time-out expires, and the thread waits again.
        fn expire(&mut self, ix: usize, length: u64) {
            let wait = self.waits[ix];
            self.waits[ix].early += u32::from(self.rule.expire(self.run, wait));
            self.run.now = self.run.now.max(wait.deadline.unwrap_or(0));
            self.rule.leave(ThreadIx(ix as u16));
            self.begin(ix, length);
        }
    }

    #[test]
    fn short_timeouts_may_expire_early_and_long_ones_may_not() {
        let mut waits = Waits::new(Timeouts::Fair, &[5 * MS, 800 * MS, 1_000 * MS], true);
        assert_eq!(waits.may_expire(false), [0, 1]);
        assert_eq!(waits.rule.withheld(), Withheld { short: false, long: true });
        assert_eq!(Waits::new(Timeouts::Eager, &[5 * MS, 10_000_000 * MS], true).may_expire(false), [0, 1]);
        assert_eq!(Waits::new(Timeouts::Late, &[5 * MS], true).may_expire(false), [0; 0]);
    }

    #[test]
    fn earliest_timeout_expires_if_no_thread_is_ready() {
        for rule in [Timeouts::Fair, Timeouts::Late] {
            let mut waits = Waits::new(rule, &[60_000 * MS, 3_000 * MS, 3_000 * MS], false);
            assert_eq!(waits.may_expire(false), [1, 2], "{rule:?}");
            waits.expire(1, 1);
            assert_eq!(waits.waits[1].early, 0, "that was not early");
        }
        let mut waits = Waits::new(Timeouts::Fair, &[20 * MS, 30 * MS], false);
        assert_eq!(waits.may_expire(false), [0, 1], "the order of two short sleeps may change");
    }

    #[test]
    fn early_timeouts_are_bounded_while_others_stand_still() {
        for length in [MS, 5 * MS, 100 * MS, 899 * MS] {
            let mut waits = Waits::new(Timeouts::Fair, &[length], true);
            let begin = waits.run.now;
            let mut times = 0;
            while waits.may_expire(false) == [0] {
                waits.expire(0, length);
                times += 1;
            }
            assert!((1..=90).contains(&times), "{length}: {times}");
            assert!(waits.run.now - begin <= MOST_CREDIT);
        }
    }

    #[test]
    fn share_of_early_timeouts_vanishes_in_long_runs() {
        // A round of polling has 200 events, longer than it takes to earn the least price.
        for length in [MS / 10, MS, 5 * MS] {
            let mut waits = Waits::new(Timeouts::Fair, &[length], true);
            let (mut polls, mut others) = (0, 0);
            let begin = waits.run.now;
            while waits.run.events < 2_000_000 {
                if waits.may_expire(false) == [0] {
                    waits.expire(0, length);
                    waits.run.events += 200;
                    polls += 200;
                } else {
                    waits.run.events += 1;
                    others += 1;
                }
            }
            assert!(polls < others, "{length}: {polls} events of polling, {others} of work");
            assert!(polls > 200, "but it does poll");
            assert!(waits.run.now - begin <= MOST_CREDIT + 2 * PACE * waits.run.events);
        }
    }

    #[test]
    fn long_timeout_expires_when_others_run_on() {
        let mut waits = Waits::new(Timeouts::Fair, &[60_000 * MS], true);
        waits.run.events += 500_000;
        assert_eq!(waits.may_expire(false), [0; 0]);
        waits.run.events += 100_000;
        assert_eq!(waits.may_expire(false), [0]);
    }

    #[test]
    fn any_timeout_expires_when_others_only_poll() {
        for rule in [Timeouts::Fair, Timeouts::Late] {
            let mut waits = Waits::new(rule, &[10_000_000 * MS], true);
            let mut polls = 0;
            while waits.may_expire(true).is_empty() {
                waits.run.fruitless += 1;
                waits.run.events += 1;
                polls += 1;
            }
            assert!((100..1_000).contains(&polls), "{polls}");
            waits.run.fruitless = 0;
            assert_eq!(waits.may_expire(true), [0; 0], "something has changed");
        }
    }

    #[test]
    fn threads_with_work_to_do_keep_time_from_passing() {
        let mut waits = Waits::new(Timeouts::Late, &[5 * MS], true);
        waits.run.fruitless = 100_000;
        assert_eq!(waits.may_expire(false), [0; 0]);
    }

    #[test]
    fn waits_without_deadline_may_always_end() {
        let mut waits = Waits::new(Timeouts::Late, &[MS], true);
        waits.waits[0].deadline = None;
        waits.rule.enter(FIRST);
        assert_eq!(waits.may_expire(false), [0]);
    }
}
