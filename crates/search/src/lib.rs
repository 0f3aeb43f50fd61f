//! Search strategies: which plan to run next.
//!
//! A [`Strategy`] decides *between* runs; inside a run the plan's policy does. [`Search`] is a strategy
//! together with the results of all runs so far ([`Knowledge`]): the places where threads conflict become the
//! schedule points of later runs. Nothing here starts a process: the caller runs the plans and reports their
//! results.

#![forbid(unsafe_code)]

mod block_map;
mod chess;
mod coverage;
mod fairness;
mod knowledge;
mod novelty;
mod pct;
mod portfolio;
mod race;
mod recorded_run;
mod seeds;
mod state;
mod walk;

pub use chess::Chess;
pub use coverage::{ClassSampling, Coverage};
pub use knowledge::{Knowledge, Randomness, SitePair};
pub use novelty::Novelty;
pub use pct::PctStrategy;
pub use portfolio::Portfolio;
pub use race::RaceDirectedStrategy;
pub use seeds::entropy_of;
pub use state::schedule_class;
pub use walk::SeedSweep;

use coverage::ScheduleClasses;
use unsnarl_model::{Conflict, EnabledThreads, Event, Module, ModuleIx, Places, Plan, Site, ThreadId, Trace};

/// An order in which to try plans.
///
/// The lifecycle: [`next`](Self::next) returns a plan, and may be called several times; the plans are run;
/// [`learn`](Self::learn) receives the results in the order in which the plans were returned. This repeats
/// until a run fails, the budget is used up, or there is nothing left to try: no plan is returned although
/// none is running.
pub trait Strategy: std::fmt::Debug {
    /// Returns the name on the command line.
    fn name(&self) -> String;

    /// Returns the next plan; `None` if it needs the results of running plans first, or if there is none
    /// left.
    fn next(&mut self, known: &Knowledge) -> Option<Plan>;

    /// Receives the result of one of its own plans.
    fn learn(&mut self, _plan: &Plan, _seen: &RunSummary<'_>) {}

    /// Returns whether some of its runs are drawn at random and independently of each other, however long the search goes
    /// on.
    fn draws_samples(&self) -> bool {
        false
    }

    /// Returns what is proven if no run failed.
    fn completeness(&self) -> Option<CompleteSearch> {
        None
    }

    /// Returns why a systematic strategy cannot claim to have covered all schedules.
    fn incomplete_reason(&self) -> Option<IncompleteReason> {
        None
    }
}

/// The reason why a search cannot claim to have covered all schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncompleteReason {
    /// There were this many threads, more than can be distinguished ([`EnabledThreads::THREADS`]): the search
    /// stopped.
    Threads(usize),
    /// Runs were cut off early.
    CutOff,
}

/// All schedules of some class were run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompleteSearch {
    /// The maximum number of preemptions of the class; `None` for all schedules.
    pub preemptions: Option<u32>,
    /// The number of schedules run.
    pub schedules: u64,
    /// True if the class has only schedules in which time-outs expire early as often as the plan's rule allows, and
    /// some could have expired earlier.
    pub bounds_timeouts: bool,
}

/// The result of a run as reported to a strategy.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunSummary<'a> {
    /// The number of points.
    pub points: u64,
    /// The number of points before the second thread existed.
    pub single_thread_points: u64,
    /// The number of points before the program used its first random number, if it used any.
    pub first_random: Option<u64>,
    /// The conflicts found.
    pub conflicts: &'a [Conflict],
    /// The modules that the conflicts are in.
    pub modules: &'a [Module],
    /// Time-outs could have expired, but not by the plan's rule.
    pub withheld_timeouts: bool,
    /// The steps, if the plan asked for choices.
    pub steps: Option<&'a RunSteps>,
    /// The [`schedule_class`], if the run is one of [`Search::sampling`].
    pub class: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct RunSteps {
    /// The identities of the threads.
    pub threads: Vec<ThreadId>,
    /// The events.
    pub events: Vec<Event>,
    /// The sites of the run; an event has the index of its site.
    pub sites: Vec<Site>,
    /// The enabled threads at each event.
    pub choices: Vec<EnabledThreads>,
    /// True if the run ended by itself.
    pub ended: bool,
}

impl RunSteps {
    /// Returns the steps of a trace.
    #[must_use]
    pub fn of(trace: &Trace, choices: Vec<EnabledThreads>, ended: bool) -> Self {
        Self {
            threads: trace.threads.iter().map(|thread| thread.id.clone()).collect(),
            events: trace.events.clone(),
            sites: trace.sites.clone(),
            choices,
            ended,
        }
    }

    /// Returns the site of an event. Indices are in the order of appearance and differ between runs; sites do
    /// not.
    pub(crate) fn site(&self, event: &Event) -> Site {
        let made_up = || Site { module: ModuleIx(0), offset: u64::from(event.site.0) };
        self.sites.get(event.site.index()).copied().unwrap_or_else(made_up)
    }
}

/// A strategy and its knowledge.
#[derive(Debug)]
pub struct Search {
    strategy: Box<dyn Strategy>,
    known: Knowledge,
    classes: ScheduleClasses,
}

impl Search {
    /// Builds a search by this strategy. Conflicts outside the `given` places are ignored, unless none are
    /// given.
    #[must_use]
    pub fn new(strategy: Box<dyn Strategy>, given: Places) -> Self {
        Self { strategy, known: Knowledge::new(given), classes: ScheduleClasses::default() }
    }

    /// Returns the strategy's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.strategy.name()
    }

    /// Returns the knowledge so far.
    #[must_use]
    pub fn known(&self) -> &Knowledge {
        &self.known
    }

    /// Returns the same search, with the plan's random numbers for the program in all runs.
    #[must_use]
    pub fn with_pinned_random_numbers(self) -> Self {
        Self { known: self.known.with_pinned_random_numbers(), ..self }
    }

    /// Returns what the strategy has proven if no run failed.
    #[must_use]
    pub fn completeness(&self) -> Option<CompleteSearch> {
        self.strategy.completeness()
    }

    /// Returns what the runs so far have seen.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        self.classes.coverage(self.known.orders())
    }

    /// Returns which of the next plans' runs are to be classified.
    #[must_use]
    pub fn sampling(&self) -> ClassSampling {
        if self.strategy.draws_samples() { self.classes.sampling() } else { ClassSampling::NONE }
    }

    /// Returns why a systematic strategy has proven nothing.
    #[must_use]
    pub fn incomplete_reason(&self) -> Option<IncompleteReason> {
        self.strategy.incomplete_reason()
    }

    /// Returns the next plan.
    pub fn plan(&mut self) -> Option<Plan> {
        let plan = self.strategy.next(&self.known)?;
        // A single thread leaves no choice. Stating its schedule in the plan lets runs be resumed where the
        // second thread is created.
        let prefix =
            if plan.prefix.segments.is_empty() { self.known.single_thread_prefix() } else { plan.prefix };
        Some(Plan { places: self.known.places().clone(), prefix, ..plan })
    }

    /// Receives the result of a plan.
    pub fn learn(&mut self, plan: &Plan, summary: &RunSummary<'_>) {
        self.classes.add(summary.points, summary.class, plan.places.spans.len());
        self.known.learn(summary);
        self.strategy.learn(plan, summary);
    }
}
