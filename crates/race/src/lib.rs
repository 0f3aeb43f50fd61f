//! Happens-before, and the accesses it does not order.
//!
//! [`Detector`] takes events one after the other and tells of data races: two accesses of different threads
//! to a common byte, at least one a write, not both atomic, and neither happening before the other. The
//! accesses of each thread are told apart by epochs as in FastTrack (Flanagan and Freund, PLDI 2009); what
//! orders them are all the modelled synchronisation operations, each in one place: [`order`].
//!
//! Execution is serialised and the events come in its order, so the detector needs no lock of its own.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod clock;
mod order;
mod shadow;

#[cfg(test)]
mod tests;

pub use clock::{Clock, Epoch};
pub use order::HappensBefore;
pub use shadow::Shadow;

use alloc::{collections::BTreeSet, vec::Vec};
use unsnarl_model::{Event, Flags, Op, SiteIx, Trace};

/// Two accesses that nothing orders, by the numbers of their events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Race {
    /// The earlier one.
    pub first: u64,
    /// The later one.
    pub second: u64,
}

/// Finds the races of one run.
#[derive(Debug, Default)]
pub struct Detector {
    order: HappensBefore,
    shadow: Shadow,
    count: u64,
}

impl Detector {
    /// One more event; the races that it is the second part of.
    pub fn step(&mut self, event: &Event) -> Vec<Race> {
        let number = self.count;
        self.count += 1;
        let mut races = Vec::new();
        // What is freed counts as forgotten rather than written: the order that makes it safe is often kept by
        // a reference count in library code that is not instrumented, and a false alarm is worse.
        if matches!(event.op, Op::Alloc | Op::Free) {
            self.shadow.forget(event.addr, event.size);
            return races;
        }
        // An atomic operation reads or writes its variable before it orders anything after it.
        if let Some(access) = shadow::Access::of(event, self.order.now(event.thread)) {
            let order = &self.order;
            let ordered = |epoch: Epoch| order.before(epoch, event.thread);
            self.shadow.access(&access, number, ordered, |first| races.push(Race { first, second: number }));
        }
        self.order.step(event, number);
        races
    }
}

/// The races of a trace, one for each pair of sites: the first that shows it.
#[must_use]
pub fn races(trace: &Trace) -> Vec<Race> {
    let mut detector = Detector::default();
    let mut seen: BTreeSet<(SiteIx, SiteIx)> = BTreeSet::new();
    let mut found = Vec::new();
    for event in &trace.events {
        for race in detector.step(event) {
            let (a, b) = (trace.events[race.first as usize].site, trace.events[race.second as usize].site);
            if seen.insert((a.min(b), a.max(b))) {
                found.push(race);
            }
        }
    }
    found
}

/// Whether an operation did what it is for.
const fn succeeded(event: &Event) -> bool {
    !event.flags.has(Flags::FAILED) && !event.flags.has(Flags::TIMED_OUT)
}

/// Whether the operation writes memory.
const fn writes(event: &Event) -> bool {
    match event.op {
        Op::Write | Op::AtomicStore | Op::AtomicRmw => true,
        Op::AtomicCas => succeeded(event),
        _ => false,
    }
}
