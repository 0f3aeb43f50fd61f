//! Happens-before, and the operations that it does not order.
//!
//! [`Detector`] takes events one after the other and tells of *conflicts*: operations of different threads on
//! the same thing whose order the program leaves open.
//!
//! - A **race**: two accesses to a common byte, at least one a write, not both atomic, and neither happening
//!   before the other. Threads' moments are told apart by epochs as in FastTrack (Flanagan and Freund, PLDI
//!   2009); what orders them are all the modelled operations, each in one place: `order.rs`.
//! - A **hidden race**: the same, but in this run the order of critical sections happened to order the two, and
//!   no common lock protects them: they are not ordered by happens-before without the edges of locks, and
//!   their locksets are disjoint (the hybrid of O'Callahan and Choi, PPoPP 2003; also the filter of
//!   `interleaving inference`, section 3). It may be a race in another order,
//!   and may be none: it says where to look and is never told as a race.
//! - A **contention**: two atomic operations on a variable, or two operations that take the same lock.
//!
//! Where this deviates from FastTrack: accesses of all threads that may still take part in a hidden race are
//! remembered, not only the last ones, and each with the place that it came from, because places are what a
//! search is told.
//!
//! Execution is serialised and the events come in its order, so the detector needs no lock of its own.

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

pub use cell::{Moment, ShadowCell, Word};
pub use clock::Epoch;
pub use detector::{Access, Detector, FoundConflict};
pub use memory::{ShadowMemory, SparseShadow};
pub use order::{Edges, HappensBefore};

use alloc::{collections::BTreeSet, vec::Vec};
use unsnarl_model::{ConflictKind, Event, Flags, SiteIx, Trace};

/// Two operations in conflict, by the numbers of their events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConflictPair {
    /// What they are to each other.
    pub kind: ConflictKind,
    /// The earlier one.
    pub first: u64,
    /// The later one.
    pub second: u64,
}

/// The conflicts of some events, every pair that is met.
pub fn pairs(events: &[Event]) -> Vec<ConflictPair> {
    let mut detector = Detector::new(SparseShadow::default());
    let mut pairs = Vec::new();
    for (event, second) in events.iter().zip(0..) {
        detector.step(event, second, second, |found| {
            let pair = ConflictPair { kind: found.kind, first: found.first.tag(), second };
            // A wide access conflicts with another once, not once a word.
            if pairs.last() != Some(&pair) {
                pairs.push(pair);
            }
        });
    }
    pairs
}

/// The races of a trace, one for each pair of sites: the first that shows it.
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

/// Whether an operation did what it is for.
const fn succeeded(event: &Event) -> bool {
    !event.flags.has(Flags::FAILED) && !event.flags.has(Flags::TIMED_OUT)
}
