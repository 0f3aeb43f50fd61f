//! Independent exhaustive enumeration of all interleavings in which each read sees the same write, used as an
//! oracle for the predictor.

use std::collections::{BTreeSet, HashSet};
use unsnarl_model::{Event, Op};

/// The maximum number of threads and variables, so that a state fits into a number.
const MAX: usize = 4;

/// The progress of each thread, and the last writer of each variable: an event's number plus one, or 0 for
/// none.
#[derive(Clone, Copy, Default)]
struct State {
    at: [u8; MAX],
    writers: [u8; MAX],
}

impl State {
    fn key(self) -> u64 {
        u64::from_le_bytes([self.at, self.writers].concat().try_into().expect("eight bytes"))
    }
}

/// The locks held by a thread, exclusive and shared, as bits.
type LockBits = (u32, u32);

pub(crate) struct BruteForce<'a> {
    events: &'a [Event],
    /// By thread: its events.
    lines: Vec<Vec<usize>>,
    /// By thread and number of executed events.
    held: Vec<Vec<LockBits>>,
    /// By thread: its creator and the creator's number of events, if it is created.
    creation: Vec<Option<(usize, usize)>>,
    /// By event: its variable or lock.
    place: Vec<usize>,
    /// By read: the writer that it sees.
    sees: Vec<u8>,
    /// True if reads may see anything.
    free: bool,
    met: HashSet<u64>,
    pub(crate) races: BTreeSet<[usize; 2]>,
    pub(crate) deadlocks: BTreeSet<Vec<usize>>,
    /// True if a state is reachable in which no thread is enabled although not all are done.
    pub(crate) stuck: bool,
}

impl<'a> BruteForce<'a> {
    /// Enumerates with reads that see the same writes.
    pub(crate) fn of(events: &'a [Event]) -> Self {
        Self::with(events, false)
    }

    /// Enumerates with reads that see anything.
    pub(crate) fn free(events: &'a [Event]) -> Self {
        Self::with(events, true)
    }

    fn with(events: &'a [Event], free: bool) -> Self {
        let threads = events.iter().map(|e| e.thread.index() + 1).max().unwrap_or(0);
        let mut all = Self {
            events,
            lines: vec![Vec::new(); threads],
            held: vec![vec![(0, 0)]; threads],
            creation: vec![None; threads],
            place: Vec::new(),
            sees: Vec::new(),
            free,
            met: HashSet::new(),
            races: BTreeSet::new(),
            deadlocks: BTreeSet::new(),
            stuck: false,
        };
        let (mut cells, mut locks) = (Vec::new(), Vec::new());
        let mut writers = [0; MAX];
        for (number, event) in events.iter().enumerate() {
            let thread = event.thread.index();
            let known = if event.op.is_plain_access() { &mut cells } else { &mut locks };
            let place = known.iter().position(|&addr| addr == event.addr).unwrap_or_else(|| {
                known.push(event.addr);
                known.len() - 1
            });
            all.place.push(place);
            all.lines[thread].push(number);
            let (own, shared) = *all.held[thread].last().expect("the start is there");
            let bit = 1 << place;
            all.held[thread].push(match event.op {
                Op::Lock | Op::WriteLock => (own | bit, shared),
                Op::ReadLock => (own, shared | bit),
                Op::Unlock | Op::RwUnlock => (own & !bit, shared & !bit),
                _ => (own, shared),
            });
            all.sees.push(if event.op == Op::Read { writers[place] } else { 0 });
            match event.op {
                Op::Write => writers[place] = number as u8 + 1,
                Op::Create => {
                    let child = event.value as usize;
                    // A thread that runs before its creation existed all along.
                    if child < threads && all.lines[child].is_empty() {
                        all.creation[child] = Some((thread, all.lines[thread].len()));
                    }
                }
                _ => {}
            }
        }
        all.go(State::default());
        all
    }

    /// Returns a thread's next event, if the thread exists.
    fn next(&self, state: State, thread: usize) -> Option<usize> {
        let is_there = self.creation[thread].is_none_or(|(by, events)| usize::from(state.at[by]) >= events);
        self.lines[thread].get(usize::from(state.at[thread])).copied().filter(|_| is_there)
    }

    /// Returns the threads that block a thread's next event.
    fn blockers(&self, state: State, thread: usize, number: usize) -> impl Iterator<Item = usize> {
        let event = &self.events[number];
        let bit = 1_u32 << self.place[number];
        let blocks = move |other: usize| {
            let (own, shared) = self.held[other][usize::from(state.at[other])];
            match event.op {
                Op::Lock | Op::WriteLock => (own | shared) & bit != 0,
                Op::ReadLock => own & bit != 0,
                Op::Join => {
                    let left = &self.lines[other][usize::from(state.at[other])..];
                    event.value as usize == other && left.iter().any(|&other| other < number)
                }
                _ => false,
            }
        };
        (0..self.lines.len()).filter(move |&other| other != thread && blocks(other))
    }

    fn go(&mut self, state: State) {
        if !self.met.insert(state.key()) {
            return;
        }
        let mut next = [None; MAX];
        let mut waiting = 0;
        for (thread, next) in next.iter_mut().enumerate().take(self.lines.len()) {
            *next = self.next(state, thread);
            waiting += usize::from(next.is_some_and(|x| self.blockers(state, thread, x).next().is_some()));
        }
        for (thread, x) in next.iter().enumerate().filter_map(|(thread, x)| Some((thread, (*x)?))) {
            for y in next[thread + 1..].iter().flatten().copied() {
                let (a, b) = (self.events[x].op, self.events[y].op);
                let accesses = a.is_plain_access() && b.is_plain_access();
                if accesses && self.place[x] == self.place[y] && (a == Op::Write || b == Op::Write) {
                    self.races.insert([x.min(y), x.max(y)]);
                }
            }
        }
        if waiting > 1 {
            for thread in 0..self.lines.len() {
                self.find_cycles(state, &next, &mut vec![thread]);
            }
        }
        self.stuck |= waiting > 0 && waiting == next.iter().flatten().count();
        for (thread, number) in next.iter().enumerate().filter_map(|(thread, x)| Some((thread, (*x)?))) {
            let (op, place) = (self.events[number].op, self.place[number]);
            let sees_another = !self.free && op == Op::Read && self.sees[number] != state.writers[place];
            if sees_another || self.blockers(state, thread, number).next().is_some() {
                continue;
            }
            let mut state = state;
            state.at[thread] += 1;
            if op == Op::Write {
                state.writers[place] = number as u8 + 1;
            }
            self.go(state);
        }
    }

    /// Finds cycles of threads that wait for each other.
    fn find_cycles(&mut self, state: State, next: &[Option<usize>; MAX], path: &mut Vec<usize>) {
        let last = path[path.len() - 1];
        let Some(number) = next[last] else { return };
        let blockers: Vec<usize> = self.blockers(state, last, number).collect();
        for on in blockers {
            if on == path[0] {
                let mut events: Vec<usize> = path.iter().filter_map(|&thread| next[thread]).collect();
                events.sort_unstable();
                self.deadlocks.insert(events);
            } else if !path.contains(&on) {
                path.push(on);
                self.find_cycles(state, next, path);
                path.pop();
            }
        }
    }
}
