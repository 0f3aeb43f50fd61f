//! The independent checker: is a witness a legal interleaving of the trace, and does it show the claimed
//! error?
//!
//! It works on the events themselves, byte by byte, and shares neither the model nor the search with the code
//! that produces witnesses.

mod state;

pub use state::CheckedState;

use crate::{
    deadlocks::{PredictedDeadlock, WaitTarget},
    hash::Map,
    model::ReadRule,
    races::PredictedRace,
    witness::Witness,
};
use std::collections::BTreeMap;
use unsnarl_model::{Event, Flags, Op, ThreadIx};

/// The reason why a witness is illegal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WitnessError {
    /// An event is not in the window, occurs twice, or violates program order.
    #[error("event {0} is out of its thread's order")]
    ThreadOrder(u64),
    /// An event occurs where it is not enabled.
    #[error("event {event} is not enabled there: {reason}")]
    NotEnabled {
        /// The event.
        event: u64,
        /// The obstacle.
        reason: &'static str,
    },
    /// A read sees another write than in the trace.
    #[error("event {0} reads from another write than in the trace")]
    ReadsOtherWrite(u64),
    /// The event that should come next does not.
    #[error("event {0} does not come next in its thread")]
    NotNext(u64),
    /// The meeting events are no error.
    #[error("the witness does not show the claimed error: {0}")]
    NotAnError(&'static str),
}

/// No event.
const NONE: u32 = u32::MAX;

/// Facts about a window that hold for every witness.
#[derive(Debug)]
pub struct Checker<'a> {
    window: &'a [Event],
    first: u64,
    reads: ReadRule,
    /// By event: the number of earlier events of its thread.
    places: Vec<u32>,
    /// By thread: the event that created it, if it precedes all events of the thread.
    creations: Vec<u32>,
    /// By event: the events that must have occurred, and why.
    needs: Map<u32, Vec<(u32, &'static str)>>,
    /// By event: the range of its bytes in `bytes`.
    ranges: Vec<(u32, u32)>,
    /// The bytes of each access, numbered, with the event that wrote them in the trace.
    bytes: Vec<(u32, u32)>,
    byte_count: usize,
    start: CheckedState,
    counts: BTreeMap<u64, u64>,
}

impl<'a> Checker<'a> {
    /// Builds a checker for witnesses over the events that follow this state, with the same meaning of reads.
    #[must_use]
    pub fn new(window: &'a [Event], start: &CheckedState, reads: ReadRule) -> Self {
        let mut checker = Self {
            window,
            first: start.events(),
            reads,
            places: Vec::with_capacity(window.len()),
            creations: Vec::new(),
            needs: Map::default(),
            ranges: Vec::with_capacity(window.len()),
            bytes: Vec::new(),
            byte_count: 0,
            start: start.clone(),
            counts: initial_counts(window),
        };
        checker.orders();
        checker.memory();
        checker
    }

    /// Determines the order that holds in every interleaving: by creation, joining, waking, barriers and once
    /// controls.
    fn orders(&mut self) {
        let threads = self.window.iter().map(|event| event.thread.index() + 1).max().unwrap_or(0);
        let mut last = vec![NONE; threads];
        let mut counts = vec![0; threads];
        let mut rounds: BTreeMap<(u64, u64), Vec<u32>> = BTreeMap::new();
        let mut once: BTreeMap<u64, u32> = BTreeMap::new();
        let mut file_operations: Vec<u32> = Vec::new();
        self.creations = vec![NONE; threads];
        for (event, number) in self.window.iter().zip(0..) {
            let thread = event.thread.index();
            self.places.push(counts[thread]);
            counts[thread] += 1;
            let mut need = |needed: u32, reason| self.needs.entry(number).or_default().push((needed, reason));
            match event.op {
                Op::Create if ok(event) => {
                    let child = usize::try_from(event.value).unwrap_or(usize::MAX);
                    if last.get(child) == Some(&NONE) && self.creations[child] == NONE {
                        self.creations[child] = number;
                    }
                }
                Op::Join if ok(event) => {
                    let end = usize::try_from(event.value).ok().and_then(|thread| last.get(thread));
                    if let Some(&end) = end.filter(|&&end| end != NONE) {
                        need(end, "the thread that it joins has not ended");
                    }
                }
                Op::BarrierArrive => rounds.entry((event.addr, event.value)).or_default().push(number),
                Op::BarrierLeave => {
                    for &arrival in rounds.get(&(event.addr, event.value)).into_iter().flatten() {
                        need(arrival, "not all have arrived at the barrier");
                    }
                }
                Op::OnceEnd => drop(once.insert(event.addr, number)),
                Op::OncePass => {
                    if let Some(&end) = once.get(&event.addr) {
                        need(end, "the once routine has not ended");
                    }
                }
                // The contents of files are unknown, so all operations keep their order with those that change a file.
                op if op.is_on_file() => {
                    let changes = |event: &Event| !matches!(event.op, Op::FileRead | Op::FileList);
                    for &earlier in &file_operations {
                        if changes(event) || changes(&self.window[earlier as usize]) {
                            need(earlier, "an operation on files comes before it");
                        }
                    }
                    if changes(event) {
                        file_operations.clear();
                    }
                    file_operations.push(number);
                }
                op if op.has_waker() => {
                    let signal = event.waker().and_then(|waker| waker.checked_sub(self.first));
                    let signal = signal.and_then(|at| u32::try_from(at).ok());
                    if let Some(signal) = signal.filter(|&signal| signal < number) {
                        need(signal, "it has not been woken");
                    }
                }
                _ => {}
            }
            last[thread] = number;
        }
    }

    /// Determines the bytes of each access, and the write seen there.
    fn memory(&mut self) {
        let mut numbers: Map<(u64, u64), u32> = Map::default();
        let mut writers: Vec<u32> = Vec::new();
        let mut blocks: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut generations = 0;
        for (event, number) in self.window.iter().zip(0..) {
            let from = self.bytes.len() as u32;
            let end = event.addr.saturating_add(event.size.max(1));
            if matches!(event.op, Op::Alloc | Op::Free) && ok(event) {
                // Allocation and release turn the bytes into new memory.
                generations += 1;
                let touched = blocks.range(..end).rev().take_while(|(_, block)| block.0 > event.addr);
                let touched: Vec<u64> = touched.map(|(&at, _)| at).collect();
                for at in touched {
                    blocks.remove(&at);
                }
                blocks.insert(event.addr, (end, generations));
            } else if event.op.is_plain_access() || event.op.is_atomic() {
                let block = blocks.range(..=event.addr).next_back().filter(|(_, block)| block.0 > event.addr);
                let generation = block.map_or(0, |(_, &(_, generation))| generation);
                for byte in event.addr..end {
                    let next = writers.len() as u32;
                    let id = *numbers.entry((byte, generation)).or_insert(next);
                    if id == next {
                        writers.push(NONE);
                    }
                    self.bytes.push((id, writers[id as usize]));
                    if writes(event) {
                        writers[id as usize] = number;
                    }
                }
            }
            self.ranges.push((from, self.bytes.len() as u32));
        }
        self.byte_count = writers.len();
    }

    /// Checks that a witness leads to the point where its events meet, whatever they are.
    ///
    /// # Errors
    /// Returns an error if it does not.
    pub fn leads_to(&self, witness: &Witness) -> Result<(), WitnessError> {
        WitnessReplay::of(self, witness).map(|_| ())
    }

    /// Checks that a witness leads to a race.
    ///
    /// # Errors
    /// Returns an error if it does not.
    pub fn race(&self, race: &PredictedRace) -> Result<(), WitnessError> {
        WitnessReplay::of(self, &race.witness)?;
        if race.accesses[..] != race.witness.meet[..] {
            return Err(WitnessError::NotAnError("the accesses are not the claimed ones"));
        }
        let [a, b] = race.accesses.map(|number| self.window[(number - self.first) as usize]);
        let ends = |event: &Event| event.addr.saturating_add(event.size.max(1));
        let overlap = a.addr < ends(&b) && b.addr < ends(&a);
        let is_access = |event: &Event| event.op.is_plain_access() || event.op.is_atomic();
        if a.thread == b.thread || !overlap || !is_access(&a) || !is_access(&b) {
            return Err(WitnessError::NotAnError("the accesses are not by two threads to the same memory"));
        }
        if !(writes(&a) || writes(&b)) || (a.op.is_atomic() && b.op.is_atomic()) {
            return Err(WitnessError::NotAnError("neither writes, or both are atomic"));
        }
        Ok(())
    }

    /// Checks that a witness leads to a deadlock.
    ///
    /// # Errors
    /// Returns an error if it does not.
    pub fn deadlock(&self, deadlock: &PredictedDeadlock) -> Result<(), WitnessError> {
        let replay = WitnessReplay::of(self, &deadlock.witness)?;
        let wrong = |reason| Err(WitnessError::NotAnError(reason));
        if deadlock.cycle.iter().map(|waits| waits.event).ne(deadlock.witness.meet.iter().copied()) {
            return wrong("the waits are not the claimed ones");
        }
        for (at, waits) in deadlock.cycle.iter().enumerate() {
            let next = &deadlock.cycle[(at + 1) % deadlock.cycle.len()];
            let number = (waits.event - self.first) as u32;
            let event = &self.window[number as usize];
            match waits.target {
                WaitTarget::Done(done) => {
                    if !self.waits_until(&replay, number, next.thread, done) {
                        return wrong("a thread does not wait for an event of the next one");
                    }
                    continue;
                }
                WaitTarget::Lost(signal) => {
                    let wake_up = self
                        .window
                        .iter()
                        .skip(number as usize)
                        .find(|later| later.thread == event.thread && later.op == Op::CondWake);
                    let by = wake_up.is_some_and(|wake_up| wake_up.waker() == Some(signal));
                    let done = replay.is_done((signal - self.first) as u32);
                    if event.op != Op::CondWait || !by || !done {
                        return wrong("the signal is not lost");
                    }
                    continue;
                }
                WaitTarget::Lock(_) | WaitTarget::End => {}
            }
            let lock = match event.op {
                Op::Join if event.value == u64::from(next.thread.0) => continue,
                Op::Lock | Op::ReadLock | Op::WriteLock | Op::SemWait => event.addr,
                Op::CondWake => match replay.state.awaited_mutex(event.thread) {
                    Some(mutex) => mutex,
                    None => return wrong("a wait ends that has not begun"),
                },
                _ => return wrong("a thread does not wait"),
            };
            let held = replay.state.holds(next.thread, lock);
            let token = event.op == Op::SemWait && replay.state.has_token(next.thread, lock);
            if event.thread != waits.thread || next.thread == waits.thread || !(held || token) {
                return wrong("a thread does not wait for the next one");
            }
        }
        Ok(())
    }
}

impl Checker<'_> {
    /// Returns whether an event of the trace waited for another thread's event that has not occurred.
    fn waits_until(&self, replay: &WitnessReplay<'_>, number: u32, other: ThreadIx, done: u64) -> bool {
        let Some(done) = done.checked_sub(self.first).and_then(|at| u32::try_from(at).ok()) else {
            return false;
        };
        let (event, awaited) = (&self.window[number as usize], &self.window[done as usize]);
        let needs = self.needs.get(&number).into_iter().flatten().any(|&(needed, _)| needed == done);
        // There may be another token: only a run can decide.
        let posts = event.op == Op::SemWait && awaited.op == Op::SemPost && awaited.addr == event.addr;
        awaited.thread == other && event.thread != other && (needs || posts) && !replay.is_done(done)
    }
}

/// A witness during its execution.
struct WitnessReplay<'c> {
    checker: &'c Checker<'c>,
    /// By thread: the number of executed events.
    done: Vec<u32>,
    /// By waking event: when it was executed. By thread: when its wait began.
    signalled: Map<u32, u64>,
    began: BTreeMap<ThreadIx, u64>,
    time: u64,
    /// By byte: the event that wrote it.
    writers: Vec<u32>,
    state: CheckedState,
    counts: BTreeMap<u64, u64>,
}

impl<'c> WitnessReplay<'c> {
    /// Executes a witness and returns the state it leads to.
    fn of(checker: &'c Checker<'c>, witness: &Witness) -> Result<Self, WitnessError> {
        let mut replay = Self {
            checker,
            done: vec![0; checker.creations.len()],
            signalled: Map::default(),
            began: BTreeMap::new(),
            time: 0,
            writers: vec![NONE; checker.byte_count],
            state: checker.start.clone(),
            counts: checker.counts.clone(),
        };
        if witness.before != checker.first || witness.reads != checker.reads {
            return Err(WitnessError::ThreadOrder(witness.before));
        }
        for number in witness.order(checker.window) {
            let at = replay.next(number).ok_or(WitnessError::ThreadOrder(number))?;
            replay.can_be(at).map_err(|reason| WitnessError::NotEnabled { event: number, reason })?;
            if !replay.access(at) {
                return Err(WitnessError::ReadsOtherWrite(number));
            }
            replay.execute(at).map_err(|reason| WitnessError::NotEnabled { event: number, reason })?;
            replay.done[checker.window[at as usize].thread.index()] += 1;
            replay.time += 1;
        }
        for &number in &witness.meet {
            let at = replay.next(number).ok_or(WitnessError::NotNext(number))?;
            replay.exists(at).map_err(|reason| WitnessError::NotEnabled { event: number, reason })?;
        }
        Ok(replay)
    }

    /// Returns the index in the window of the event with this number, if it is its thread's next.
    fn next(&self, number: u64) -> Option<u32> {
        let at = u32::try_from(number.checked_sub(self.checker.first)?).ok()?;
        let event = self.checker.window.get(at as usize)?;
        (self.checker.places[at as usize] == self.done[event.thread.index()]).then_some(at)
    }

    fn is_done(&self, at: u32) -> bool {
        let event = &self.checker.window[at as usize];
        self.checker.places[at as usize] < self.done[event.thread.index()]
    }

    fn exists(&self, at: u32) -> Result<(), &'static str> {
        let thread = self.checker.window[at as usize].thread.index();
        let creation = self.checker.creations[thread];
        if self.done[thread] == 0 && creation != NONE && !self.is_done(creation) {
            return Err("its thread was not created");
        }
        Ok(())
    }

    fn can_be(&self, at: u32) -> Result<(), &'static str> {
        self.exists(at)?;
        let event = &self.checker.window[at as usize];
        for &(needed, reason) in self.checker.needs.get(&at).into_iter().flatten() {
            if !self.is_done(needed) {
                return Err(reason);
            }
            let begun = self.began.get(&event.thread);
            if event.op == Op::CondWake
                && begun.is_some_and(|begun| self.signalled.get(&needed) < Some(begun))
            {
                return Err("it was signalled before it waited");
            }
        }
        let free = |lock: u64, shared: bool| self.state.is_free(lock, event.thread, shared);
        match event.op {
            Op::Exit => Err("the program ends by it"),
            Op::SemWait | Op::SemTryWait if ok(event) && self.counts.get(&event.addr) == Some(&0) => {
                Err("the semaphore has no token")
            }
            Op::Lock | Op::TryLock | Op::WriteLock | Op::TryWriteLock
                if ok(event) && !free(event.addr, false) =>
            {
                Err("the lock is held by another thread")
            }
            Op::ReadLock | Op::TryReadLock if ok(event) && !free(event.addr, true) => {
                Err("the lock is held by another thread")
            }
            Op::CondWake => match self.state.awaited_mutex(event.thread) {
                Some(mutex) if free(mutex, false) => Ok(()),
                _ => Err("its mutex is held by another thread"),
            },
            _ => Ok(()),
        }
    }

    /// Executes an access; returns false if a read sees another write than in the trace.
    fn access(&mut self, at: u32) -> bool {
        let event = &self.checker.window[at as usize];
        let (from, to) = self.checker.ranges[at as usize];
        let must_see = must_see(event, self.checker.reads);
        for &(byte, seen) in &self.checker.bytes[from as usize..to as usize] {
            let there = &mut self.writers[byte as usize];
            if must_see && *there != seen {
                return false;
            }
            if writes(event) {
                *there = at;
            }
        }
        true
    }

    fn execute(&mut self, at: u32) -> Result<(), &'static str> {
        let event = self.checker.window[at as usize];
        self.state.step(&event)?;
        match event.op {
            Op::CondWait if ok(&event) => drop(self.began.insert(event.thread, self.time)),
            Op::CondWake => drop(self.began.remove(&event.thread)),
            Op::Signal | Op::Broadcast => drop(self.signalled.insert(at, self.time)),
            Op::SemWait | Op::SemTryWait if ok(&event) => {
                self.counts.entry(event.addr).and_modify(|count| *count -= 1);
            }
            Op::SemPost => {
                self.counts.entry(event.addr).and_modify(|count| *count += 1);
            }
            Op::SemInit => drop(self.counts.insert(event.addr, event.value)),
            _ => {}
        }
        Ok(())
    }
}

/// Returns the initial count of each semaphore, derived from its first event.
fn initial_counts(window: &[Event]) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for event in window {
        let count = match event.op {
            Op::SemWait | Op::SemTryWait if ok(event) => event.value + 1,
            Op::SemPost => event.value.saturating_sub(1),
            Op::SemInit | Op::SemGet => event.value,
            _ => continue,
        };
        counts.entry(event.addr).or_insert(count);
    }
    counts
}

const fn ok(event: &Event) -> bool {
    !event.flags.has(Flags::FAILED)
        && !event.flags.has(Flags::TIMED_OUT)
        && !event.flags.has(Flags::CANCELLED)
}

const fn writes(event: &Event) -> bool {
    match event.op {
        Op::Write | Op::AtomicStore | Op::AtomicRmw => true,
        Op::AtomicCas => ok(event),
        _ => false,
    }
}

const fn must_see(event: &Event, reads: ReadRule) -> bool {
    match (reads, event.op) {
        (ReadRule::Same, Op::Read | Op::AtomicRmw) | (_, Op::AtomicLoad) => true,
        (_, Op::AtomicCas) => matches!(reads, ReadRule::Same) || !ok(event),
        _ => false,
    }
}
