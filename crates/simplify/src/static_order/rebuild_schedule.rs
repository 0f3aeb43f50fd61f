//! Writes a trace in another order event by event, for traces that are too long for memory.
//!
//! An event in a new order depends on little of the whole trace: the new number of the event that woke it,
//! and whether the thread that ran before could have continued. A [`Survey`] of all events collects that; its
//! size grows with wake-ups, barrier rounds and semaphores, not with events. [`ScheduleRebuilder`] then
//! processes the events in their new order.

use std::collections::{HashMap, VecDeque};
use unsnarl_model::{Event, Schedule, Stats, StatsCounter, ThreadIx, Wait, Warning};
use unsnarl_semantics::preemption::{ExecutionFacts, PreemptionMarker};

/// Facts about all events that are needed before they are written in another order. It looks at each event
/// twice.
#[derive(Debug, Default)]
pub struct Survey {
    executed: ExecutionFacts,
    count: StatsCounter,
    /// The numbers of events that others refer to.
    named: Vec<u64>,
    /// Their positions: the thread, and the number of its earlier events.
    places: Vec<(ThreadIx, u64)>,
    /// The number of events of each thread seen by the second look.
    again: Vec<u64>,
    looked: u64,
    /// The warnings in order, and how many events their threads had executed by then.
    warnings: VecDeque<(u64, ThreadIx, usize)>,
    warned: Vec<(usize, u64)>,
}

impl Survey {
    /// Creates a survey of events with these warnings.
    #[must_use]
    pub fn new(warnings: &[Warning]) -> Self {
        let mut queue: Vec<_> =
            warnings.iter().enumerate().map(|(ix, warning)| (warning.at, warning.thread, ix)).collect();
        queue.sort_unstable();
        Self { warnings: queue.into(), ..Self::default() }
    }

    /// Takes the first look at the next event.
    pub fn look(&mut self, event: &Event) {
        while self.warnings.front().is_some_and(|&(at, ..)| at <= self.count.stats.events) {
            self.place_warnings();
        }
        self.executed.note(event);
        self.count.add(event);
        self.named.extend(event.waker());
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

    /// Ends the first look at all events.
    pub fn end_first_look(&mut self) {
        while !self.warnings.is_empty() {
            self.place_warnings();
        }
        self.named.sort_unstable();
        self.named.dedup();
        self.again = vec![0; self.of_threads().len()];
    }

    /// Takes the second look at the next event.
    pub fn second_look(&mut self, event: &Event) {
        let own = &mut self.again[event.thread.index()];
        if self.named.get(self.places.len()) == Some(&self.looked) {
            self.places.push((event.thread, *own));
        }
        *own += 1;
        self.looked += 1;
    }

    /// Ends the survey and returns a rebuilder for the new order. The warnings are moved to their new
    /// positions.
    #[must_use]
    pub fn schedule_rebuilder<'w>(
        self,
        schedule: &Schedule,
        waits: &'w [Wait],
        warnings: &mut [Warning],
    ) -> ScheduleRebuilder<'w> {
        let moved = |places: &[(ThreadIx, u64)]| moved(schedule, self.of_threads().len(), places);
        let new = self.named.iter().copied().zip(moved(&self.places)).collect();
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
