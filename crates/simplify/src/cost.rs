//! The cost of a trace to its reader.

use unsnarl_model::{Event, Stats};

/// The cost of a schedule, compared by context switches first, then by preemptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost {
    /// Adjacent events of different threads.
    pub switches: u64,
    /// Context switches away from a thread that could have continued.
    pub preemptions: u64,
}

impl Cost {
    /// Returns the cost of these events.
    #[must_use]
    pub fn of(events: &[Event]) -> Self {
        let stats = Stats::of(events);
        Self { switches: stats.context_switches, preemptions: stats.preemptive }
    }
}
