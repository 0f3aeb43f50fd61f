//! Ordering by uninstrumented code, whose operations on locks and atomics are no events.
//!
//! It is recognised by its futexes, by variables with an unexpected value, and by calls of functions that are known to
//! synchronise. A thread that may have
//! executed such code comes after everything done up to then. The rules are the same as in the race detector,
//! so that a report without a run equals what a run would show.

use std::collections::BTreeMap;
use unsnarl_model::Order;
use unsnarl_semantics::{AtomicEdge, Edge, Step, edges};

/// The observations so far.
#[derive(Clone, Debug, Default)]
pub(super) struct UninstrumentedOrder {
    /// Variables that had an unexpected value, and how often.
    foreign: BTreeMap<u64, u32>,
    /// True if the last step may have been ordered in this way.
    pub(super) orders: bool,
}

impl UninstrumentedOrder {
    /// Processes one more step.
    pub(super) fn step(&mut self, step: &Step) {
        let mut orders = false;
        edges(step, |edge| match edge {
            Edge::Unobserved => orders = true,
            Edge::Atomic(access) => orders |= self.access(access),
            _ => {}
        });
        self.orders = orders;
    }

    fn access(&mut self, access: AtomicEdge) -> bool {
        let AtomicEdge { variable, loads, order, foreign: found, .. } = access;
        if found {
            *self.foreign.entry(variable).or_default() += 1;
        }
        let foreign = found || self.foreign.get(&variable).is_some_and(|&often| often > 1);
        // Fences follow relaxed loads, so to be safe those count too.
        foreign && loads && order != Order::Release
    }
}
