//! Small traces for tests: handwritten or random.

#![allow(dead_code)]

mod brute_force;

pub(crate) use brute_force::BruteForce;
use std::collections::BTreeSet;
use unsnarl_model::{Event, Flags, Op, Order, SiteIx, ThreadIx, Trace};
use unsnarl_predict::{PredictOptions, Predictor};

/// Parses STD text.
pub(crate) fn std(text: &str) -> Trace {
    let text: String = text.lines().map(|line| format!("{}\n", line.trim())).collect();
    unsnarl_trace::std_format::import(text.as_bytes()).expect("valid STD text").trace
}

/// Deterministic pseudo-random numbers.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

pub(crate) fn event(thread: u16, op: Op, addr: u64, value: u64, number: usize) -> Event {
    Event {
        thread: ThreadIx(thread),
        op,
        flags: Flags::NONE,
        order: Order::Relaxed,
        site: SiteIx(number as u32),
        context: 0,
        size: u64::from(op.is_plain_access()),
        addr,
        value,
    }
}

pub(crate) const LOCKS: u64 = 100;

/// Returns a random legal run of some threads with locks, read-write locks, memory, creation and joining.
/// Every event has a site of its own.
pub(crate) fn random(seed: u64, threads: u16, length: usize, memory: u64, locks: u64) -> Vec<Event> {
    let mut dice = Rng::new(seed);
    let mut events: Vec<Event> = Vec::new();
    let mut held: Vec<Vec<(u64, bool)>> = vec![Vec::new(); threads.into()];
    let mut created = vec![dice.below(2) == 0; threads.into()];
    let mut joined = vec![false; threads.into()];
    created[0] = true;
    while events.len() < length {
        let thread = dice.below(threads.into()) as u16;
        let me = usize::from(thread);
        if !created[me] || joined[me] {
            // Another thread creates the one that does not exist yet.
            let other = dice.below(threads.into()) as usize;
            if !created[me] && created[other] && !joined[other] && dice.below(2) == 0 {
                created[me] = true;
                let number = events.len();
                events.push(event(other as u16, Op::Create, 0, thread.into(), number));
            }
            continue;
        }
        let number = events.len();
        let taken = |lock: u64, shared: bool| {
            held.iter().enumerate().any(|(other, locks)| {
                locks.iter().any(|&(l, s)| l == lock && (other == me || !(s && shared)))
            })
        };
        let (op, addr, value) = match dice.below(10) {
            0..=2 => (Op::Write, 1 + dice.below(memory), 0),
            3 | 4 => (Op::Read, 1 + dice.below(memory), 0),
            5 | 6 => {
                let lock = LOCKS + dice.below(locks);
                if taken(lock, false) {
                    continue;
                }
                held[me].push((lock, false));
                (Op::Lock, lock, 1)
            }
            7 if dice.below(3) == 0 => {
                let lock = LOCKS + 50 + dice.below(locks);
                let shared = dice.below(2) == 0;
                if taken(lock, shared) {
                    continue;
                }
                held[me].push((lock, shared));
                (if shared { Op::ReadLock } else { Op::WriteLock }, lock, 0)
            }
            7 | 8 => {
                if held[me].is_empty() {
                    continue;
                }
                let at = dice.below(held[me].len() as u64) as usize;
                let (lock, shared) = held[me].remove(at);
                if lock < LOCKS + 50 {
                    (Op::Unlock, lock, 0)
                } else {
                    (Op::RwUnlock, lock, u64::from(!shared))
                }
            }
            _ => {
                let child = dice.below(threads.into()) as usize;
                let ran = events.iter().any(|e| usize::from(e.thread.0) == child);
                if child == me || joined[child] || !ran || !held[child].is_empty() || dice.below(4) != 0 {
                    continue;
                }
                joined[child] = true;
                (Op::Join, 0, child as u64)
            }
        };
        events.push(event(thread, op, addr, value, number));
    }
    events
}

/// Returns the predictions from a whole trace: pairs of racing events, and sets of events that wait for each
/// other.
pub(crate) fn predicted(events: &[Event]) -> (BTreeSet<[usize; 2]>, BTreeSet<Vec<usize>>) {
    let mut predictor = Predictor::new(PredictOptions { window: None, ..PredictOptions::default() });
    predictor.push(events, &mut |_| {}).expect("the trace is in order");
    let prediction = predictor.finish(&mut |_| {}).expect("the trace is in order");
    assert!(prediction.undecided.is_empty());
    let races = prediction.races.iter().map(|race| race.accesses.map(|number| number as usize)).collect();
    let deadlocks = prediction.deadlocks.iter().map(|deadlock| {
        let mut events: Vec<usize> = deadlock.cycle.iter().map(|waits| waits.event as usize).collect();
        events.sort_unstable();
        events
    });
    (races, deadlocks.collect())
}

/// Asserts that the predictions for a trace match brute force; returns the number of races and deadlocks.
pub(crate) fn agree(events: &[Event], which: &str) -> (usize, usize) {
    let all = BruteForce::of(events);
    let (races, deadlocks) = predicted(events);
    let trace_text = || {
        events
            .iter()
            .map(|e| format!("\n{} {} {} {}", e.thread.0, e.op.name(), e.addr, e.value))
            .collect::<String>()
    };
    assert_eq!(races, all.races, "races of {which}:{}", trace_text());
    assert_eq!(deadlocks, all.deadlocks, "deadlocks of {which}:{}", trace_text());
    (races.len(), deadlocks.len())
}
