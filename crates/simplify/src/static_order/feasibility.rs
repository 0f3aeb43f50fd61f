//! Tests orders of events for feasibility.

use unsnarl_model::Event;
use unsnarl_semantics::{Enabled, Machine};

/// The minimum number of events between two checkpoints, and the maximum number of checkpoints.
const MIN_DISTANCE: usize = 64;
const CHECKPOINTS: usize = 32;

/// Tests orders of the events of one trace. A test begins near the first event that is at another place.
pub(crate) struct Feasibility<'t> {
    /// The events of the trace in the order of execution.
    executed: &'t [Event],
    /// The number of events between two checkpoints.
    distance: usize,
    /// The states before the first event, after `distance` events, and so on.
    checkpoints: Vec<Machine>,
    /// The first event that contradicts the events before it, in the order of execution.
    contradiction: Option<usize>,
    has_wakers: bool,
}

impl<'t> Feasibility<'t> {
    pub(crate) fn of(executed: &'t [Event]) -> Self {
        let distance = executed.len().div_ceil(CHECKPOINTS).max(MIN_DISTANCE);
        let mut machine = Machine::before(executed);
        let mut checkpoints = Vec::new();
        let mut contradiction = None;
        for (at, event) in executed.iter().enumerate() {
            if at.is_multiple_of(distance) {
                checkpoints.push(machine.clone());
            }
            if contradiction.is_none() && !is_enabled(&machine, event) {
                contradiction = Some(at);
            }
            machine.follow(event);
        }
        let has_wakers = executed.iter().any(|event| event.op.has_waker());
        Self { executed, distance, checkpoints, contradiction, has_wakers }
    }

    /// Returns the first event, by its number in the trace, that is not enabled at its place in this order of
    /// some of the events: its thread would have to wait, or does not exist yet.
    pub(crate) fn first_impossible(&self, order: &[usize]) -> Option<usize> {
        let common = order.iter().enumerate().take_while(|(place, at)| place == *at).count();
        if let Some(at) = self.contradiction.filter(|&at| at < common) {
            return Some(at);
        }
        let nearest = (common / self.distance).min(self.checkpoints.len().checked_sub(1)?);
        let mut machine = self.checkpoints[nearest].clone();
        let from = nearest * self.distance;
        self.executed[from..common].iter().for_each(|event| machine.follow(event));
        let mut places = Vec::new();
        if self.has_wakers {
            places = vec![None; self.executed.len()];
            order.iter().enumerate().for_each(|(new, &old)| places[old] = Some(new as u64));
        }
        order[common..].iter().copied().find(|&at| {
            let mut event = self.executed[at];
            if event.op.has_waker() {
                let place = |old: u64| places.get(usize::try_from(old).ok()?).copied()?;
                event = event.with_waker(event.waker().and_then(place));
            }
            let is_impossible = !is_enabled(&machine, &event);
            machine.follow(&event);
            is_impossible
        })
    }
}

/// Returns whether the event could be executed now, with its result.
pub(crate) fn is_enabled(machine: &Machine, event: &Event) -> bool {
    !matches!(machine.enabled_with_result(&machine.decode(event)), Enabled::No { .. })
}
