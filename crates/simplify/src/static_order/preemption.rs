//! Determines from the events which context switches are preemptions.
//!
//! A run records that itself (`Flags::PREEMPTS`). For an order of events that has not been executed yet, it
//! follows from each thread's next operation: whether that was enabled when another thread continued. For a
//! thread without further events, its final wait decides; if it does not wait, all that is known is whether
//! it was preempted in the executed order.

use std::collections::{HashMap, HashSet};
use unsnarl_model::{Event, Flags, Op, Order, SiteIx, ThreadIx, Wait};
use unsnarl_semantics::succeeded;

/// Marks each preempting event in the given order. `executed` has the events in the order of execution, and
/// `waits` has the threads that were blocked at the end.
pub(super) fn mark(events: &mut [Event], executed: &[Event], waits: &[Wait]) {
    let next = next_of_same_thread(events);
    let (mut before, mut future) = (ExecutionFacts::default(), FutureEvents::default());
    executed.iter().for_each(|event| before.note(event));
    events.iter().for_each(|event| future.note(event));
    let mut marker = Marker::new(before, future, waits);
    for at in 0..events.len() {
        let upcoming = at.checked_sub(1).and_then(|before| next[before]).map(|next| events[next]);
        events[at] = marker.marked(events[at], upcoming.as_ref());
    }
}

/// Facts from the executed order that hold for every other order.
#[derive(Clone, Debug, Default)]
pub(super) struct ExecutionFacts {
    /// The count of each semaphore before its first operation.
    counts: HashMap<u64, u64>,
    /// For each thread, whether it was preempted after its last event.
    preempted: HashMap<ThreadIx, bool>,
    last: Option<ThreadIx>,
}

impl ExecutionFacts {
    /// Processes one more event.
    pub(super) fn note(&mut self, event: &Event) {
        note_count(&mut self.counts, event);
        if let Some(last) = self.last.replace(event.thread)
            && (last != event.thread || self.preempted.contains_key(&last))
        {
            self.preempted.insert(last, event.flags.has(Flags::PREEMPTS));
        }
    }
}

/// The events still to come in an order of events.
#[derive(Clone, Debug, Default)]
pub(super) struct FutureEvents {
    /// The number of events of each thread.
    pub(super) events: Vec<u64>,
    /// The number of arrivals at a barrier, by round.
    arrivals: HashMap<(u64, u64), u64>,
}

impl FutureEvents {
    /// Processes one more event.
    pub(super) fn note(&mut self, event: &Event) {
        let thread = event.thread.index();
        if self.events.len() <= thread {
            self.events.resize(thread + 1, 0);
        }
        self.events[thread] += 1;
        if event.op == Op::BarrierArrive {
            *self.arrivals.entry((event.addr, event.value)).or_default() += 1;
        }
    }

    fn happens(&mut self, event: &Event) {
        self.events[event.thread.index()] -= 1;
        if event.op == Op::BarrierArrive
            && let Some(missing) = self.arrivals.get_mut(&(event.addr, event.value))
        {
            *missing -= 1;
        }
    }
}

/// Determines which events preempt, event by event.
#[derive(Debug)]
pub(super) struct Marker<'w> {
    world: SyncState,
    future: FutureEvents,
    preempted: HashMap<ThreadIx, bool>,
    waits: &'w [Wait],
    ended: HashSet<ThreadIx>,
    last: Option<ThreadIx>,
    /// The number of events so far.
    at: u64,
}

impl<'w> Marker<'w> {
    pub(super) fn new(executed: ExecutionFacts, future: FutureEvents, waits: &'w [Wait]) -> Self {
        Self {
            world: SyncState { counts: executed.counts, ..SyncState::default() },
            future,
            preempted: executed.preempted,
            waits,
            ended: HashSet::new(),
            last: None,
            at: 0,
        }
    }

    /// Returns the next event, marked if it preempts. `upcoming` is the next event of the thread that ran
    /// before, if any.
    pub(super) fn marked(&mut self, event: Event, upcoming: Option<&Event>) -> Event {
        let left = self.last.replace(event.thread).filter(|&last| last != event.thread);
        let preempts = left.is_some_and(|thread| {
            match (upcoming, self.waits.iter().find(|wait| wait.thread == thread)) {
                (Some(next), _) => self.is_enabled(next) && self.world.permits(next),
                (None, Some(wait)) => self.world.permits_waiter(wait, &self.ended),
                (None, None) => self.preempted.get(&thread).copied().unwrap_or(false),
            }
        });
        if event.op == Op::End {
            self.ended.insert(event.thread);
        }
        self.world.step(&event);
        self.future.happens(&event);
        self.at += 1;
        let others = Flags(event.flags.0 & !Flags::PREEMPTS.0);
        Event { flags: if preempts { others | Flags::PREEMPTS } else { others }, ..event }
    }

    /// Returns whether an event is enabled as far as other threads decide: a thread's end, a wake-up, the
    /// last arrival at a barrier. Locks and counts are checked by [`SyncState`]. Never for events caused by
    /// the passing of time.
    fn is_enabled(&self, event: &Event) -> bool {
        match event.op {
            _ if event.flags.has(Flags::TIMED_OUT) || event.op.yields() => false,
            // Traces of other tools have no end events: a thread's last event counts as its end.
            Op::Join if !event.flags.has(Flags::FAILED) => {
                let target = usize::try_from(event.value).ok();
                target.and_then(|target| self.future.events.get(target)).is_none_or(|&left| left == 0)
            }
            op if op.has_waker() => event.waker().is_some_and(|waker| waker < self.at),
            Op::BarrierLeave => {
                self.future.arrivals.get(&(event.addr, event.value)).is_none_or(|&missing| missing == 0)
            }
            _ => true,
        }
    }
}

/// Returns the first of these events, in the given order, that is not enabled at its position: its thread
/// would have to wait, or does not exist yet. `executed` has them, and perhaps more, in the order of
/// execution.
pub(crate) fn first_impossible(events: &[Event], executed: &[Event]) -> Option<usize> {
    let mut world = SyncState::before(executed);
    let created =
        |event: &Event| (event.op == Op::Create && !event.flags.has(Flags::FAILED)).then_some(event.value);
    let mut unstarted: HashSet<u64> = executed.iter().filter_map(created).collect();
    let mut inside: HashMap<(u64, u64), usize> = HashMap::new();
    for event in executed.iter().filter(|event| event.op == Op::BarrierArrive) {
        *inside.entry((event.addr, event.value)).or_default() += 1;
    }
    let mut alive: HashSet<u64> = executed.iter().map(|event| event.thread.0.into()).collect();
    for (at, event) in events.iter().enumerate() {
        let failed = !succeeded(event);
        let opened = match event.op {
            Op::Join if !failed => !alive.contains(&event.value),
            Op::CondWake | Op::FutexWoken if !failed => event.waker().is_some_and(|waker| waker < at as u64),
            Op::SigHandle | Op::SigWait => event.waker().is_none_or(|waker| waker < at as u64),
            Op::BarrierLeave => inside.get(&(event.addr, event.value)).is_none_or(|&missing| missing == 0),
            _ => true,
        };
        if !opened || unstarted.contains(&event.thread.0.into()) || !world.permits(event) {
            return Some(at);
        }
        match event.op {
            Op::Create if !failed => drop(unstarted.remove(&event.value)),
            Op::End => drop(alive.remove(&event.thread.0.into())),
            Op::BarrierArrive => {
                if let Some(missing) = inside.get_mut(&(event.addr, event.value)) {
                    *missing = missing.saturating_sub(1);
                }
            }
            _ => {}
        }
        world.step(event);
    }
    None
}

/// Returns the count of each semaphore before its first operation.
fn counts_before(events: &[Event]) -> HashMap<u64, u64> {
    let mut counts = HashMap::new();
    events.iter().for_each(|event| note_count(&mut counts, event));
    counts
}

fn note_count(counts: &mut HashMap<u64, u64>, event: &Event) {
    let done = succeeded(event);
    let before = match event.op {
        Op::SemPost if done => event.value.saturating_sub(1),
        Op::SemWait | Op::SemTryWait if done => event.value + 1,
        Op::SemGet => event.value,
        Op::SemPost | Op::SemWait | Op::SemTryWait | Op::SemInit => 0,
        _ => return,
    };
    counts.entry(event.addr).or_insert(before);
}

/// Returns, for each event, the next one of its thread.
fn next_of_same_thread(events: &[Event]) -> Vec<Option<usize>> {
    let mut upcoming = HashMap::new();
    let mut next: Vec<_> =
        events.iter().enumerate().rev().map(|(at, event)| upcoming.insert(event.thread, at)).collect();
    next.reverse();
    next
}

/// The state of locks, semaphores and once controls.
#[derive(Debug, Default)]
pub(crate) struct SyncState {
    holders: HashMap<u64, (ThreadIx, u32)>,
    writers: HashMap<u64, ThreadIx>,
    readers: HashMap<u64, u32>,
    counts: HashMap<u64, u64>,
    once: HashMap<u64, ThreadIx>,
}

impl SyncState {
    /// Returns the state before these events were executed.
    pub(crate) fn before(executed: &[Event]) -> Self {
        Self { counts: counts_before(executed), ..Self::default() }
    }

    /// Returns whether a thread that is blocked at the end would not be blocked yet.
    fn permits_waiter(&self, wait: &Wait, ended: &HashSet<ThreadIx>) -> bool {
        match wait.op {
            Op::Join => wait.holders.iter().all(|target| ended.contains(target)),
            Op::CondWake | Op::FutexWoken | Op::BarrierLeave | Op::SigWait | Op::SigPause => false,
            op => self.permits(&Event {
                thread: wait.thread,
                op,
                flags: Flags::NONE,
                order: Order::Relaxed,
                site: SiteIx::default(),
                size: 0,
                addr: wait.addr,
                value: 0,
            }),
        }
    }

    /// Returns whether nothing in this state blocks the event.
    pub(crate) fn permits(&self, event: &Event) -> bool {
        let is_free = |lock: u64| self.holders.get(&lock).is_none_or(|(holder, _)| *holder == event.thread);
        let failed = !succeeded(event);
        match event.op {
            Op::Lock => failed || is_free(event.addr),
            Op::CondWake => event.waited_mutex().is_none_or(is_free),
            Op::ReadLock => failed || !self.writers.contains_key(&event.addr),
            Op::WriteLock => {
                failed
                    || !self.writers.contains_key(&event.addr)
                        && self.readers.get(&event.addr).is_none_or(|&readers| readers == 0)
            }
            Op::SemWait => failed || self.counts.get(&event.addr).is_none_or(|&count| count > 0),
            Op::OncePass | Op::OnceBegin => {
                self.once.get(&event.addr).is_none_or(|&runs| runs == event.thread)
            }
            _ => true,
        }
    }

    /// Processes one more event.
    pub(crate) fn step(&mut self, event: &Event) {
        let Event { thread, addr, value, .. } = *event;
        if let Op::CondWake = event.op {
            if let Some(mutex) = event.waited_mutex() {
                self.take(mutex, thread);
            }
            return;
        }
        if !succeeded(event) {
            return;
        }
        match event.op {
            Op::Lock | Op::TryLock => self.take(addr, thread),
            Op::Unlock => self.give(addr),
            Op::CondWait => self.give(value),
            Op::ReadLock | Op::TryReadLock => *self.readers.entry(addr).or_default() += 1,
            Op::WriteLock | Op::TryWriteLock => drop(self.writers.insert(addr, thread)),
            Op::RwUnlock if value == 1 => drop(self.writers.remove(&addr)),
            Op::RwUnlock => {
                let readers = self.readers.entry(addr).or_default();
                *readers = readers.saturating_sub(1);
            }
            Op::SemInit => drop(self.counts.insert(addr, value)),
            Op::SemPost => *self.counts.entry(addr).or_default() += 1,
            Op::SemWait | Op::SemTryWait => {
                let count = self.counts.entry(addr).or_default();
                *count = count.saturating_sub(1);
            }
            Op::OnceBegin => drop(self.once.insert(addr, thread)),
            Op::OnceEnd => drop(self.once.remove(&addr)),
            _ => {}
        }
    }

    fn take(&mut self, lock: u64, thread: ThreadIx) {
        let holder = self.holders.entry(lock).or_insert((thread, 0));
        holder.1 += 1;
    }

    fn give(&mut self, lock: u64) {
        if let Some((_, depth)) = self.holders.get_mut(&lock) {
            *depth -= 1;
            if *depth == 0 {
                self.holders.remove(&lock);
            }
        }
    }
}
