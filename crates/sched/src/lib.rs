//! The choice of the next thread inside a run.
//!
//! A [`Picker`] is asked before each visible operation and answers with a thread. It sees the run through
//! [`RunView`] only, does no I/O and never allocates after its creation. Its answers depend only on the plan
//! and the observed run: that makes a plan repeatable.
//!
//! Every picker is fair, whatever its policy: a thread that can go on does so in the end (`starvation.rs`), and
//! time-outs are among the choices only as often as others get to run (`early_timeouts.rs`, which has the argument
//! why programs that poll terminate).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod early_timeouts;
mod fair;
mod pct;
mod pos;
mod prefix;
mod race;
mod random;
mod relaxed;
mod rng;
mod set;
mod spin_detector;
mod starvation;
mod toy;

pub use early_timeouts::{EarlyTimeouts, RunProgress, TimedWait, Withheld};
pub use prefix::PrefixSteps;
pub use rng::Rng;
pub use set::ThreadSet;
pub use spin_detector::{SpinDetector, changes_nothing};
pub use toy::Toy;

use alloc::boxed::Box;
use unsnarl_model::{Action, Fidelity, PlannedAction, Policy, ThreadIx};

/// The state of the run that a picker may see.
pub trait RunView {
    /// Returns the thread that ran last.
    fn current(&self) -> ThreadIx;
    /// Returns the threads that can go on now.
    fn ready(&self) -> &ThreadSet;
    /// Returns the threads that can go on only by a timeout or a spurious wake-up: sleeps and timed waits.
    fn by_timeout(&self) -> &ThreadSet;
    /// Returns those of them that may do so now; a policy chooses among these and the threads that are ready.
    fn may_expire(&self) -> &ThreadSet {
        self.by_timeout()
    }
    /// Returns the thread with the earliest deadline, among those that wait for a timeout.
    fn earliest_timeout(&self) -> Option<ThreadIx>;
    /// Returns whether the thread yields to others: it is about to yield or sleep, or it spins.
    fn yields(&self, thread: ThreadIx) -> bool;
    /// Returns whether the thread that ran last can go on and does not yield.
    #[inline]
    fn current_can_continue(&self) -> bool {
        self.ready().contains(self.current()) && !self.yields(self.current())
    }
    /// Returns whether the thread's next operation is this one; sites refer to the plan's modules.
    fn is_about_to(&self, thread: ThreadIx, action: &Action) -> bool;
    /// Returns whether the order of these two threads' next operations can matter: the same object, and at
    /// least one write.
    fn conflict(&self, a: ThreadIx, b: ThreadIx) -> bool;
    /// Returns whether the thread's next operation is at this site of the plan.
    fn is_at(&self, _thread: ThreadIx, _place: u16) -> bool {
        false
    }
    /// Returns whether the thread that ran last has just created a thread and does nothing but continue.
    #[inline]
    fn is_after_creation(&self) -> bool {
        false
    }
    /// Returns the thread of this run that corresponds to this thread of the plan, once it was created.
    fn resolve_thread(&self, in_plan: ThreadIx) -> Option<ThreadIx>;
}

/// Returns whether the thread's next operation is the planned one. It never is where the thread is to run
/// until it blocks.
#[inline]
fn is_about_to(world: &impl RunView, thread: ThreadIx, planned: &PlannedAction) -> bool {
    planned.action().is_some_and(|action| world.is_about_to(thread, action))
}

/// A picker's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This thread runs its next operation.
    Run(ThreadIx),
    /// The plan ends here and does not cover what follows.
    End,
    /// The plan cannot be followed.
    Diverged(PrefixDivergence),
}

/// The reason why an exact prefix could not be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixDivergence {
    /// The schedule point of the prefix.
    pub point: u64,
    /// The thread that should have run, by the plan's numbering.
    pub expected: ThreadIx,
    /// That thread's index in this run; `None` if it was never created.
    pub thread: Option<ThreadIx>,
    /// True if it could have run: then it was about to do something else.
    pub runnable: bool,
}

/// Decides a run: first by the plan's prefix, then by its policy.
#[derive(Debug)]
pub struct Picker {
    prefix: Option<PrefixFollower>,
    /// The scheduler that decides before the policy begins.
    before: Option<fair::FairScheduler>,
    tail: Tail,
    starvation: starvation::StarvationGuard,
    /// Decides whether the policy chooses at a point after the creation of a thread.
    after_creation: Rng,
}

/// At one in so many points after the creation of a thread the policy chooses, if it chooses at random;
/// otherwise the thread continues. A choice at each of them would delay the creation of further threads, and
/// so make it less likely that all of them meet.
const CHOICE_AFTER_CREATION: u32 = 16;

#[derive(Debug)]
enum PrefixFollower {
    Exact(prefix::ExactFollower),
    Relaxed(relaxed::RelaxedFollower),
}

#[derive(Debug)]
enum Tail {
    Stop,
    Fair(fair::FairScheduler),
    Random(random::RandomScheduler),
    Pct(pct::PctScheduler),
    Pos(pos::PosScheduler),
    RaceDirected(Box<race::RaceDirectedScheduler>),
}

impl Picker {
    /// Creates a picker for a plan's prefix and the policy after it.
    #[must_use]
    pub fn new(prefix: PrefixSteps, fidelity: Fidelity, tail: Policy, seed: u64) -> Self {
        let prefix = (!prefix.segments.is_empty()).then(|| match fidelity {
            Fidelity::Exact => PrefixFollower::Exact(prefix::ExactFollower::new(prefix)),
            Fidelity::Relaxed => PrefixFollower::Relaxed(relaxed::RelaxedFollower::new(prefix)),
        });
        let tail = match tail {
            Policy::Stop => Tail::Stop,
            Policy::Fair => Tail::Fair(fair::FairScheduler::default()),
            Policy::Random => Tail::Random(random::RandomScheduler::new(seed)),
            Policy::Pct { depth, steps } => Tail::Pct(pct::PctScheduler::new(depth, steps, seed)),
            Policy::Pos => Tail::Pos(pos::PosScheduler::new(seed)),
            Policy::Race { first, second } => Tail::RaceDirected(race_directed(first, second, seed)),
        };
        Self {
            prefix,
            before: None,
            tail,
            starvation: starvation::StarvationGuard::new(),
            after_creation: Rng::new(!seed),
        }
    }

    /// Defers the policy until [`begin`](Self::begin) is called: until then threads run without preemptions,
    /// and neither random numbers nor steps are consumed. A plan that ends with its prefix has no policy to
    /// defer.
    #[must_use]
    pub fn deferred(self) -> Self {
        let before = (!matches!(self.tail, Tail::Stop)).then(fair::FairScheduler::default);
        Self { before, ..self }
    }

    /// Lets the policy decide from now on, where the prefix does not.
    pub fn begin(&mut self) {
        self.before = None;
    }

    /// Returns whether the policy is still deferred.
    #[must_use]
    pub const fn is_deferred(&self) -> bool {
        self.before.is_some()
    }

    /// Picks the next thread; some thread must be ready or waiting for a timeout.
    #[inline]
    pub fn pick(&mut self, world: &impl RunView) -> Pick {
        if let Some(follow) = &mut self.prefix {
            let pick = match follow {
                PrefixFollower::Exact(exact) => exact.pick(world),
                PrefixFollower::Relaxed(relaxed) => relaxed.pick(world),
            };
            match pick {
                Some(pick) => return pick,
                None => self.prefix = None,
            }
        }
        if let Some(thread) = self.starvation.pick(world) {
            return Pick::Run(thread);
        }
        let thread = if let Some(fair) = &mut self.before {
            fair.pick(world)
        } else if self.continues_after_creation(world) {
            world.current()
        } else {
            match &mut self.tail {
                Tail::Stop => return Pick::End,
                Tail::Fair(fair) => fair.pick(world),
                Tail::Random(random) => random.pick(world),
                Tail::Pct(pct) => pct.pick(world),
                Tail::Pos(pos) => pos.pick(world),
                Tail::RaceDirected(race) => race.pick(world),
            }
        };
        self.starvation.note(thread);
        Pick::Run(thread)
    }

    /// Returns whether the thread that has just created another continues, without a choice by the policy.
    #[inline]
    fn continues_after_creation(&mut self, world: &impl RunView) -> bool {
        let is_random = !matches!(self.tail, Tail::Stop | Tail::Fair(_));
        is_random && world.is_after_creation() && self.after_creation.below(CHOICE_AFTER_CREATION) > 0
    }
}

/// Not inlined: the value passes through pages of stack on its way to the heap, which other policies should
/// not touch.
#[inline(never)]
fn race_directed(first: u16, second: u16, seed: u64) -> Box<race::RaceDirectedScheduler> {
    Box::new(race::RaceDirectedScheduler::new(first, second, seed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn picks(picker: &mut Picker, toy: &mut Toy, count: usize) -> Vec<Pick> {
        let mut pick = || {
            let pick = picker.pick(toy);
            if let Pick::Run(thread) = pick {
                toy.run(thread);
            }
            pick
        };
        (0..count).map(|_| pick()).collect()
    }

    #[test]
    fn deferred_policy_decides_as_if_started_there() {
        for policy in [Policy::Random, Policy::Pos, Policy::Pct { depth: 3, steps: 20 }] {
            let picker = || Picker::new(PrefixSteps::default(), Fidelity::Exact, policy, 7);
            let (mut waiting, mut toy) = (picker().deferred(), Toy::new(3));
            assert_eq!(
                picks(&mut waiting, &mut toy, 50),
                [Pick::Run(ThreadIx(0)); 50],
                "nobody is preempted"
            );
            waiting.begin();
            let after = picks(&mut waiting, &mut toy, 50);
            assert_eq!(after, picks(&mut picker(), &mut Toy::new(3), 50));
            assert!(after.iter().any(|&pick| pick != after[0]), "it does decide: {after:?}");
        }
    }

    #[test]
    fn plan_ending_with_prefix_is_not_deferred() {
        let mut picker = Picker::new(PrefixSteps::default(), Fidelity::Exact, Policy::Stop, 0).deferred();
        assert_eq!(picker.pick(&Toy::new(1)), Pick::End);
    }

    /// A run in which main has just created a thread.
    struct AfterCreation(Toy);

    impl RunView for AfterCreation {
        fn current(&self) -> ThreadIx {
            self.0.current()
        }
        fn ready(&self) -> &ThreadSet {
            self.0.ready()
        }
        fn by_timeout(&self) -> &ThreadSet {
            self.0.by_timeout()
        }
        fn earliest_timeout(&self) -> Option<ThreadIx> {
            self.0.earliest_timeout()
        }
        fn yields(&self, thread: ThreadIx) -> bool {
            self.0.yields(thread)
        }
        fn is_about_to(&self, thread: ThreadIx, action: &Action) -> bool {
            self.0.is_about_to(thread, action)
        }
        fn conflict(&self, a: ThreadIx, b: ThreadIx) -> bool {
            self.0.conflict(a, b)
        }
        fn is_after_creation(&self) -> bool {
            true
        }
        fn resolve_thread(&self, in_plan: ThreadIx) -> Option<ThreadIx> {
            self.0.resolve_thread(in_plan)
        }
    }

    #[test]
    fn creator_is_seldom_preempted_before_it_continues() {
        for policy in [Policy::Random, Policy::Pos] {
            let preempted = (0..1600).filter(|&seed| {
                let mut picker = Picker::new(PrefixSteps::default(), Fidelity::Exact, policy, seed);
                picker.pick(&AfterCreation(Toy::new(2))) != Pick::Run(ThreadIx::MAIN)
            });
            // Half of one in 16.
            let count = preempted.count();
            assert!((25..75).contains(&count), "{policy:?}: {count}");
        }
    }
}
