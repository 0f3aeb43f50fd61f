//! Against all interleavings: what the predictor finds is what there is.

mod common;

use common::{LOCKS, event, random};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use unsnarl_model::{Event, Op};
use unsnarl_predict::{Options, Predictor};

/// Where each thread is, and who wrote what is in memory.
type State = (Vec<usize>, Vec<(u64, usize)>);

/// Every way to run the threads of a trace so that each read sees what it saw. Slow, simple, and of its own mind.
struct Everything<'a> {
    events: &'a [Event],
    lines: Vec<Vec<usize>>,
    /// By read: the write that it sees.
    sees: BTreeMap<usize, Option<usize>>,
    met: HashSet<State>,
    races: BTreeSet<[usize; 2]>,
    deadlocks: BTreeSet<Vec<usize>>,
}

impl<'a> Everything<'a> {
    fn of(events: &'a [Event]) -> Self {
        let threads = events.iter().map(|e| e.thread.index() + 1).max().unwrap_or(0);
        let mut lines = vec![Vec::new(); threads];
        let mut sees = BTreeMap::new();
        let mut writers: BTreeMap<u64, usize> = BTreeMap::new();
        for (number, event) in events.iter().enumerate() {
            lines[event.thread.index()].push(number);
            match event.op {
                Op::Read => drop(sees.insert(number, writers.get(&event.addr).copied())),
                Op::Write => drop(writers.insert(event.addr, number)),
                _ => {}
            }
        }
        let mut all = Self {
            events,
            lines,
            sees,
            met: HashSet::new(),
            races: BTreeSet::new(),
            deadlocks: BTreeSet::new(),
        };
        let start = vec![0; threads];
        all.go(start, BTreeMap::new());
        all
    }

    fn next(&self, at: &[usize], thread: usize) -> Option<usize> {
        self.lines[thread].get(at[thread]).copied()
    }

    /// Who holds which lock how.
    fn held(&self, at: &[usize], thread: usize) -> Vec<(u64, bool)> {
        let mut held = Vec::new();
        for &number in &self.lines[thread][..at[thread]] {
            let event = &self.events[number];
            match event.op {
                Op::Lock | Op::WriteLock => held.push((event.addr, false)),
                Op::ReadLock => held.push((event.addr, true)),
                Op::Unlock | Op::RwUnlock => held.retain(|&(lock, _)| lock != event.addr),
                _ => {}
            }
        }
        held
    }

    /// Whether the thread's next event is there to be done: its thread exists.
    fn exists(&self, at: &[usize], thread: usize) -> bool {
        let first = self.lines[thread].first();
        let creation = |e: &Event| e.op == Op::Create && e.value == thread as u64;
        match self.events.iter().position(creation) {
            Some(number) if first.is_some_and(|&first| number < first) => {
                let by = self.events[number].thread.index();
                self.lines[by][..at[by]].contains(&number)
            }
            _ => true,
        }
    }

    fn blockers(&self, at: &[usize], thread: usize, number: usize) -> Vec<usize> {
        let event = &self.events[number];
        let shared = event.op == Op::ReadLock;
        match event.op {
            Op::Lock | Op::ReadLock | Op::WriteLock => (0..self.lines.len())
                .filter(|&other| other != thread)
                .filter(|&other| {
                    self.held(at, other).iter().any(|&(lock, s)| lock == event.addr && !(s && shared))
                })
                .collect(),
            Op::Join => {
                let target = event.value as usize;
                let left = self.lines[target][at[target]..].iter().any(|&other| other < number);
                if left { vec![target] } else { vec![] }
            }
            _ => vec![],
        }
    }

    fn go(&mut self, at: Vec<usize>, memory: BTreeMap<u64, usize>) {
        let key = (at.clone(), memory.iter().map(|(&a, &w)| (a, w)).collect());
        if !self.met.insert(key) {
            return;
        }
        let threads = self.lines.len();
        let next: Vec<(usize, usize)> = (0..threads)
            .filter(|&thread| self.exists(&at, thread))
            .filter_map(|thread| Some((thread, self.next(&at, thread)?)))
            .collect();
        for &(t, x) in &next {
            for &(_, y) in next.iter().filter(|&&(u, _)| u > t) {
                let (a, b) = (&self.events[x], &self.events[y]);
                let access = |e: &Event| e.op.is_plain_access();
                if access(a) && access(b) && a.addr == b.addr && (a.op == Op::Write || b.op == Op::Write) {
                    self.races.insert([x.min(y), x.max(y)]);
                }
            }
        }
        self.circles(&at, &next);
        for (thread, number) in next {
            let event = self.events[number];
            if !self.blockers(&at, thread, number).is_empty() {
                continue;
            }
            let mut memory = memory.clone();
            match event.op {
                Op::Read if self.sees[&number] != memory.get(&event.addr).copied() => continue,
                Op::Write => drop(memory.insert(event.addr, number)),
                _ => {}
            }
            let mut at = at.clone();
            at[thread] += 1;
            self.go(at, memory);
        }
    }

    fn circles(&mut self, at: &[usize], next: &[(usize, usize)]) {
        let waits: BTreeMap<usize, (usize, Vec<usize>)> = next
            .iter()
            .map(|&(thread, number)| (thread, (number, self.blockers(at, thread, number))))
            .collect();
        fn walk(
            waits: &BTreeMap<usize, (usize, Vec<usize>)>,
            path: &mut Vec<usize>,
            found: &mut BTreeSet<Vec<usize>>,
        ) {
            let last = path[path.len() - 1];
            for &on in waits.get(&last).map_or(&[][..], |(_, on)| on) {
                if on == path[0] {
                    let mut events: Vec<usize> = path.iter().map(|thread| waits[thread].0).collect();
                    events.sort_unstable();
                    found.insert(events);
                } else if waits.contains_key(&on) && !path.contains(&on) {
                    path.push(on);
                    walk(waits, path, found);
                    path.pop();
                }
            }
        }
        for &thread in waits.keys() {
            walk(&waits, &mut vec![thread], &mut self.deadlocks);
        }
    }
}

fn predicted(events: &[Event]) -> (BTreeSet<[usize; 2]>, BTreeSet<Vec<usize>>) {
    let mut predictor = Predictor::new(Options { window: None, ..Options::default() });
    predictor.push(events, &mut |_| {}).expect("the trace is in order");
    let prediction = predictor.finish(&mut |_| {}).expect("the trace is in order");
    assert!(prediction.undecided.is_empty());
    let races = prediction.races.iter().map(|race| race.accesses.map(|number| number as usize)).collect();
    let deadlocks = prediction.deadlocks.iter().map(|deadlock| {
        let mut events: Vec<usize> = deadlock.circle.iter().map(|waits| waits.event as usize).collect();
        events.sort_unstable();
        events
    });
    (races, deadlocks.collect())
}

fn agree(seed: u64, threads: u16, length: usize, memory: u64, locks: u64) -> (usize, usize) {
    same(&random(seed, threads, length, memory, locks), &format!("seed {seed}"))
}

/// Predicts from a trace as brute force does; how many races and deadlocks there are.
fn same(events: &[Event], which: &str) -> (usize, usize) {
    let all = Everything::of(events);
    let (races, deadlocks) = predicted(events);
    let told = || {
        events
            .iter()
            .map(|e| format!("\n{} {} {} {}", e.thread.0, e.op.word(), e.addr, e.value))
            .collect::<String>()
    };
    assert_eq!(races, all.races, "races of {which}:{}", told());
    assert_eq!(deadlocks, all.deadlocks, "deadlocks of {which}:{}", told());
    (races.len(), deadlocks.len())
}

fn agree_on(seeds: std::ops::Range<u64>, threads: u16, length: usize, memory: u64, locks: u64) {
    let (mut races, mut deadlocks) = (0, 0);
    for seed in seeds {
        let (r, d) = agree(seed, threads, length, memory, locks);
        races += r;
        deadlocks += d;
    }
    assert!(races > 0 && deadlocks > 0, "{races} races, {deadlocks} deadlocks: the traces are too dull");
}

#[test]
fn three_threads_and_ten_events_are_predicted_as_by_brute_force() {
    agree_on(0..6000, 3, 10, 2, 2);
}

#[test]
fn more_locks_and_more_memory_are_predicted_as_by_brute_force() {
    agree_on(10_000..13_000, 3, 10, 3, 3);
}

#[test]
fn longer_traces_of_three_threads_are_predicted_as_by_brute_force() {
    agree_on(20_000..20_600, 3, 16, 2, 2);
}

#[test]
fn traces_of_four_threads_are_predicted_as_by_brute_force() {
    agree_on(30_000..30_400, 4, 14, 2, 3);
}

/// All traces of three threads up to a length, made of some operations.
struct Every<'a> {
    ops: &'a [(Op, u64)],
    length: usize,
    events: Vec<Event>,
    /// By lock: who holds it.
    holders: BTreeMap<u64, u16>,
    /// How many traces there were, with how many races and deadlocks.
    sums: (usize, usize, usize),
}

impl Every<'_> {
    /// Every continuation of the events so far. Threads are called by the order in which they come first: other names
    /// for them make no other trace.
    fn go(&mut self, known: u16) {
        if !self.events.is_empty() {
            let (races, deadlocks) = same(&self.events, "this trace");
            self.sums = (self.sums.0 + 1, self.sums.1 + races, self.sums.2 + deadlocks);
        }
        if self.events.len() == self.length {
            return;
        }
        for thread in 0..3.min(known + 1) {
            for &(op, addr) in self.ops {
                let holder = self.holders.get(&addr).copied();
                match op {
                    Op::Lock if holder.is_some() => continue,
                    Op::Lock => drop(self.holders.insert(addr, thread)),
                    Op::Unlock if holder != Some(thread) => continue,
                    Op::Unlock => drop(self.holders.remove(&addr)),
                    _ => {}
                }
                self.events.push(event(thread, op, addr, u64::from(op == Op::Lock), self.events.len()));
                self.go(known.max(thread + 1));
                self.events.pop();
                match holder {
                    Some(holder) => drop(self.holders.insert(addr, holder)),
                    None => drop(self.holders.remove(&addr)),
                }
            }
        }
    }
}

fn every(ops: &[(Op, u64)], length: usize) -> (usize, usize, usize) {
    let mut every = Every { ops, length, events: Vec::new(), holders: BTreeMap::new(), sums: (0, 0, 0) };
    every.go(0);
    every.sums
}

/// How long: brute force that is not optimised takes its time.
const fn up_to(short: usize, long: usize) -> usize {
    if cfg!(debug_assertions) { short } else { long }
}

const A: u64 = LOCKS;
const B: u64 = LOCKS + 1;

#[test]
fn every_trace_with_reads_writes_and_a_lock_is_predicted_as_by_brute_force() {
    let ops = [(Op::Read, 1), (Op::Write, 1), (Op::Lock, A), (Op::Unlock, A)];
    let (traces, races, _) = every(&ops, up_to(5, 6));
    assert!(traces > 7_000 && races > 10_000, "{traces} traces, {races} races");
}

#[test]
fn every_trace_with_two_locks_is_predicted_as_by_brute_force() {
    let ops = [(Op::Lock, A), (Op::Lock, B), (Op::Unlock, A), (Op::Unlock, B)];
    let (traces, _, deadlocks) = every(&ops, up_to(7, 10));
    assert!(traces > 2_000 && deadlocks > 0, "{traces} traces, {deadlocks} deadlocks");
}

#[test]
fn every_trace_with_writes_and_a_lock_is_predicted_as_by_brute_force() {
    let ops = [(Op::Write, 1), (Op::Lock, A), (Op::Unlock, A)];
    let (traces, races, _) = every(&ops, up_to(6, 8));
    assert!(traces > 3_000 && races > 3_000, "{traces} traces, {races} races");
}
