//! What was found, what is settled, and what it took.

use crate::{deadlocks::PredictedDeadlock, model::Reads, races::PredictedRace};
use std::collections::{BTreeMap, BTreeSet};
use unsnarl_model::SiteIx;

/// Where in the code an error is: the places of its operations, in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorSites(Vec<SiteIx>);

impl ErrorSites {
    pub(crate) fn new(mut sites: Vec<SiteIx>) -> Self {
        sites.sort_unstable();
        Self(sites)
    }

    /// The places.
    #[must_use]
    pub fn sites(&self) -> &[SiteIx] {
        &self.0
    }
}

/// How far the work on a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowProgress {
    /// The shared object that is looked at, from 1.
    pub object: u32,
    /// How many there are.
    pub objects: u32,
    /// Races found so far.
    pub races: usize,
}

/// What it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Events of the trace.
    pub events: u64,
    /// Those left after reduction.
    pub reduced: u64,
    /// Those that synchronise.
    pub synchronising: u64,
    /// Windows.
    pub windows: u64,
    /// Shared objects.
    pub objects: u64,
    /// Those that the filter leaves.
    pub suspect_objects: u64,
    /// Pairs of places that the filter leaves.
    pub candidates: u64,
    /// Circles of requests.
    pub circles: u64,
    /// Witnesses that keep the order of critical sections.
    pub sync_preserving: u64,
    /// Witnesses that took a search.
    pub searched: u64,
}

/// What was found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) races: Vec<PredictedRace>,
    pub(crate) deadlocks: Vec<PredictedDeadlock>,
    pub(crate) figures: Statistics,
    settled: BTreeSet<ErrorSites>,
    suspects: BTreeSet<ErrorSites>,
    open: BTreeMap<(ErrorSites, Reads), SearchBudget>,
}

#[derive(Clone, Copy, Debug)]
enum SearchBudget {
    Left(u64),
    UsedUp,
}

impl Findings {
    pub(crate) fn is_settled(&self, places: &ErrorSites) -> bool {
        self.settled.contains(places)
    }

    pub(crate) fn suspect(&mut self, places: &ErrorSites, _reads: Reads) {
        if !self.suspects.contains(places) {
            self.suspects.insert(places.clone());
            self.figures.candidates += 1;
        }
    }

    /// What may still be spent on these places.
    pub(crate) fn budget(&self, places: &ErrorSites, reads: Reads, whole: u64) -> u64 {
        match self.open.get(&(places.clone(), reads)) {
            Some(&SearchBudget::Left(left)) => left,
            Some(SearchBudget::UsedUp) => 0,
            None => whole,
        }
    }

    pub(crate) fn spent(&mut self, places: ErrorSites, reads: Reads, left: u64) {
        self.open.insert((places, reads), SearchBudget::Left(left));
    }

    pub(crate) fn undecided(&mut self, places: ErrorSites, reads: Reads) {
        self.open.insert((places, reads), SearchBudget::UsedUp);
    }

    pub(crate) fn race(&mut self, places: ErrorSites, race: PredictedRace) {
        self.settled.insert(places);
        self.races.push(race);
    }

    pub(crate) fn deadlock(&mut self, places: ErrorSites, deadlock: PredictedDeadlock) {
        self.settled.insert(places);
        self.deadlocks.push(deadlock);
    }

    /// Places whose budget was used up, and that nothing was found for.
    pub(crate) fn undecided_sites(&self, reads_mode: Reads) -> Vec<ErrorSites> {
        let open = self.open.iter().filter(|((places, reads), budget)| {
            matches!(budget, SearchBudget::UsedUp) && *reads == reads_mode && !self.settled.contains(places)
        });
        open.map(|((places, _), _)| places.clone()).collect()
    }
}
