//! What a trace costs its reader.

use unsnarl_model::{Event, Stats};

/// Context switches first, preemptions among them second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost {
    /// Neighbouring events of different threads.
    pub switches: u64,
    /// Those that take the processor from a thread that could have gone on.
    pub preemptions: u64,
}

impl Cost {
    /// The cost of these events.
    #[must_use]
    pub fn of(events: &[Event]) -> Self {
        let stats = Stats::of(events);
        Self { switches: stats.context_switches, preemptions: stats.preemptive }
    }
}
