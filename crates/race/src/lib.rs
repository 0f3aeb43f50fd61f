//! Happens-before, and the operations that it does not order.
//!
//! [`Detector`] processes events one by one and reports *conflicts*: operations of different threads on the
//! same object whose order the program leaves open.
//!
//! - A **race**: two accesses to a common byte, at least one a write, not both atomic, and neither happening
//!   before the other. Epochs distinguish the moments of threads as in FastTrack (Flanagan and Freund, PLDI 2009);
//!   the ordering edges of all modelled operations are in one place: `order.rs`.
//! - A **hidden race**: the same, but in this run the order of critical sections ordered the two, and no
//!   common lock protects them. They are not ordered by happens-before without the edges of locks, and their
//!   locksets are disjoint (the hybrid of O'Callahan and Choi, PPoPP 2003; also the filter of `interleaving
//!   inference`, section 3). In another order it may or may not be a race: it suggests where to look and is
//!   never reported as a race.
//! - A **contention**: two atomic operations on a variable, or two operations that take the same lock.
//!
//! Deviations from FastTrack: the detector remembers the accesses of all threads that may still take part in
//! a hidden race, not only the last ones. Each is remembered with its site, because sites are what a search
//! needs.
//!
//! Execution is serialised and events arrive in its order, so the detector needs no locking.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod cell;
mod clock;
mod detector;
mod locksets;
mod memory;
mod order;
mod table;

#[cfg(test)]
mod tests;

pub use cell::{AccessEpoch, ShadowCell, Word};
pub use clock::Epoch;
pub use detector::{Access, Detector, FoundConflict};
pub use memory::{ShadowMemory, SparseShadow};
pub use order::{Edges, HappensBefore};

use alloc::{collections::BTreeSet, vec::Vec};
use unsnarl_model::{ConflictKind, Event, SiteIx, Trace};

/// Two conflicting operations, by the numbers of their events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConflictPair {
    /// The kind of conflict.
    pub kind: ConflictKind,
    /// The earlier one.
    pub first: u64,
    /// The later one.
    pub second: u64,
}

/// Returns every conflicting pair found among these events.
pub fn pairs(events: &[Event]) -> Vec<ConflictPair> {
    let mut detector = Detector::new(SparseShadow::default());
    let mut pairs = Vec::new();
    for (event, second) in events.iter().zip(0..) {
        detector.step(event, second, second, |found| {
            let pair = ConflictPair { kind: found.kind, first: found.first.tag(), second };
            // A wide access conflicts with another once, not once per word.
            if pairs.last() != Some(&pair) {
                pairs.push(pair);
            }
        });
    }
    pairs
}

/// Returns the races of a trace: the first one for each pair of sites.
#[must_use]
pub fn races(trace: &Trace) -> Vec<ConflictPair> {
    let mut seen: BTreeSet<(SiteIx, SiteIx)> = BTreeSet::new();
    let mut races = pairs(&trace.events);
    races.retain(|pair| {
        let [a, b] = [pair.first, pair.second].map(|number| trace.events[number as usize].site);
        pair.kind == ConflictKind::Race && seen.insert((a.min(b), a.max(b)))
    });
    races
}
