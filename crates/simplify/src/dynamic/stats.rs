//! The contribution of each transformation (Tinertia, section 5.2).

use std::fmt;

/// A way to simplify a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transformation {
    /// Removes the last segment of a thread.
    RemoveLast,
    /// Moves up a thread's next segment as a whole.
    ConsolidateUpTei,
    /// Moves up the executed part of a thread's next segment.
    ConsolidateUpActions,
    /// Moves down a thread's segment to its next one.
    ConsolidateDown,
    /// Reorders independent events.
    Static,
    /// Searches all schedules.
    Search,
}

impl Transformation {
    /// All operations.
    pub const ALL: [Self; 6] = [
        Self::RemoveLast,
        Self::ConsolidateUpTei,
        Self::ConsolidateUpActions,
        Self::ConsolidateDown,
        Self::Static,
        Self::Search,
    ];

    /// Returns the name in the JSON output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RemoveLast => "remove_last",
            Self::ConsolidateUpTei => "consolidate_up_tei",
            Self::ConsolidateUpActions => "consolidate_up_actions",
            Self::ConsolidateDown => "consolidate_down",
            Self::Static => "static",
            Self::Search => "search",
        }
    }

    /// Returns the name in a sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::RemoveLast => "leaving out events",
            Self::ConsolidateUpTei => "moving segments up",
            Self::ConsolidateUpActions => "moving events up",
            Self::ConsolidateDown => "moving segments down",
            Self::Static => "reordering independent events",
            Self::Search => "the search",
        }
    }
}

impl fmt::Display for Transformation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The work done and its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SimplificationStats {
    /// The number of runs.
    pub executions: u64,
    /// The executions that look for something better than the result of the transformations.
    pub search_executions: u64,
    /// The number of rounds over all operations.
    pub rounds: u64,
    removed: [u64; Transformation::ALL.len()],
}

impl SimplificationStats {
    /// Returns the number of context switches that a transformation removed.
    #[must_use]
    pub const fn removed_by(&self, transformation: Transformation) -> u64 {
        self.removed[transformation as usize]
    }

    /// Returns the statistics of a single transformation without runs.
    #[must_use]
    pub fn of(transformation: Transformation, before: u64, after: u64) -> Self {
        let mut stats = Self::default();
        stats.credit(transformation, before, after);
        stats
    }

    /// Adds the runs of other work whose result is not used.
    pub(crate) fn add_runs(&mut self, other: &Self) {
        self.executions += other.executions;
        self.search_executions += other.search_executions;
        self.rounds += other.rounds;
    }

    /// Takes over the contributions of other work, whose result is used.
    pub(crate) fn take_contributions(&mut self, other: &Self) {
        self.removed = other.removed;
    }

    pub(crate) fn credit(&mut self, transformation: Transformation, before: u64, after: u64) {
        self.removed[transformation as usize] += before.saturating_sub(after);
    }
}
