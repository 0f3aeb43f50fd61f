//! Where threads may be ordered by code that is not instrumented: what it does with locks and atomics is no event.
//!
//! It gives itself away by its futexes, and by variables that do not hold what instrumented code has left there. A
//! thread that may have been there comes after all that was done up to then; by the same rules as in the race
//! detector, so that what is told without a run is what a run would show.

use std::collections::BTreeMap;
use unsnarl_model::{Event, Flags, Op, Order};

/// What is known of it so far.
#[derive(Clone, Debug, Default)]
pub(super) struct UninstrumentedOrder {
    /// Variables that did not hold what was left there, and how often.
    foreign: BTreeMap<u64, u32>,
    /// Whether the last event may have been ordered so.
    pub(super) orders: bool,
}

impl UninstrumentedOrder {
    /// One more event.
    pub(super) fn step(&mut self, event: &Event) {
        self.orders = match event.op {
            Op::FutexWake | Op::FutexRequeue | Op::FutexWoken => true,
            Op::FutexWait => event.flags.has(Flags::FAILED),
            // Fences come after relaxed loads: to be on the safe side those count too.
            Op::AtomicLoad | Op::AtomicRmw | Op::AtomicCas | Op::AtomicStore => {
                let found = event.flags.has(Flags::FOREIGN);
                if found {
                    *self.foreign.entry(event.addr).or_default() += 1;
                }
                let foreign = found || self.foreign.get(&event.addr).is_some_and(|&often| often > 1);
                foreign && !matches!((event.op, event.order), (Op::AtomicStore, _) | (_, Order::Release))
            }
            _ => false,
        };
    }
}
