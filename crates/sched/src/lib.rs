//! Who runs next inside a run.
//!
//! A [`Picker`] is asked before each visible operation and answers with a thread. It sees the run
//! through [`RunView`] only, does no I/O, never allocates after it was made, and its answers depend
//! on nothing but the plan and what it was shown: that is what makes a plan repeatable.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

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
mod toy;

pub use prefix::Script;
pub use rng::Rng;
pub use set::ThreadSet;
pub use spin_detector::{SpinDetector, changes_nothing};
pub use toy::Toy;

use alloc::boxed::Box;
use unsnarl_model::{Action, Fidelity, Policy, ThreadIx};

/// What a picker may know about the run.
pub trait RunView {
    /// Who ran last.
    fn current(&self) -> ThreadIx;
    /// Who can go on now.
    fn ready(&self) -> &ThreadSet;
    /// Who can go on only because its time is up, or for no reason: sleepers and timed waits.
    fn by_timeout(&self) -> &ThreadSet;
    /// Who of the late ones has the earliest deadline.
    fn earliest_timeout(&self) -> Option<ThreadIx>;
    /// Whether the thread lets others go first: it is about to yield or sleep, or it spins.
    fn yields(&self, thread: ThreadIx) -> bool;
    /// Whether who ran last can go on and does not give way.
    #[inline]
    fn current_can_continue(&self) -> bool {
        self.ready().contains(self.current()) && !self.yields(self.current())
    }
    /// Whether the thread's next operation is this one; sites are of the plan's modules.
    fn is_about_to(&self, thread: ThreadIx, action: &Action) -> bool;
    /// Whether the order of these two threads' next operations can matter: the same object, and not only
    /// read.
    fn conflict(&self, a: ThreadIx, b: ThreadIx) -> bool;
    /// Whether the thread's next operation is at this one of the plan's places.
    fn is_at(&self, _thread: ThreadIx, _place: u16) -> bool {
        false
    }
    /// The thread that goes by this name in the plan, once it was created.
    fn resolve_thread(&self, in_plan: ThreadIx) -> Option<ThreadIx>;
}

/// A picker's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This thread runs its next operation.
    Run(ThreadIx),
    /// The plan ends here and says nothing of what follows.
    End,
    /// The plan cannot be followed.
    Diverged(Diverged),
}

/// Why an exact prefix could not be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diverged {
    /// At which point of the prefix.
    pub point: u64,
    /// Who should have run, by the plan's numbering.
    pub expected: ThreadIx,
    /// Who that is in this run; none if it was never created.
    pub thread: Option<ThreadIx>,
    /// Whether it could have run: then it was about to do something else.
    pub runnable: bool,
}

/// Decides a run: first by the plan's prefix, then by its policy.
#[derive(Debug)]
pub struct Picker {
    script: Option<PrefixFollower>,
    /// Who decides before the policy begins.
    before: Option<fair::Fair>,
    tail: Tail,
}

#[derive(Debug)]
enum PrefixFollower {
    Exact(prefix::Exact),
    Relaxed(relaxed::Relaxed),
}

#[derive(Debug)]
enum Tail {
    Stop,
    Fair(fair::Fair),
    Random(random::Random),
    Pct(pct::Pct),
    Pos(pos::Pos),
    RaceDirected(Box<race::RaceDirected>),
}

impl Picker {
    /// A picker for a plan's prefix and what comes after it.
    #[must_use]
    pub fn new(script: Script, fidelity: Fidelity, tail: Policy, seed: u64) -> Self {
        let script = (!script.segments.is_empty()).then(|| match fidelity {
            Fidelity::Exact => PrefixFollower::Exact(prefix::Exact::new(script)),
            Fidelity::Relaxed => PrefixFollower::Relaxed(relaxed::Relaxed::new(script)),
        });
        let tail = match tail {
            Policy::Stop => Tail::Stop,
            Policy::Fair => Tail::Fair(fair::Fair::default()),
            Policy::Random => Tail::Random(random::Random::new(seed)),
            Policy::Pct { depth, steps } => Tail::Pct(pct::Pct::new(depth, steps, seed)),
            Policy::Pos => Tail::Pos(pos::Pos::new(seed)),
            Policy::Race { first, second } => Tail::RaceDirected(race_directed(first, second, seed)),
        };
        Self { script, before: None, tail }
    }

    /// The same, but the policy waits until it is told to [`begin`](Self::begin): until then threads run without
    /// preemptions, and neither random numbers nor steps are used up. A plan that ends with its prefix has no
    /// policy to wait.
    #[must_use]
    pub fn deferred(self) -> Self {
        let before = (!matches!(self.tail, Tail::Stop)).then(fair::Fair::default);
        Self { before, ..self }
    }

    /// From now on the policy decides, where the prefix does not.
    pub fn begin(&mut self) {
        self.before = None;
    }

    /// Whether the policy still waits.
    #[must_use]
    pub const fn is_deferred(&self) -> bool {
        self.before.is_some()
    }

    /// Who runs next; some thread must be ready or late.
    #[inline]
    pub fn pick(&mut self, world: &impl RunView) -> Pick {
        if let Some(follow) = &mut self.script {
            let pick = match follow {
                PrefixFollower::Exact(exact) => exact.pick(world),
                PrefixFollower::Relaxed(relaxed) => relaxed.pick(world),
            };
            match pick {
                Some(pick) => return pick,
                None => self.script = None,
            }
        }
        if let Some(fair) = &mut self.before {
            return Pick::Run(fair.pick(world));
        }
        match &mut self.tail {
            Tail::Stop => Pick::End,
            Tail::Fair(fair) => Pick::Run(fair.pick(world)),
            Tail::Random(random) => Pick::Run(random.pick(world)),
            Tail::Pct(pct) => Pick::Run(pct.pick(world)),
            Tail::Pos(pos) => Pick::Run(pos.pick(world)),
            Tail::RaceDirected(race) => Pick::Run(race.pick(world)),
        }
    }
}

/// Not inlined: it takes pages of stack on the way to the heap, and who wants another policy should not touch them.
#[inline(never)]
fn race_directed(first: u16, second: u16, seed: u64) -> Box<race::RaceDirected> {
    Box::new(race::RaceDirected::new(first, second, seed))
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
            let picker = || Picker::new(Script::default(), Fidelity::Exact, policy, 7);
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
        let mut picker = Picker::new(Script::default(), Fidelity::Exact, Policy::Stop, 0).deferred();
        assert_eq!(picker.pick(&Toy::new(1)), Pick::End);
    }
}
