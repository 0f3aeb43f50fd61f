//! Whether an order of events is possible.

use unsnarl_model::Event;
use unsnarl_semantics::{Enabled, Machine};

/// Returns the first of these events, in the given order, that is not enabled at its position: its thread
/// would have to wait, or does not exist yet. `executed` has them, and perhaps more, in the order of
/// execution.
pub(crate) fn first_impossible(events: &[Event], executed: &[Event]) -> Option<usize> {
    let mut machine = Machine::before(executed);
    events.iter().position(|event| {
        let is_impossible = matches!(machine.enabled_with_result(&machine.decode(event)), Enabled::No { .. });
        machine.follow(event);
        is_impossible
    })
}
