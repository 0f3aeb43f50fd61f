//! The state between two events: where a window begins, and what each event changes.

use super::uninstrumented::UninstrumentedOrder;
use crate::trace_inconsistency::{InconsistencyReason, TraceInconsistency};
use unsnarl_model::Event;
use unsnarl_semantics::{LockChange, Machine, Step};

/// The locks, waits and threads of a run so far.
#[derive(Clone, Debug, Default)]
pub struct SyncState {
    machine: Machine,
    uninstrumented: UninstrumentedOrder,
}

impl SyncState {
    /// Returns the number of events.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.machine.events()
    }

    pub(crate) const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns whether uninstrumented code may have ordered the last event's thread after all others.
    pub(crate) const fn may_be_ordered_by_uninstrumented(&self) -> bool {
        self.uninstrumented.orders
    }

    /// Processes one more event.
    ///
    /// # Errors
    /// Returns an error if the event cannot have happened now.
    pub fn step(&mut self, event: &Event) -> Result<(), TraceInconsistency> {
        self.step_with(&self.machine.decode(event), &mut |_| {})
    }

    /// Processes one more step and emits its changes of locks.
    pub(crate) fn step_with(
        &mut self,
        step: &Step,
        emit: &mut impl FnMut(LockChange),
    ) -> Result<(), TraceInconsistency> {
        self.uninstrumented.step(step);
        self.machine.apply_with(step, emit).map_err(|contradiction| TraceInconsistency {
            event: step.number,
            thread: step.thread,
            reason: InconsistencyReason::Contradiction(contradiction),
        })
    }
}
