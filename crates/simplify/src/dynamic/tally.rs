//! What each operation contributed (Tinertia, section 5.2).

use std::fmt;

/// A way of making a schedule simpler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// The last segment of a thread is left out.
    RemoveLast,
    /// A thread's next segment is moved up as a whole.
    ConsolidateUpTei,
    /// As much of it as was executed is.
    ConsolidateUpActions,
    /// A thread's segment is moved down to its next one.
    ConsolidateDown,
    /// Events change places that do not depend on each other.
    Static,
    /// A search through all schedules found it.
    Search,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::RemoveLast,
        Self::ConsolidateUpTei,
        Self::ConsolidateUpActions,
        Self::ConsolidateDown,
        Self::Static,
        Self::Search,
    ];

    /// Its name in the JSON output.
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

/// What was done, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tally {
    /// How often the program was run.
    pub executions: u64,
    /// Of how many schedules it was known without a run what comes of them.
    pub simulated: u64,
    /// How often all operations were tried in turn.
    pub rounds: u64,
    removed: [u64; Operation::ALL.len()],
}

impl Tally {
    /// How many context switches an operation removed.
    #[must_use]
    pub const fn removed_by(&self, operation: Operation) -> u64 {
        self.removed[operation as usize]
    }

    /// What one operation alone did, without running anything.
    #[must_use]
    pub fn of(operation: Operation, before: u64, after: u64) -> Self {
        let mut tally = Self::default();
        tally.credit(operation, before, after);
        tally
    }

    /// Counts the runs of other work, which led to something else.
    pub(crate) fn add_runs(&mut self, other: &Self) {
        self.executions += other.executions;
        self.simulated += other.simulated;
        self.rounds += other.rounds;
    }

    /// The result is that of other work: so are the contributions.
    pub(crate) fn take_contributions(&mut self, other: &Self) {
        self.removed = other.removed;
    }

    pub(crate) fn credit(&mut self, operation: Operation, before: u64, after: u64) {
        self.removed[operation as usize] += before.saturating_sub(after);
    }
}
