//! Every witness is a legal interleaving: on random traces with all modelled operations, in windows and as a
//! whole.

mod common;

use common::{LOCKS, Rng, event};
use unsnarl_model::{Event, Op};
use unsnarl_predict::{CheckedState, Checker, PredictOptions, Prediction, Predictor, ReadRule};

const SEMAPHORES: u64 = 200;
const CONDITION: u64 = 300;
const BARRIER: u64 = 400;
const ATOMICS: u64 = 500;
const THREADS: usize = 4;

/// A run under construction.
struct Run {
    dice: Rng,
    events: Vec<Event>,
    held: Vec<Vec<u64>>,
    tokens: [u64; 2],
    /// By thread: the mutex of its current wait, and the event that ended it.
    waiting: Vec<Option<(u64, Option<u64>)>>,
    /// The threads that have arrived at the barrier's current round; by thread, the round that it may leave.
    arrived: Vec<usize>,
    leaving: Vec<Option<u64>>,
    round: u64,
}

impl Run {
    fn random(seed: u64, length: usize) -> Vec<Event> {
        let mut run = Self {
            dice: Rng::new(seed),
            events: Vec::new(),
            held: vec![Vec::new(); THREADS],
            tokens: [1, 0],
            waiting: vec![None; THREADS],
            arrived: Vec::new(),
            leaving: vec![None; THREADS],
            round: 0,
        };
        for _ in 0..20 * length {
            let thread = run.dice.below(THREADS as u64) as usize;
            run.step(thread);
            if run.events.len() >= length {
                break;
            }
        }
        run.events
    }

    fn push(&mut self, thread: usize, op: Op, addr: u64, value: u64) {
        // Few sites, so that some recur.
        let site = (op as usize) * 8 + addr as usize % 8;
        let size = u64::from(op.is_plain_access() || op.is_atomic());
        self.events.push(Event { size, ..event(thread as u16, op, addr, value, site) });
    }

    fn is_free(&self, lock: u64) -> bool {
        self.held.iter().flatten().all(|&held| held != lock)
    }

    fn step(&mut self, me: usize) {
        if let Some((mutex, signal)) = self.waiting[me] {
            if let Some(signal) = signal.filter(|_| self.is_free(mutex)) {
                self.waiting[me] = None;
                self.held[me].push(mutex);
                self.push(me, Op::CondWake, CONDITION, mutex);
                let wake = self.events.last_mut().expect("an event");
                *wake = wake.with_waker(Some(signal));
            }
            return;
        }
        if let Some(round) = self.leaving[me].take() {
            return self.push(me, Op::BarrierLeave, BARRIER, round);
        }
        if self.arrived.contains(&me) {
            return;
        }
        match self.dice.below(12) {
            0..=2 => {
                let addr = 1 + self.dice.below(3);
                self.push(me, Op::Write, addr, 0);
            }
            3 => {
                let addr = 1 + self.dice.below(3);
                self.push(me, Op::Read, addr, 0);
            }
            4 | 5 => {
                let lock = LOCKS + self.dice.below(2);
                if self.is_free(lock) {
                    self.held[me].push(lock);
                    self.push(me, Op::Lock, lock, 1);
                }
            }
            6 | 7 => {
                if let Some(lock) = self.held[me].pop() {
                    self.push(me, Op::Unlock, lock, 0);
                }
            }
            8 => {
                let nth = self.dice.below(2) as usize;
                let semaphore = SEMAPHORES + nth as u64;
                if self.dice.below(2) == 0 {
                    self.tokens[nth] += 1;
                    self.push(me, Op::SemPost, semaphore, self.tokens[nth]);
                } else if self.tokens[nth] > 0 {
                    self.tokens[nth] -= 1;
                    self.push(me, Op::SemWait, semaphore, self.tokens[nth]);
                }
            }
            9 => match self.held[me].pop() {
                Some(mutex) => {
                    self.waiting[me] = Some((mutex, None));
                    self.push(me, Op::CondWait, CONDITION, mutex);
                }
                None => {
                    let number = self.events.len() as u64;
                    let waiter = self.waiting.iter_mut().flatten().find(|(_, signal)| signal.is_none());
                    let wake_up = waiter.map(|(_, signal)| *signal = Some(number)).is_some();
                    self.push(me, Op::Signal, CONDITION, u64::from(wake_up));
                }
            },
            10 => {
                self.push(me, Op::BarrierArrive, BARRIER, self.round);
                self.arrived.push(me);
                if self.arrived.len() == 2 {
                    for thread in self.arrived.drain(..) {
                        self.leaving[thread] = Some(self.round);
                    }
                    self.round += 1;
                }
            }
            _ => {
                let op = [Op::AtomicLoad, Op::AtomicStore, Op::AtomicRmw][self.dice.below(3) as usize];
                let addr = ATOMICS + self.dice.below(2);
                self.push(me, op, addr, 0);
            }
        }
    }
}

fn predicted(events: &[Event], window: Option<usize>) -> Prediction {
    let options = PredictOptions { window, free_reads: true, ..PredictOptions::default() };
    let mut predictor = Predictor::new(options);
    predictor.push(events, &mut |_| {}).expect("the trace is in order");
    predictor.finish(&mut |_| {}).expect("the trace is in order")
}

/// Checks all witnesses and returns their numbers.
fn check(events: &[Event], window: Option<usize>) -> (usize, usize, usize) {
    let prediction = predicted(events, window);
    let end = |first: u64| window.map_or(events.len(), |size| events.len().min(first as usize + size));
    let with = |before: u64, reads: ReadRule, check: &dyn Fn(&Checker<'_>)| {
        let mut state = CheckedState::default();
        for event in &events[..before as usize] {
            state.step(event).expect("the trace is in order");
        }
        check(&Checker::new(&events[before as usize..end(before)], &state, reads));
    };
    for race in &prediction.races {
        with(race.witness.before, race.witness.reads, &|checker| assert_eq!(checker.race(race), Ok(())));
    }
    for deadlock in &prediction.deadlocks {
        let witness = &deadlock.witness;
        with(witness.before, witness.reads, &|checker| assert_eq!(checker.deadlock(deadlock), Ok(())));
    }
    let free = prediction.races.iter().filter(|race| race.witness.reads == ReadRule::Free).count();
    (prediction.races.len(), prediction.deadlocks.len(), free)
}

fn all_legal(seeds: std::ops::Range<u64>, length: usize, window: Option<usize>) {
    let mut sums = (0, 0, 0);
    for seed in seeds {
        let (races, deadlocks, free) = check(&Run::random(seed, length), window);
        sums = (sums.0 + races, sums.1 + deadlocks, sums.2 + free);
    }
    assert!(sums.0 > 0 && sums.1 > 0 && sums.2 > 0, "{sums:?}: the traces are too dull");
}

#[test]
fn witnesses_over_whole_traces_are_legal() {
    all_legal(0..400, 60, None);
}

#[test]
fn witnesses_over_windows_are_legal() {
    all_legal(1000..1400, 120, Some(40));
}
