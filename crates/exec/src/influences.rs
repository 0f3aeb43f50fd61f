//! What the result of a run can depend on beside the order of its events. A search that has run all orders has not tried
//! other values of these.

use std::ops::BitOrAssign;
use unsnarl_model::{Event, Op};
use unsnarl_semantics::StoreBuffers;

/// Influences on a run that the order of its events does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HiddenInfluences {
    /// The program read a clock while it had several threads.
    pub clock: bool,
    /// A reader could not have a lock because a writer waited for it; when that wait began is no event.
    pub waiting_writers: bool,
    /// The program started other processes.
    pub processes: bool,
    /// A signal handler ran; it may interrupt more places than schedule points.
    pub handlers: bool,
    /// A processor may execute a load before an earlier store of its thread.
    pub delayed_stores: bool,
    /// There were more conflicts than are kept.
    pub lost_conflicts: bool,
}

impl BitOrAssign for HiddenInfluences {
    fn bitor_assign(&mut self, other: Self) {
        self.clock |= other.clock;
        self.waiting_writers |= other.waiting_writers;
        self.processes |= other.processes;
        self.handlers |= other.handlers;
        self.delayed_stores |= other.delayed_stores;
        self.lost_conflicts |= other.lost_conflicts;
    }
}

impl HiddenInfluences {
    /// Adds those that the events show.
    pub(crate) fn with_events(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        let mut stores = StoreBuffers::default();
        for event in events {
            self.processes |= event.op == Op::ChildStart;
            self.handlers |= event.op == Op::SigHandle;
            self.delayed_stores |= stores.step(&event);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::ThreadIx;

    #[test]
    fn influences_of_runs_add_up() {
        let mut all = HiddenInfluences { clock: true, ..HiddenInfluences::default() };
        let child = HiddenInfluences::default().with_events([Event::new(ThreadIx(0), Op::ChildStart)]);
        all |= child;
        assert_eq!(all, HiddenInfluences { clock: true, processes: true, ..HiddenInfluences::default() });
    }
}
