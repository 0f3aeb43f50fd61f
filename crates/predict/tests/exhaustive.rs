//! Comparison with all interleavings, on every trace up to a given length.
//!
//! The alternatives to a trace depend on the operations of each thread and on the write that each read sees,
//! but not on the order of the trace. So one trace represents all that agree in these, and names of threads,
//! locks and variables make no difference either: that leaves one in some thousand. `UNSNARL_EVENTS=10 cargo
//! test --release -p unsnarl-predict --test exhaustive -- --nocapture` tests longer traces.

mod common;

use common::{LOCKS, agree, event};
use std::collections::HashSet;
use unsnarl_model::{Event, Op};

/// An operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Read(u8),
    Write(u8),
    /// Acquires a lock, or releases it if the thread holds it.
    Turns(u8),
    /// Creates the thread with this number.
    Creates(u8),
    Joins(u8),
}

use Operation::{Creates, Joins, Read, Turns, Write};

const THREADS: usize = 3;

/// The operations of each thread.
type Program = [Vec<Operation>; THREADS];

/// Enumerates all programs of a length, one of those that differ only in names.
struct Programs<'a> {
    words: &'a [Operation],
    sizes: [usize; THREADS],
    program: Program,
    visit: &'a mut dyn FnMut(&Program),
}

impl Programs<'_> {
    fn all(words: &[Operation], length: usize, visit: &mut dyn FnMut(&Program)) {
        let mut programs = Programs { words, sizes: [0; THREADS], program: Program::default(), visit };
        for first in 0..=length {
            for second in 0..=first.min(length - first) {
                let third = length - first - second;
                if third <= second {
                    programs.sizes = [first, second, third];
                    programs.go(0);
                }
            }
        }
    }

    fn go(&mut self, thread: usize) {
        if thread == THREADS {
            if is_smallest(&self.program) && is_possible(&self.program) {
                (self.visit)(&self.program);
            }
            return;
        }
        if self.program[thread].len() == self.sizes[thread] {
            return self.go(thread + 1);
        }
        for &word in self.words {
            // Variables and locks are named in the order of appearance.
            let unknown = |number: u8, is: fn(&Operation) -> Option<u8>| {
                number > 0 && !self.program.iter().flatten().filter_map(is).any(|known| known + 1 >= number)
            };
            let skipped = match word {
                Read(number) | Write(number) => unknown(number, variable),
                Turns(number) => unknown(number, lock),
                _ => false,
            };
            if !skipped {
                self.program[thread].push(word);
                self.go(thread);
                self.program[thread].pop();
            }
        }
    }
}

fn variable(operation: &Operation) -> Option<u8> {
    if let Read(number) | Write(number) = *operation { Some(number) } else { None }
}

fn lock(operation: &Operation) -> Option<u8> {
    if let Turns(number) = *operation { Some(number) } else { None }
}

/// Returns whether no renaming yields a smaller program with as many events in each thread.
fn is_smallest(program: &Program) -> bool {
    const ORDERS: [[usize; THREADS]; 5] = [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    ORDERS.iter().all(|order| {
        let same = (0..THREADS).all(|at| program[at].len() == program[order[at]].len());
        !same || renamed(program, *order) >= *program
    })
}

/// Returns the program with its threads in this order, and everything named in the order of appearance.
fn renamed(program: &Program, order: [usize; THREADS]) -> Program {
    let mut names: [Vec<u8>; 2] = Default::default();
    let mut name = |of: usize, number: u8| {
        let known = names[of].iter().position(|&known| known == number);
        known.unwrap_or_else(|| {
            names[of].push(number);
            names[of].len() - 1
        }) as u8
    };
    let place = |thread: u8| order.iter().position(|&at| at == usize::from(thread)).unwrap_or(0) as u8;
    order.map(|at| {
        let renamed = program[at].iter().map(|&operation| match operation {
            Read(number) => Read(name(0, number)),
            Write(number) => Write(name(0, number)),
            Turns(number) => Turns(name(1, number)),
            Creates(thread) => Creates(place(thread)),
            Joins(thread) => Joins(place(thread)),
        });
        renamed.collect()
    })
}

/// Returns whether threads are created and joined at most once, and not by themselves.
fn is_possible(program: &Program) -> bool {
    (0..THREADS as u8).all(|thread| {
        let count = |requested_length: Operation| {
            program.iter().flatten().filter(|&&operation| operation == requested_length).count()
        };
        let own = &program[usize::from(thread)];
        let by_itself = own.contains(&Creates(thread)) || own.contains(&Joins(thread));
        // A thread without operations is no thread.
        let nothing = own.is_empty() && count(Creates(thread)) + count(Joins(thread)) > 0;
        count(Creates(thread)) <= 1 && count(Joins(thread)) <= 1 && !by_itself && !nothing
    })
}

/// The state of a run: four bits for each thread, each variable's last write, and the writes that reads have
/// seen.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    at: [u8; THREADS],
    writers: [u8; 2],
    seen: u64,
}

/// Enumerates the runs of a program, one for each way in which reads can see writes.
struct Runs<'a> {
    program: &'a Program,
    /// By thread: the number of its first event.
    first: [usize; THREADS],
    met: HashSet<State>,
    seen: HashSet<u64>,
    path: Vec<usize>,
    found: Vec<Vec<Event>>,
}

impl Runs<'_> {
    fn of(program: &Program) -> Vec<Vec<Event>> {
        let lengths = program.each_ref().map(Vec::len);
        let mut runs = Runs {
            program,
            first: [0, lengths[0], lengths[0] + lengths[1]],
            met: HashSet::new(),
            seen: HashSet::new(),
            path: Vec::new(),
            found: Vec::new(),
        };
        runs.go(State { at: [0; THREADS], writers: [15; 2], seen: 0 });
        runs.found
    }

    fn done(&self, state: State, thread: usize) -> &[Operation] {
        &self.program[thread][..usize::from(state.at[thread])]
    }

    fn holds(&self, state: State, thread: usize, lock: u8) -> bool {
        self.done(state, thread).iter().filter(|&&operation| operation == Turns(lock)).count() % 2 == 1
    }

    fn may(&self, state: State, thread: usize, operation: Operation) -> bool {
        let creation = Creates(thread as u8);
        let created = self.program.iter().all(|line| !line.contains(&creation))
            || (0..THREADS).any(|by| self.done(state, by).contains(&creation));
        let may = match operation {
            Turns(lock) => (0..THREADS).all(|other| other == thread || !self.holds(state, other, lock)),
            Joins(other) => {
                let other = usize::from(other);
                usize::from(state.at[other]) == self.program[other].len()
            }
            _ => true,
        };
        created && may
    }

    fn go(&mut self, state: State) {
        if !self.met.insert(state) {
            return;
        }
        if self.path.len() == self.program.iter().map(Vec::len).sum::<usize>() {
            if self.seen.insert(state.seen) {
                self.found.push(self.events());
            }
            return;
        }
        for thread in 0..THREADS {
            let at = usize::from(state.at[thread]);
            let Some(&operation) = self.program[thread].get(at) else { continue };
            if !self.may(state, thread, operation) {
                continue;
            }
            let number = self.first[thread] + at;
            let mut state = state;
            state.at[thread] += 1;
            match operation {
                Read(variable) => {
                    state.seen |= u64::from(state.writers[usize::from(variable)]) << (4 * number);
                }
                Write(variable) => state.writers[usize::from(variable)] = number as u8,
                _ => {}
            }
            self.path.push(thread);
            self.go(state);
            self.path.pop();
        }
    }

    fn events(&self) -> Vec<Event> {
        let mut at = [0; THREADS];
        let events = self.path.iter().enumerate().map(|(number, &thread)| {
            let done = &self.program[thread][..at[thread]];
            let operation = self.program[thread][at[thread]];
            at[thread] += 1;
            let (op, addr, value) = match operation {
                Read(variable) => (Op::Read, 1 + u64::from(variable), 0),
                Write(variable) => (Op::Write, 1 + u64::from(variable), 0),
                Turns(lock) => {
                    let holds = done.iter().filter(|&&before| before == operation).count() % 2 == 1;
                    (if holds { Op::Unlock } else { Op::Lock }, LOCKS + u64::from(lock), u64::from(!holds))
                }
                Creates(child) => (Op::Create, 0, child.into()),
                Joins(child) => (Op::Join, 0, child.into()),
            };
            event(thread as u16, op, addr, value, number)
        });
        events.collect()
    }
}

/// Asserts that the predictions for every trace up to a length match brute force. Returns the number of
/// traces, races and deadlocks.
fn every(words: &[Operation], length: usize) -> [usize; 3] {
    let mut sums = [0; 3];
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    for length in 1..=length {
        let work = |worker: usize| {
            let mut counts = [0; 4];
            Programs::all(words, length, &mut |program| {
                counts[0] += 1;
                if counts[0] % workers == worker {
                    for events in Runs::of(program) {
                        let (races, deadlocks) = agree(&events, "this trace");
                        counts = [counts[0], counts[1] + 1, counts[2] + races, counts[3] + deadlocks];
                    }
                }
            });
            counts
        };
        let counts = std::thread::scope(|scope| {
            let work = &work;
            let all: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
            all.into_iter().map(|one| one.join().expect("a trace is mispredicted")).collect::<Vec<_>>()
        });
        let sum = |at: usize| counts.iter().map(|counts| counts[at]).sum::<usize>();
        let [traces, races, deadlocks] = [1, 2, 3].map(sum);
        println!(
            "{length} events: {} programs, {traces} traces, {races} races, {deadlocks} deadlocks",
            counts[0][0]
        );
        sums = [sums[0] + traces, sums[1] + races, sums[2] + deadlocks];
    }
    sums
}

/// Returns the maximum length: what takes seconds, or what `UNSNARL_EVENTS` requests.
fn up_to(unoptimised: usize, optimised: usize) -> usize {
    let requested_length = std::env::var("UNSNARL_EVENTS").ok().and_then(|length| length.parse().ok());
    requested_length.unwrap_or(if cfg!(debug_assertions) { unoptimised } else { optimised })
}

#[test]
fn all_traces_with_one_variable_and_lock_match_brute_force() {
    let [traces, races, _] = every(&[Read(0), Write(0), Turns(0)], up_to(6, 7));
    assert!(traces > 1_000 && races > 1_000, "{traces} traces, {races} races");
}

#[test]
fn all_traces_with_one_variable_and_two_locks_match_brute_force() {
    let [traces, races, deadlocks] = every(&[Read(0), Write(0), Turns(0), Turns(1)], up_to(6, 7));
    assert!(traces > 1_000 && races > 1_000 && deadlocks > 0, "{traces}, {races}, {deadlocks}");
}

#[test]
fn all_traces_with_two_variables_and_two_locks_match_brute_force() {
    let words = [Read(0), Write(0), Read(1), Write(1), Turns(0), Turns(1)];
    // Too short for a deadlock, which the other tests cover.
    let [traces, races, _] = every(&words, up_to(5, 6));
    assert!(traces > 1_000 && races > 1_000, "{traces} traces, {races} races");
}

#[test]
fn all_traces_with_three_locks_match_brute_force() {
    let [traces, _, deadlocks] = every(&[Turns(0), Turns(1), Turns(2)], up_to(7, 9));
    assert!(traces > 1_000 && deadlocks > 0, "{traces} traces, {deadlocks} deadlocks");
}

#[test]
fn all_traces_with_creation_and_join_match_brute_force() {
    let words =
        [Read(0), Write(0), Turns(0), Creates(0), Creates(1), Creates(2), Joins(0), Joins(1), Joins(2)];
    let [traces, races, deadlocks] = every(&words, up_to(5, 6));
    assert!(traces > 1_000 && races > 1_000 && deadlocks > 0, "{traces}, {races}, {deadlocks}");
}
