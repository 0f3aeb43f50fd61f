//! The findings, the settled sites, and the statistics.

use crate::{deadlocks::PredictedDeadlock, model::ReadRule, races::PredictedRace};
use std::collections::{BTreeMap, BTreeSet};
use unsnarl_model::SiteIx;

/// The sites of an error's operations, in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorSites(Vec<SiteIx>);

impl ErrorSites {
    pub(crate) fn new(mut sites: Vec<SiteIx>) -> Self {
        sites.sort_unstable();
        Self(sites)
    }

    /// Returns the sites.
    #[must_use]
    pub fn sites(&self) -> &[SiteIx] {
        &self.0
    }
}

/// The progress within a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowProgress {
    /// The current shared object, from 1.
    pub object: u32,
    /// The number of shared objects.
    pub objects: u32,
    /// Races found so far.
    pub races: usize,
}

/// Statistics of the analysis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The number of events of the trace.
    pub events: u64,
    /// The number of events left after reduction.
    pub reduced: u64,
    /// The number of synchronisation events.
    pub synchronising: u64,
    /// The number of windows.
    pub windows: u64,
    /// The number of shared objects.
    pub objects: u64,
    /// The number of shared objects that pass the filter.
    pub suspect_objects: u64,
    /// The number of pairs of sites that pass the filter.
    pub candidates: u64,
    /// The number of cycles of requests.
    pub cycles: u64,
    /// The number of witnesses that keep the order of critical sections.
    pub sync_preserving: u64,
    /// The number of witnesses that needed a search.
    pub searched: u64,
}

/// The findings so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) races: Vec<PredictedRace>,
    pub(crate) deadlocks: Vec<PredictedDeadlock>,
    pub(crate) figures: Statistics,
    settled: BTreeSet<ErrorSites>,
    suspects: BTreeSet<ErrorSites>,
    open: BTreeMap<(ErrorSites, ReadRule), SearchBudget>,
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

    pub(crate) fn suspect(&mut self, places: &ErrorSites, _reads: ReadRule) {
        if !self.suspects.contains(places) {
            self.suspects.insert(places.clone());
            self.figures.candidates += 1;
        }
    }

    /// Returns the remaining budget for these sites.
    pub(crate) fn budget(&self, places: &ErrorSites, reads: ReadRule, whole: u64) -> u64 {
        match self.open.get(&(places.clone(), reads)) {
            Some(&SearchBudget::Left(left)) => left,
            Some(SearchBudget::UsedUp) => 0,
            None => whole,
        }
    }

    pub(crate) fn spent(&mut self, places: ErrorSites, reads: ReadRule, left: u64) {
        self.open.insert((places, reads), SearchBudget::Left(left));
    }

    pub(crate) fn undecided(&mut self, places: ErrorSites, reads: ReadRule) {
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

    /// Returns the sites whose budget was exhausted without a finding.
    pub(crate) fn undecided_sites(&self, reads_mode: ReadRule) -> Vec<ErrorSites> {
        let open = self.open.iter().filter(|((places, reads), budget)| {
            matches!(budget, SearchBudget::UsedUp) && *reads == reads_mode && !self.settled.contains(places)
        });
        open.map(|((places, _), _)| places.clone()).collect()
    }
}
