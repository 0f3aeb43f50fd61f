//! In which order threads ran.

use crate::{Event, Flags, ThreadIx};
use alloc::vec::Vec;

/// A maximal run of points by one thread; the papers' thread execution interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Who runs.
    pub thread: ThreadIx,
    /// For how many points.
    pub points: u32,
}

/// Who ran, and for how long, from the first point to the last.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Schedule {
    /// In order; neighbours are of different threads.
    pub segments: Vec<Segment>,
}

impl Schedule {
    /// The schedule that these events were executed by.
    #[must_use]
    pub fn of(events: &[Event]) -> Self {
        let mut schedule = Self::default();
        events.iter().for_each(|event| schedule.push(event.thread));
        schedule
    }

    /// One more point by `thread`.
    pub fn push(&mut self, thread: ThreadIx) {
        match self.segments.last_mut() {
            Some(last) if last.thread == thread && last.points < u32::MAX => last.points += 1,
            _ => self.segments.push(Segment { thread, points: 1 }),
        }
    }

    /// How many points it has.
    #[must_use]
    pub fn points(&self) -> u64 {
        self.segments.iter().map(|s| u64::from(s.points)).sum()
    }
}

/// How large and how tangled a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Events in all.
    pub events: u64,
    /// Threads that executed an event.
    pub threads: u64,
    /// Neighbouring events of different threads.
    pub context_switches: u64,
    /// Context switches away from a thread that could have gone on.
    pub preemptive: u64,
}

impl Stats {
    /// Counts these events.
    #[must_use]
    pub fn of(events: &[Event]) -> Self {
        let mut count = StatsCounter::default();
        events.iter().for_each(|event| count.add(event));
        count.stats
    }

    /// Context switches away from a thread that could not go on.
    #[must_use]
    pub const fn non_preemptive(&self) -> u64 {
        self.context_switches - self.preemptive
    }
}

/// Counts events that come one after the other.
#[derive(Clone, Debug, Default)]
pub struct StatsCounter {
    /// So far.
    pub stats: Stats,
    seen: Vec<bool>,
    last: Option<ThreadIx>,
}

impl StatsCounter {
    /// One more event.
    pub fn add(&mut self, event: &Event) {
        let ix = event.thread.index();
        if self.seen.len() <= ix {
            self.seen.resize(ix + 1, false);
        }
        self.stats.events += 1;
        self.stats.threads += u64::from(!core::mem::replace(&mut self.seen[ix], true));
        if self.last.replace(event.thread).is_some_and(|last| last != event.thread) {
            self.stats.context_switches += 1;
            self.stats.preemptive += u64::from(event.flags.has(Flags::PREEMPTS));
        }
    }
}
