//! Which context switches take the processor from a thread that could have gone on, told from the events.
//!
//! A run tells that itself (`Flags::PREEMPTS`). For an order of events that nobody has executed yet it follows
//! from what each thread does next: whether that was possible when somebody else went on. Of a thread that does
//! nothing more, all that is known is whether it was preempted in the order that was executed.

use std::collections::HashMap;
use unsnarl_model::{Event, Flags, Op, ThreadIx};

/// Marks each event that preempts, in the order in which they are. `executed` has them in the order in which they
/// were executed.
pub(super) fn mark(events: &mut [Event], executed: &[Event]) {
    let next = next_of_same_thread(events);
    let opened = opening_events(events);
    let left = left_for_good(executed);
    let mut world = World { counts: counts_before(events), ..World::default() };
    for at in 0..events.len() {
        let mut preempts = false;
        if at > 0 && events[at].thread != events[at - 1].thread {
            preempts = match next[at - 1] {
                Some(next) => opened[next] <= at && world.lets(&events[next]),
                None => left.get(&events[at - 1].thread).copied().unwrap_or(false),
            };
        }
        let others = Flags(events[at].flags.0 & !Flags::PREEMPTS.0);
        events[at].flags = if preempts { others | Flags::PREEMPTS } else { others };
        world.step(&events[at]);
    }
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
        Op::CondWake | Op::FutexWoken if event.value == u64::MAX => usize::MAX,
        Op::CondWake | Op::FutexWoken => usize::try_from(event.value).map_or(usize::MAX, |waker| waker + 1),
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
#[derive(Default)]
struct World {
    holders: HashMap<u64, (ThreadIx, u32)>,
    waiting: HashMap<ThreadIx, u64>,
    writers: HashMap<u64, ThreadIx>,
    readers: HashMap<u64, u32>,
    counts: HashMap<u64, u64>,
    once: HashMap<u64, ThreadIx>,
}

impl World {
    /// Whether nothing here keeps the event from happening.
    fn lets(&self, event: &Event) -> bool {
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
            Op::SemWait => self.counts.get(&event.addr).is_none_or(|&count| count > 0),
            Op::OncePass | Op::OnceBegin => {
                self.once.get(&event.addr).is_none_or(|&runs| runs == event.thread)
            }
            _ => true,
        }
    }

    fn step(&mut self, event: &Event) {
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
            Op::SemInit | Op::SemPost | Op::SemWait | Op::SemTryWait => {
                self.counts.insert(addr, value);
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
