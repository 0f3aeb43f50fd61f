//! Schedules: the order in which threads ran.

use crate::{Event, Flags, ThreadIx};
use alloc::vec::Vec;

/// A maximal sequence of points of one thread; the papers' thread execution interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// The running thread.
    pub thread: ThreadIx,
    /// The number of points.
    pub points: u32,
}

/// The order in which threads ran, from the first point to the last.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Schedule {
    /// In order; adjacent segments belong to different threads.
    pub segments: Vec<Segment>,
}

impl Schedule {
    /// Returns the schedule of these events.
    #[must_use]
    pub fn of(events: &[Event]) -> Self {
        let mut schedule = Self::default();
        events.iter().for_each(|event| schedule.push(event.thread));
        schedule
    }

    /// Appends one point of `thread`.
    pub fn push(&mut self, thread: ThreadIx) {
        match self.segments.last_mut() {
            Some(last) if last.thread == thread && last.points < u32::MAX => last.points += 1,
            _ => self.segments.push(Segment { thread, points: 1 }),
        }
    }

    /// Returns the number of points.
    #[must_use]
    pub fn points(&self) -> u64 {
        self.segments.iter().map(|s| u64::from(s.points)).sum()
    }
}

/// The threads that were enabled at a point, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EnabledThreads {
    /// All of them.
    pub can_run: u64,
    /// Those that yield or spin, or that can go on only by a timeout.
    pub yields: u64,
}

impl EnabledThreads {
    /// The number of threads that have a bit.
    pub const THREADS: usize = u64::BITS as usize;
}

/// The size of a trace and its context switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// The number of events.
    pub events: u64,
    /// Threads that executed an event.
    pub threads: u64,
    /// Adjacent events of different threads.
    pub context_switches: u64,
    /// Context switches away from a thread that could have continued.
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

    /// Returns the number of context switches away from a thread that could not continue.
    #[must_use]
    pub const fn non_preemptive(&self) -> u64 {
        self.context_switches - self.preemptive
    }
}

/// Counts events one by one.
#[derive(Clone, Debug, Default)]
pub struct StatsCounter {
    /// The counts so far.
    pub stats: Stats,
    seen: Vec<bool>,
    last: Option<ThreadIx>,
}

impl StatsCounter {
    /// Counts one more event.
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
