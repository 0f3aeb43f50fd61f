//! A trace in another order, told event by event: of traces that are too long to be held in memory.
//!
//! What an event in a new order is like depends on little of the whole trace: the new number of the event that woke
//! it, and whether the thread that ran before could have gone on. A [`Survey`] of all events gathers that; what it
//! keeps grows with wake-ups, rounds of barriers and semaphores, not with events. [`ScheduleRebuilder`] then takes the events
//! in their new order.

use super::preemption::{ExecutionFacts, FutureEvents, Marker};
use std::collections::{HashMap, VecDeque};
use unsnarl_model::{Event, Schedule, Stats, StatsCounter, ThreadIx, Wait, Warning};

/// What must be known of all events before they are told in another order. It looks at each of them twice.
#[derive(Debug, Default)]
pub struct Survey {
    executed: ExecutionFacts,
    future: FutureEvents,
    count: StatsCounter,
    /// The numbers of events that others name.
    named: Vec<u64>,
    /// Where they are: who, after how many events of its own.
    places: Vec<(ThreadIx, u64)>,
    /// How many events of each thread were seen at the second look.
    again: Vec<u64>,
    looked: u64,
    /// The warnings in the order in which they were given, and how many events their threads had had by then.
    warnings: VecDeque<(u64, ThreadIx, usize)>,
    warned: Vec<(usize, u64)>,
}

impl Survey {
    /// Of events that these warnings are about.
    #[must_use]
    pub fn new(warnings: &[Warning]) -> Self {
        let mut queue: Vec<_> =
            warnings.iter().enumerate().map(|(ix, warning)| (warning.at, warning.thread, ix)).collect();
        queue.sort_unstable();
        Self { warnings: queue.into(), ..Self::default() }
    }

    /// The first look at the next event.
    pub fn look(&mut self, event: &Event) {
        while self.warnings.front().is_some_and(|&(at, ..)| at <= self.count.stats.events) {
            self.place_warnings();
        }
        self.executed.note(event);
        self.future.note(event);
        self.count.add(event);
        if event.op.names_its_cause() && event.value != u64::MAX {
            self.named.push(event.value);
        }
    }

    fn place_warnings(&mut self) {
        if let Some((_, thread, ix)) = self.warnings.pop_front() {
            self.warned.push((ix, self.future.events.get(thread.index()).copied().unwrap_or(0)));
        }
    }

    /// How many events there are, and how tangled they are.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.count.stats
    }

    /// How many events each thread has.
    #[must_use]
    pub fn of_threads(&self) -> &[u64] {
        &self.future.events
    }

    /// The first look at all events is over.
    pub fn end_first_look(&mut self) {
        while !self.warnings.is_empty() {
            self.place_warnings();
        }
        self.named.sort_unstable();
        self.named.dedup();
        self.again = vec![0; self.future.events.len()];
    }

    /// The second look at the next event.
    pub fn second_look(&mut self, event: &Event) {
        let own = &mut self.again[event.thread.index()];
        if self.named.get(self.places.len()) == Some(&self.looked) {
            self.places.push((event.thread, *own));
        }
        *own += 1;
        self.looked += 1;
    }

    /// Both looks are over: the events in the new order can be told. The warnings are put where they belong there.
    #[must_use]
    pub fn schedule_rebuilder<'w>(
        self,
        schedule: &Schedule,
        waits: &'w [Wait],
        warnings: &mut [Warning],
    ) -> ScheduleRebuilder<'w> {
        let moved = |places: &[(ThreadIx, u64)]| moved(schedule, self.future.events.len(), places);
        let new = self.named.iter().copied().zip(moved(&self.places)).collect();
        let before: Vec<(ThreadIx, u64)> =
            self.warned.iter().map(|&(ix, own)| (warnings[ix].thread, own.wrapping_sub(1))).collect();
        for (&(ix, own), place) in self.warned.iter().zip(moved(&before)) {
            warnings[ix].at = if own == 0 { 0 } else { place.wrapping_add(1) };
        }
        ScheduleRebuilder { new, marker: Marker::new(self.executed, self.future, waits) }
    }
}

/// Where these events of threads are in a schedule; the largest number there is for those that are not in it.
fn moved(schedule: &Schedule, threads: usize, places: &[(ThreadIx, u64)]) -> Vec<u64> {
    let mut tracked: Vec<Vec<(u64, usize)>> = vec![Vec::new(); threads];
    for (at, &(thread, own)) in places.iter().enumerate() {
        if let Some(tracked) = tracked.get_mut(thread.index()) {
            tracked.push((own, at));
        }
    }
    // Taken from behind.
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

/// Tells events in a new order.
#[derive(Debug)]
pub struct ScheduleRebuilder<'w> {
    /// The new numbers of events that others name.
    new: HashMap<u64, u64>,
    marker: Marker<'w>,
}

impl ScheduleRebuilder<'_> {
    /// The next event in the new order, as it is there. `upcoming` is what the thread that ran before does next, if
    /// anything.
    pub fn rebuild(&mut self, event: Event, upcoming: Option<Event>) -> Event {
        let event = self.renumbered(event);
        let upcoming = upcoming.map(|event| self.renumbered(event));
        self.marker.marked(event, upcoming.as_ref())
    }

    fn renumbered(&self, event: Event) -> Event {
        match event.op {
            op if op.names_its_cause() => {
                Event { value: self.new.get(&event.value).copied().unwrap_or(u64::MAX), ..event }
            }
            _ => event,
        }
    }
}
