//! What comes of a plan, without running it.
//!
//! A thread is a function of its past: what it did, and what it found when it did it. So what threads do next can be
//! learned from runs, by a fingerprint of their pasts; and since who goes next is decided by a picker that looks at
//! nothing but the plan and the threads' next operations, a run by another plan can be told in advance, step by
//! step, as long as every thread is where it was seen before. Most changed schedules only bring threads where they
//! were seen before.
//!
//! | | |
//! | --- | --- |
//! | [`memory`] | who wrote what stands where |
//! | [`state`] | the objects that threads share, and the threads' pasts; the same for learning and for telling |
//! | [`learned`] | what threads did after which past |
//! | [`alone`] | what a thread does of which nothing is told |
//! | [`telling`] | a run by a plan, told step by step |
//! | [`trodden`] | the runs themselves: a plan that leads to one of them needs no theory |
//!
//! # Why it is true
//!
//! A thread's past has everything that it could find: the values it read, whether its tries succeeded, the memory it
//! was given, what those that it joined had done. While a thread is alone its accesses are no events; it is followed
//! along what it did in company, and where it was never seen there its past takes in all of memory. If only some accesses are points ([`Points::Places`]), the others do not race, so
//! what they find follows from the order of synchronisation; then a past takes in the pasts of all that it
//! synchronises with.
//!
//! Wherever something is not known, nothing is told: a past that was not seen, a wait with a deadline, an object in
//! an unusual state. What threads find by other ways than events (files, the clock) is not known to be unknown: but
//! each run that is made is first told and then compared, also those that are learned from; the first difference
//! ends all telling.

mod alone;
mod learned;
mod memory;
mod state;
mod telling;
mod trodden;

use crate::Choice;
use learned::Learned;
use telling::Telling;
use trodden::Trodden;
use unsnarl_model::{Flags, Op, OutcomeKind, Plan, Trace};

/// Longer runs are neither learned from nor told.
const MOST_EVENTS: usize = 50_000;

/// Mixes a number into a fingerprint.
fn mix(print: u64, number: u64) -> u64 {
    let product = u128::from(print ^ 0x9e37_79b9_7f4a_7c15) * u128::from(number ^ 0xd1b5_4a32_d192_ed03 | 1);
    let folded = (product >> 64) as u64 ^ product as u64;
    (folded ^ print.rotate_left(17) ^ number.rotate_left(41)).wrapping_mul(0xff51_afd7_ed55_8ccd)
        ^ folded.rotate_left(31)
}

/// When a run need not be told to its end: it has more context switches than this, and so many events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enough {
    /// More context switches are too many.
    pub switches: u64,
    /// So many events are looked at.
    pub events: usize,
}

/// Learns from runs and tells others in advance.
#[derive(Debug)]
pub struct Foresight {
    learned: Option<Learned>,
    /// None if runs are not what their schedule makes of them.
    trodden: Option<Trodden>,
    doubts: u32,
}

impl Foresight {
    /// Foresight for runs like this one; blind if its events do not tell enough.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let plan = &trace.plan;
        let told = plan.one_in == 1 && !plan.spurious && !plan.from_checkpoint;
        // These are judged by more than what threads do.
        let judged = matches!(
            trace.outcome.kind,
            OutcomeKind::Race
                | OutcomeKind::Misuse
                | OutcomeKind::Check
                | OutcomeKind::Livelock
                | OutcomeKind::Timeout
        );
        let recorded = !trace.program.path.is_empty();
        let mut foresight = Self {
            learned: (told && !judged && recorded).then(|| Learned::new(trace)),
            trodden: (told && recorded).then(|| Trodden::new(trace)),
            doubts: 0,
        };
        foresight.learn(trace, &[]);
        foresight
    }

    /// Nothing is told from now on but of runs that were made.
    pub fn lose(&mut self) {
        self.learned = None;
    }

    /// Whether only runs are told that were made.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.learned.is_none()
    }

    /// How often it turned out that the events do not tell all.
    #[must_use]
    pub const fn doubts(&self) -> u32 {
        self.doubts
    }

    /// Something was told wrong: from now on less is taken for granted, or nothing is told any more.
    pub fn doubt(&mut self) {
        self.doubts += 1;
        let consistent = self.learned.as_mut().is_some_and(Learned::doubt);
        if !consistent || !self.retells_all() {
            self.lose();
        }
    }

    fn retells_all(&self) -> bool {
        self.learned.as_ref().is_some_and(|learned| learned.runs().iter().all(|run| retells(learned, run)))
    }

    /// Learns from a run. `choices` tells who could go on before each event, or nothing.
    pub fn learn(&mut self, trace: &Trace, choices: &[Choice]) {
        if let Some(trodden) = &mut self.trodden {
            trodden.learn(trace, choices);
        }
        let Some(learned) = &mut self.learned else { return };
        if trace.events.len() > MOST_EVENTS {
            return;
        }
        let consistent = learned.learn(trace);
        if !consistent || !retells(learned, trace) {
            self.doubt();
        }
    }

    /// What comes of a plan, if that is known. With `enough`, what is told may end early.
    ///
    /// Whether a switch is a preemption is not known of a thread that never went on; it is then told as none.
    #[must_use]
    pub fn tell(&self, plan: &Plan, enough: Option<Enough>) -> Option<Trace> {
        let again = self.trodden.as_ref().and_then(|trodden| trodden.tell(plan, enough));
        again.or_else(|| Telling::new(self.learned.as_ref()?, plan, enough).tell())
    }

    /// Whether what was told is what happened.
    #[must_use]
    pub fn is_right(told: &Trace, happened: &Trace) -> bool {
        agree(told, happened) && told.signature() == happened.signature()
    }
}

/// What was learned must tell what it was learned from.
fn retells(learned: &Learned, trace: &Trace) -> bool {
    let plan = trace.replay_plan();
    Telling::new(learned, &plan, None).tell().is_none_or(|told| agree(&told, trace))
}

/// Whether two runs have the same events, as far as they are told.
fn agree(told: &Trace, happened: &Trace) -> bool {
    told.events.len() == happened.events.len()
        && told.events.iter().zip(&happened.events).all(|(a, b)| {
            let hazy = a.flags.has(Flags::OWN_STACK) || matches!(a.op, Op::Write | Op::Sleep) || a.size > 8;
            let left_out = !(Flags::PREEMPTS | Flags::UNDETERMINED | Flags::BLOCKED).0;
            told.thread_id(a.thread) == happened.thread_id(b.thread)
                && told.action(a) == happened.action(b)
                && a.addr == b.addr
                && a.flags.0 & left_out == b.flags.0 & left_out
                && (hazy || a.value == b.value)
        })
}
