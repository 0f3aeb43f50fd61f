//! Which plan to run next.
//!
//! A [`Strategy`] decides *between* runs; inside a run the plan's policy does. [`Search`] is a strategy together
//! with what all runs have shown so far ([`Knowledge`]): where threads conflict, which is where the schedule
//! points of later runs are. Nothing here starts a process: whoever drives it runs the plans and tells what
//! came of them.

#![forbid(unsafe_code)]

mod chess;
mod fairness;
mod knowledge;
mod novelty;
mod pct;
mod portfolio;
mod race;
mod state;
mod walk;

pub use chess::Chess;
pub use knowledge::{Knowledge, SitePair};
pub use novelty::Novelty;
pub use pct::Pct;
pub use portfolio::Portfolio;
pub use race::RaceDirected;
pub use walk::SeedSweep;

use unsnarl_model::{Conflict, Event, Module, Places, Plan, Site, SiteIx, ThreadId, Trace};

/// An order in which to try plans.
///
/// The lifecycle: [`next`](Self::next) is asked for a plan, or for several; they are run;
/// [`learn`](Self::learn) is told of each in the order they were given, and so on until a run fails, the budget
/// is used up, or there is nothing left to try: no plan although nothing is being run.
pub trait Strategy: std::fmt::Debug {
    /// Its name on the command line.
    fn name(&self) -> String;

    /// The next plan; none if there is none before more is learnt, or none at all.
    fn next(&mut self, known: &Knowledge) -> Option<Plan>;

    /// What came of a plan of its own.
    fn learn(&mut self, _plan: &Plan, _seen: &RunSummary<'_>) {}

    /// What can be said for certain if no run failed.
    fn completeness(&self) -> Option<CompleteSearch> {
        None
    }

    /// Why a strategy that means to go through all schedules cannot claim that it did.
    fn incomplete_reason(&self) -> Option<IncompleteReason> {
        None
    }
}

/// What keeps a search from claiming that it went through all schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncompleteReason {
    /// So many threads, more than are told apart ([`Choice::THREADS`]): nothing more was tried.
    Threads(usize),
    /// Runs were ended before their time.
    CutOff,
}

/// All schedules of some kind were run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompleteSearch {
    /// Those with at most so many preemptions; none for all schedules whatever.
    pub preemptions: Option<u32>,
    /// How many that were.
    pub schedules: u64,
}

/// What a strategy gets to know of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunSummary<'a> {
    /// How many points it had.
    pub points: u64,
    /// How many of them before there was a second thread.
    pub single_thread_points: u64,
    /// The conflicts that were found.
    pub conflicts: &'a [Conflict],
    /// The modules that those are in.
    pub modules: &'a [Module],
    /// Its steps, where the plan asked for choices.
    pub steps: Option<&'a RunSteps>,
}

/// A run, step by step.
#[derive(Clone, Debug, Default)]
pub struct RunSteps {
    /// The names of its threads.
    pub threads: Vec<ThreadId>,
    /// What was done. Sites are numbers that mean the same in every run.
    pub events: Vec<Event>,
    /// Who could have done something else, for each event.
    pub choices: Vec<Choice>,
    /// Whether it came to an end of its own.
    pub ended: bool,
}

impl RunSteps {
    /// The steps of a trace.
    #[must_use]
    pub fn of(trace: &Trace, choices: Vec<Choice>, ended: bool) -> Self {
        // A trace numbers its sites in the order of their appearance.
        let number = |site: Site| SiteIx(site.offset as u32 ^ u32::from(site.module.0) << 24);
        let events = trace.events.iter().map(|event| Event { site: number(trace.site(event)), ..*event });
        Self {
            threads: trace.threads.iter().map(|thread| thread.id.clone()).collect(),
            events: events.collect(),
            choices,
            ended,
        }
    }
}

/// Who could run, as bits of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Choice {
    /// All of them.
    pub can_run: u64,
    /// Those who would rather not.
    pub yields: u64,
}

impl Choice {
    /// How many threads are told apart.
    pub const THREADS: usize = u64::BITS as usize;
}

/// A strategy and what it has come to know.
#[derive(Debug)]
pub struct Search {
    strategy: Box<dyn Strategy>,
    known: Knowledge,
}

impl Search {
    /// By this strategy; conflicts of accesses outside the `given` places, if there are any, are passed over.
    #[must_use]
    pub fn new(strategy: Box<dyn Strategy>, given: Places) -> Self {
        Self { strategy, known: Knowledge::new(given) }
    }

    /// The strategy's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.strategy.name()
    }

    /// What is known so far.
    #[must_use]
    pub fn known(&self) -> &Knowledge {
        &self.known
    }

    /// What the strategy can say for certain if no run failed.
    #[must_use]
    pub fn completeness(&self) -> Option<CompleteSearch> {
        self.strategy.completeness()
    }

    /// Why nothing can be said for certain, if that was the aim.
    #[must_use]
    pub fn incomplete_reason(&self) -> Option<IncompleteReason> {
        self.strategy.incomplete_reason()
    }

    /// The next plan.
    pub fn plan(&mut self) -> Option<Plan> {
        let plan = self.strategy.next(&self.known)?;
        // While there is one thread there is nothing to choose. That this is told by the plan lets runs go on from
        // where the second one is created.
        let prefix =
            if plan.prefix.segments.is_empty() { self.known.single_thread_prefix() } else { plan.prefix };
        Some(Plan { places: self.known.places().clone(), prefix, ..plan })
    }

    /// What came of a plan.
    pub fn learn(&mut self, plan: &Plan, summary: &RunSummary<'_>) {
        self.known.learn(summary);
        self.strategy.learn(plan, summary);
    }
}
