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
//! | [`observations`] | what threads did after which past |
//! | [`sole_runner`] | what a thread does of which nothing is told |
//! | [`run_simulator`] | a run by a plan, told step by step |
//! | [`visited`] | the runs themselves: a plan that leads to one of them needs no theory |
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

mod memory;
mod observations;
mod run_simulator;
mod sole_runner;
mod state;
mod visited;

use crate::Choice;
use observations::Observations;
use run_simulator::RunSimulator;
use unsnarl_model::{Flags, Op, OutcomeKind, Plan, Trace};
use visited::VisitedTree;

/// Longer runs are neither learned from nor told.
const MAX_EVENTS: usize = 50_000;

/// Mixes a number into a fingerprint.
fn mix(fingerprint: u64, number: u64) -> u64 {
    let product =
        u128::from(fingerprint ^ 0x9e37_79b9_7f4a_7c15) * u128::from(number ^ 0xd1b5_4a32_d192_ed03 | 1);
    let folded = (product >> 64) as u64 ^ product as u64;
    (folded ^ fingerprint.rotate_left(17) ^ number.rotate_left(41)).wrapping_mul(0xff51_afd7_ed55_8ccd)
        ^ folded.rotate_left(31)
}

/// When a run need not be told to its end: it has more context switches than this, and so many events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyStop {
    /// More context switches are too many.
    pub switches: u64,
    /// So many events are looked at.
    pub events: usize,
}

/// Learns from runs and tells others in advance.
#[derive(Debug)]
pub struct Simulation {
    observations: Option<Observations>,
    /// None if runs are not what their schedule makes of them.
    visited: Option<VisitedTree>,
    mispredictions: u32,
}

impl Simulation {
    /// Foresight for runs like this one; blind if its events do not tell enough.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let plan = &trace.plan;
        let simulated = plan.one_in == 1 && !plan.spurious && !plan.from_checkpoint;
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
        let mut simulation = Self {
            observations: (simulated && !judged && recorded).then(|| Observations::new(trace)),
            visited: (simulated && recorded).then(|| VisitedTree::new(trace)),
            mispredictions: 0,
        };
        simulation.learn(trace, &[]);
        simulation
    }

    /// Nothing is told from now on but of runs that were made.
    pub fn disable(&mut self) {
        self.observations = None;
    }

    /// Whether only runs are told that were made.
    #[must_use]
    pub const fn is_disabled(&self) -> bool {
        self.observations.is_none()
    }

    /// How often it turned out that the events do not tell all.
    #[must_use]
    pub const fn mispredictions(&self) -> u32 {
        self.mispredictions
    }

    /// Something was told wrong: from now on less is taken for granted, or nothing is told any more.
    pub fn distrust_events(&mut self) {
        self.mispredictions += 1;
        let consistent = self.observations.as_mut().is_some_and(Observations::distrust_events);
        if !consistent || !self.reproduces_all() {
            self.disable();
        }
    }

    fn reproduces_all(&self) -> bool {
        self.observations
            .as_ref()
            .is_some_and(|observations| observations.runs().iter().all(|run| reproduces(observations, run)))
    }

    /// Learns from a run. `choices` tells who could go on before each event, or nothing.
    pub fn learn(&mut self, trace: &Trace, choices: &[Choice]) {
        if let Some(visited) = &mut self.visited {
            visited.learn(trace, choices);
        }
        let Some(observations) = &mut self.observations else { return };
        if trace.events.len() > MAX_EVENTS {
            return;
        }
        let consistent = observations.learn(trace);
        if !consistent || !reproduces(observations, trace) {
            self.distrust_events();
        }
    }

    /// What comes of a plan, if that is known. With `early_stop`, what is told may end early.
    ///
    /// Whether a switch is a preemption is not known of a thread that never went on; it is then told as none.
    #[must_use]
    pub fn simulate(&self, plan: &Plan, early_stop: Option<EarlyStop>) -> Option<Trace> {
        let again = self.visited.as_ref().and_then(|visited| visited.simulate(plan, early_stop));
        again.or_else(|| RunSimulator::new(self.observations.as_ref()?, plan, early_stop).simulate())
    }

    /// Whether what was told is what happened.
    #[must_use]
    pub fn is_right(simulated: &Trace, happened: &Trace) -> bool {
        agree(simulated, happened) && simulated.signature() == happened.signature()
    }
}

/// What was learned must tell what it was learned from.
fn reproduces(observations: &Observations, trace: &Trace) -> bool {
    let plan = trace.replay_plan();
    RunSimulator::new(observations, &plan, None).simulate().is_none_or(|simulated| agree(&simulated, trace))
}

/// Whether two runs have the same events, as far as they are told.
fn agree(simulated: &Trace, happened: &Trace) -> bool {
    simulated.events.len() == happened.events.len()
        && simulated.events.iter().zip(&happened.events).all(|(a, b)| {
            let undetermined =
                a.flags.has(Flags::OWN_STACK) || matches!(a.op, Op::Write | Op::Sleep) || a.size > 8;
            let left_out = !(Flags::PREEMPTS | Flags::UNDETERMINED | Flags::BLOCKED).0;
            simulated.thread_id(a.thread) == happened.thread_id(b.thread)
                && simulated.action(a) == happened.action(b)
                && a.addr == b.addr
                && a.flags.0 & left_out == b.flags.0 & left_out
                && (undetermined || a.value == b.value)
        })
}
