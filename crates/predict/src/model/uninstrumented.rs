//! Ordering by uninstrumented code, whose operations on locks and atomics are no events.
//!
//! It is recognised by its futexes, and by variables with an unexpected value. A thread that may have
//! executed such code comes after everything done up to then. The rules are the same as in the race detector,
//! so that a report without a run equals what a run would show.

use std::collections::BTreeMap;
use unsnarl_model::{Event, Flags, Op, Order};

/// The observations so far.
#[derive(Clone, Debug, Default)]
pub(super) struct UninstrumentedOrder {
    /// Variables that had an unexpected value, and how often.
    foreign: BTreeMap<u64, u32>,
    /// True if the last event may have been ordered in this way.
    pub(super) orders: bool,
}

impl UninstrumentedOrder {
    /// Processes one more event.
    pub(super) fn step(&mut self, event: &Event) {
        self.orders = match event.op {
            Op::FutexWake | Op::FutexRequeue | Op::FutexWoken => true,
            Op::FutexWait => event.flags.has(Flags::FAILED),
            // Fences follow relaxed loads, so to be safe those count too.
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
