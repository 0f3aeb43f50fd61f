//! The contribution of each operation (Tinertia, section 5.2).

use std::fmt;

/// A way to simplify a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
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

impl Operation {
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
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The work done and its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tally {
    /// The number of runs.
    pub executions: u64,
    /// The number of rounds over all operations.
    pub rounds: u64,
    removed: [u64; Operation::ALL.len()],
}

impl Tally {
    /// Returns the number of context switches that an operation removed.
    #[must_use]
    pub const fn removed_by(&self, operation: Operation) -> u64 {
        self.removed[operation as usize]
    }

    /// Returns the tally of a single operation without runs.
    #[must_use]
    pub fn of(operation: Operation, before: u64, after: u64) -> Self {
        let mut tally = Self::default();
        tally.credit(operation, before, after);
        tally
    }

    /// Adds the runs of other work whose result is not used.
    pub(crate) fn add_runs(&mut self, other: &Self) {
        self.executions += other.executions;
        self.rounds += other.rounds;
    }

    /// Takes over the contributions of other work, whose result is used.
    pub(crate) fn take_contributions(&mut self, other: &Self) {
        self.removed = other.removed;
    }

    pub(crate) fn credit(&mut self, operation: Operation, before: u64, after: u64) {
        self.removed[operation as usize] += before.saturating_sub(after);
    }
}
