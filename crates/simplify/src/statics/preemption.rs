//! Which context switches take the processor from a thread that could have gone on, told from the events.
//!
//! A run tells that itself (`Flags::PREEMPTS`). For an order of events that nobody has executed yet it follows
//! from what each thread does next: whether that was possible when somebody else went on. Of a thread that does
//! nothing more, what it waits for in the end tells; if it does not wait, all that is known is whether it was
//! preempted in the order that was executed.

use std::collections::{HashMap, HashSet};
use unsnarl_model::{Event, Flags, Op, Order, SiteIx, ThreadIx, Wait};

/// Marks each event that preempts, in the order in which they are. `executed` has them in the order in which they
/// were executed, and `waits` who waited in the end.
pub(super) fn mark(events: &mut [Event], executed: &[Event], waits: &[Wait]) {
    let next = next_of_same_thread(events);
    let opened = opening_events(events);
    let left = left_for_good(executed);
    let mut world = World::before(executed);
    let mut ended = HashSet::new();
    for at in 0..events.len() {
        let mut preempts = false;
        if at > 0 && events[at].thread != events[at - 1].thread {
            let thread = events[at - 1].thread;
            preempts = match (next[at - 1], waits.iter().find(|wait| wait.thread == thread)) {
                (Some(next), _) => opened[next] <= at && world.lets(&events[next]),
                (None, Some(wait)) => world.lets_waiter(wait, &ended),
                (None, None) => left.get(&thread).copied().unwrap_or(false),
            };
        }
        let others = Flags(events[at].flags.0 & !Flags::PREEMPTS.0);
        events[at].flags = if preempts { others | Flags::PREEMPTS } else { others };
        if events[at].op == Op::End {
            ended.insert(events[at].thread);
        }
        world.step(&events[at]);
    }
}

/// The first of these events, in the order in which they are, that cannot happen where it is: its thread would have
/// to wait, or is not there yet. `executed` has them, and perhaps more, in the order in which they were executed.
pub(crate) fn first_impossible(events: &[Event], executed: &[Event]) -> Option<usize> {
    let mut world = World::before(executed);
    let created =
        |event: &Event| (event.op == Op::Create && !event.flags.has(Flags::FAILED)).then_some(event.value);
    let mut unborn: HashSet<u64> = executed.iter().filter_map(created).collect();
    let mut inside: HashMap<(u64, u64), usize> = HashMap::new();
    for event in executed.iter().filter(|event| event.op == Op::BarrierArrive) {
        *inside.entry((event.addr, event.value)).or_default() += 1;
    }
    let mut alive: HashSet<u64> = executed.iter().map(|event| event.thread.0.into()).collect();
    for (at, event) in events.iter().enumerate() {
        let failed = event.flags.has(Flags::FAILED) || event.flags.has(Flags::TIMED_OUT);
        let opened = match event.op {
            Op::Join if !failed => !alive.contains(&event.value),
            Op::CondWake | Op::FutexWoken if !failed => event.value < at as u64,
            Op::SigHandle | Op::SigWait if event.value != u64::MAX => event.value < at as u64,
            Op::BarrierLeave => inside.get(&(event.addr, event.value)).is_none_or(|&missing| missing == 0),
            _ => true,
        };
        if !opened || unborn.contains(&event.thread.0.into()) || !world.lets(event) {
            return Some(at);
        }
        match event.op {
            Op::Create if !failed => drop(unborn.remove(&event.value)),
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

/// For each thread whether it was preempted after the last thing it did.
fn left_for_good(executed: &[Event]) -> HashMap<ThreadIx, bool> {
    let after = executed.windows(2).map(|pair| (pair[0].thread, pair[1].flags.has(Flags::PREEMPTS)));
    after.collect()
}

/// What each semaphore has before the first thing that is done to it.
fn counts_before(events: &[Event]) -> HashMap<u64, u64> {
    let mut counts = HashMap::new();
    for event in events {
        let done = !event.flags.has(Flags::FAILED) && !event.flags.has(Flags::TIMED_OUT);
        let before = match event.op {
            Op::SemPost if done => event.value.saturating_sub(1),
            Op::SemWait | Op::SemTryWait if done => event.value + 1,
            Op::SemGet => event.value,
            Op::SemPost | Op::SemWait | Op::SemTryWait | Op::SemInit => 0,
            _ => continue,
        };
        counts.entry(event.addr).or_insert(before);
    }
    counts
}

/// For each event the next one of its thread.
fn next_of_same_thread(events: &[Event]) -> Vec<Option<usize>> {
    let mut upcoming = HashMap::new();
    let mut next: Vec<_> =
        events.iter().enumerate().rev().map(|(at, event)| upcoming.insert(event.thread, at)).collect();
    next.reverse();
    next
}

/// For each event from when on it was possible, as far as that is the doing of one other event: a thread's end,
/// a wake-up, the last arrival at a barrier. Never, for what went on because time passed.
fn opening_events(events: &[Event]) -> Vec<usize> {
    let mut ends: HashMap<u64, usize> = HashMap::new();
    let mut arrivals: HashMap<(u64, u64), usize> = HashMap::new();
    let open = |event: &Event, ends: &HashMap<u64, usize>, arrivals: &HashMap<_, usize>| match event.op {
        _ if event.flags.has(Flags::TIMED_OUT) || event.op.gives_way() => usize::MAX,
        Op::Join if !event.flags.has(Flags::FAILED) => ends.get(&event.value).map_or(0, |end| end + 1),
        op if op.names_its_cause() && event.value == u64::MAX => usize::MAX,
        op if op.names_its_cause() => usize::try_from(event.value).map_or(usize::MAX, |waker| waker + 1),
        Op::BarrierLeave => arrivals.get(&(event.addr, event.value)).map_or(0, |last| last + 1),
        _ => 0,
    };
    let mut opened = Vec::with_capacity(events.len());
    for (at, event) in events.iter().enumerate() {
        opened.push(open(event, &ends, &arrivals));
        // Traces of other tools have no ends: a thread's last event is as good.
        ends.insert(event.thread.0.into(), at);
        if event.op == Op::BarrierArrive {
            arrivals.insert((event.addr, event.value), at);
        }
    }
    opened
}

/// Locks, semaphores and once controls.
#[derive(Debug, Default)]
pub(crate) struct World {
    holders: HashMap<u64, (ThreadIx, u32)>,
    waiting: HashMap<ThreadIx, u64>,
    writers: HashMap<u64, ThreadIx>,
    readers: HashMap<u64, u32>,
    counts: HashMap<u64, u64>,
    once: HashMap<u64, ThreadIx>,
}

impl World {
    /// The world before these events were executed.
    pub(crate) fn before(executed: &[Event]) -> Self {
        Self { counts: counts_before(executed), ..Self::default() }
    }

    /// Whether a thread that waits in the end would not have had to wait yet.
    fn lets_waiter(&self, wait: &Wait, ended: &HashSet<ThreadIx>) -> bool {
        match wait.op {
            Op::Join => wait.holders.iter().all(|target| ended.contains(target)),
            Op::CondWake | Op::FutexWoken | Op::BarrierLeave | Op::SigWait | Op::SigPause => false,
            op => self.lets(&Event {
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

    /// Whether nothing here keeps the event from happening.
    pub(crate) fn lets(&self, event: &Event) -> bool {
        let is_free = |lock: u64| self.holders.get(&lock).is_none_or(|(holder, _)| *holder == event.thread);
        let failed = event.flags.has(Flags::FAILED);
        match event.op {
            Op::Lock => failed || is_free(event.addr),
            Op::CondWake => self.waiting.get(&event.thread).is_none_or(|&mutex| is_free(mutex)),
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

    /// One more event.
    pub(crate) fn step(&mut self, event: &Event) {
        let Event { thread, addr, value, .. } = *event;
        if let Op::CondWake = event.op {
            if let Some(mutex) = self.waiting.remove(&thread) {
                self.take(mutex, thread);
            }
            return;
        }
        if event.flags.has(Flags::FAILED) || event.flags.has(Flags::TIMED_OUT) {
            return;
        }
        match event.op {
            Op::Lock | Op::TryLock => self.take(addr, thread),
            Op::Unlock => self.give(addr),
            Op::CondWait => {
                self.give(value);
                self.waiting.insert(thread, value);
            }
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
