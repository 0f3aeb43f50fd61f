//! Writes a trace in another order event by event, for traces that are too long for memory.
//!
//! An event in a new order depends on little of the whole trace: the new number of the event that woke it,
//! and whether the thread that ran before could have continued. [`RebuildFacts`] contain that; their size grows
//! with wake-ups, barrier rounds and semaphores, not with events. [`ScheduleRebuilder`] then processes the
//! events in their new order.

use std::collections::{HashMap, VecDeque};
use unsnarl_model::{Event, Schedule, Stats, StatsCounter, ThreadIx, Wait, Warning};
use unsnarl_semantics::preemption::{ExecutionFacts, PreemptionMarker};

/// Facts about all events that are needed before they are written in another order. Each event is
/// processed twice.
#[derive(Debug, Default)]
pub struct RebuildFacts {
    executed: ExecutionFacts,
    count: StatsCounter,
    /// The numbers of events that others refer to.
    referenced: Vec<u64>,
    /// Their positions: the thread, and the number of its earlier events.
    places: Vec<(ThreadIx, u64)>,
    /// The number of events of each thread seen by the second pass.
    second_pass_counts: Vec<u64>,
    second_pass_events: u64,
    /// The warnings in order, and how many events their threads had executed by then.
    warnings: VecDeque<(u64, ThreadIx, usize)>,
    warned: Vec<(usize, u64)>,
}

impl RebuildFacts {
    /// Creates the facts about events with these warnings, before the first event.
    #[must_use]
    pub fn new(warnings: &[Warning]) -> Self {
        let mut queue: Vec<_> =
            warnings.iter().enumerate().map(|(ix, warning)| (warning.at, warning.thread, ix)).collect();
        queue.sort_unstable();
        Self { warnings: queue.into(), ..Self::default() }
    }

    /// Processes the next event in the first pass.
    pub fn first_pass(&mut self, event: &Event) {
        while self.warnings.front().is_some_and(|&(at, ..)| at <= self.count.stats.events) {
            self.place_warnings();
        }
        self.executed.note(event);
        self.count.add(event);
        self.referenced.extend(event.waker());
    }

    fn place_warnings(&mut self) {
        if let Some((_, thread, ix)) = self.warnings.pop_front() {
            self.warned.push((ix, self.of_threads().get(thread.index()).copied().unwrap_or(0)));
        }
    }

    /// Returns the number of events, threads and context switches.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.count.stats
    }

    /// Returns the number of events of each thread.
    #[must_use]
    pub fn of_threads(&self) -> &[u64] {
        self.executed.expectations.events()
    }

    /// Ends the first pass over all events.
    pub fn end_first_pass(&mut self) {
        while !self.warnings.is_empty() {
            self.place_warnings();
        }
        self.referenced.sort_unstable();
        self.referenced.dedup();
        self.second_pass_counts = vec![0; self.of_threads().len()];
    }

    /// Processes the next event in the second pass.
    pub fn second_pass(&mut self, event: &Event) {
        let own = &mut self.second_pass_counts[event.thread.index()];
        if self.referenced.get(self.places.len()) == Some(&self.second_pass_events) {
            self.places.push((event.thread, *own));
        }
        *own += 1;
        self.second_pass_events += 1;
    }

    /// Returns a rebuilder for the new order. The warnings are moved to their new
    /// positions.
    #[must_use]
    pub fn schedule_rebuilder<'w>(
        self,
        schedule: &Schedule,
        waits: &'w [Wait],
        warnings: &mut [Warning],
    ) -> ScheduleRebuilder<'w> {
        let moved = |places: &[(ThreadIx, u64)]| moved(schedule, self.of_threads().len(), places);
        let new = self.referenced.iter().copied().zip(moved(&self.places)).collect();
        let before: Vec<(ThreadIx, u64)> =
            self.warned.iter().map(|&(ix, own)| (warnings[ix].thread, own.wrapping_sub(1))).collect();
        for (&(ix, own), place) in self.warned.iter().zip(moved(&before)) {
            warnings[ix].at = if own == 0 { 0 } else { place.wrapping_add(1) };
        }
        ScheduleRebuilder { new, marker: PreemptionMarker::new(self.executed, waits) }
    }
}

/// Returns the positions of these events in a schedule; `u64::MAX` for events that are not in it.
fn moved(schedule: &Schedule, threads: usize, places: &[(ThreadIx, u64)]) -> Vec<u64> {
    let mut tracked: Vec<Vec<(u64, usize)>> = vec![Vec::new(); threads];
    for (at, &(thread, own)) in places.iter().enumerate() {
        if let Some(tracked) = tracked.get_mut(thread.index()) {
            tracked.push((own, at));
        }
    }
    // Sorted in descending order, because elements are taken from the end.
    tracked.iter_mut().for_each(|tracked| tracked.sort_unstable_by(|a, b| b.cmp(a)));
    let mut done = vec![0; threads];
    let mut found = vec![u64::MAX; places.len()];
    let mut begin = 0;
    for segment in &schedule.segments {
        let (thread, points) = (segment.thread.index(), u64::from(segment.points));
        let from = done[thread];
        while let Some(&(own, at)) = tracked[thread].last().filter(|(own, _)| *own < from + points) {
            found[at] = begin + (own - from);
            tracked[thread].pop();
        }
        done[thread] += points;
        begin += points;
    }
    found
}

/// Writes events in a new order.
#[derive(Debug)]
pub struct ScheduleRebuilder<'w> {
    /// The new numbers of events that others refer to.
    new: HashMap<u64, u64>,
    marker: PreemptionMarker<'w>,
}

impl ScheduleRebuilder<'_> {
    /// Adapts the next event to the new order. `upcoming` is the next event of the thread that ran before, if
    /// any.
    pub fn rebuild(&mut self, event: Event, upcoming: Option<Event>) -> Event {
        let event = self.renumbered(event);
        let upcoming = upcoming.map(|event| self.renumbered(event));
        self.marker.marked(event, upcoming.as_ref())
    }

    fn renumbered(&self, event: Event) -> Event {
        if !event.op.has_waker() {
            return event;
        }
        event.with_waker(event.waker().and_then(|old| self.new.get(&old).copied()))
    }
}
