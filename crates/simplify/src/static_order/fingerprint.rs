//! Fingerprints that are equal for equivalent orders of events.
//!
//! Two orders that differ only in the order of independent events have the same result. They have the same
//! fingerprint: each event is hashed with its direct dependences, and the sum of the hashes does not depend
//! on their order. CHESS caches visited states in the same way.
//!
//! The search has a hash of its own for that (`StateHash` in `unsnarl_search`), which is updated event by event
//! and is forgotten after the search. These are written into proofs, so they consist of what is the same in
//! every run: paths of threads, operations, and sites, but no addresses.

use super::{Rules, graph::Builder};
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};
use unsnarl_model::{Event, Flags, ThreadIx, Trace};

/// The fingerprints of an order of events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fingerprints {
    /// Of each event with everything it depends on.
    pub(crate) events: Vec<u64>,
    /// Of the state after each event.
    pub(crate) states: Vec<u64>,
}

/// Returns the fingerprints of a trace's events in this order.
pub(crate) fn fingerprints(trace: &Trace, order: &[usize], rules: Rules) -> Fingerprints {
    // Being the last of an order does not change an event's identity.
    let mut builder = Builder::apart(Rules { end: false, ..rules });
    order.iter().for_each(|&at| builder.push(trace.events[at]));
    let graph = builder.finish();
    let mut prints = Fingerprints::default();
    let mut latest: HashMap<ThreadIx, u64> = HashMap::new();
    let mut sum = 0u64;
    for (node, &at) in order.iter().enumerate() {
        let event = &trace.events[at];
        let mut hasher = DefaultHasher::new();
        identity(trace, event).hash(&mut hasher);
        latest.get(&event.thread).hash(&mut hasher);
        let before = graph.before(node as u32).iter().map(|&n| prints.events[n as usize]);
        before.fold(0u64, u64::wrapping_add).hash(&mut hasher);
        let hash = hasher.finish();
        latest.insert(event.thread, hash);
        sum = sum.wrapping_add(hash);
        prints.events.push(hash);
        prints.states.push(sum);
    }
    prints
}

/// Returns the properties of an event that are the same in every run: no thread number, no addresses.
fn identity<'t>(trace: &'t Trace, event: &Event) -> (&'t [u32], u8, u8, u16, u64) {
    let site = trace.site(event);
    let went = event.flags.0 & (Flags::FAILED | Flags::TIMED_OUT | Flags::CANCELLED).0;
    // Proofs on disk have the hash of one byte.
    let [went, _] = went.to_le_bytes();
    (trace.thread_id(event.thread).path(), event.op as u8, went, site.module.0, site.offset)
}
