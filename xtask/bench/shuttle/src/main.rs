//! Programs of threads with locks. They are run by Shuttle, which prints its schedules and points per second, or once
//! with the standard library, as plain programs for unsnarl.
//!
//! `counter THREADS ROUNDS` counts under a lock; `queue ITEMS` passes them through a bounded queue with conditions.

#[cfg(not(feature = "std"))]
use shuttle::{
    sync::{Condvar, Mutex},
    thread,
};
use std::{collections::VecDeque, sync::Arc};
#[cfg(feature = "std")]
use std::{
    sync::{Condvar, Mutex},
    thread,
};

#[derive(Clone, Copy)]
enum Program {
    Counter { threads: usize, rounds: usize },
    Queue { items: usize },
}

impl Program {
    fn parse(args: &[String]) -> Option<Self> {
        let number = |at: usize| args.get(at)?.parse().ok();
        match args.first()?.as_str() {
            "counter" => Some(Self::Counter { threads: number(1)?, rounds: number(2)? }),
            "queue" => Some(Self::Queue { items: number(1)? }),
            _ => None,
        }
    }

    fn run(self) {
        match self {
            Self::Counter { threads, rounds } => count(threads, rounds),
            Self::Queue { items } => pass(items),
        }
    }
}

fn count(threads: usize, rounds: usize) {
    let total = Arc::new(Mutex::new(0));
    let counters: Vec<_> = (0..threads)
        .map(|_| {
            let total = Arc::clone(&total);
            thread::spawn(move || (0..rounds).for_each(|_| *total.lock().unwrap() += 1))
        })
        .collect();
    counters.into_iter().for_each(|counter| counter.join().unwrap());
    assert_eq!(*total.lock().unwrap(), threads * rounds);
}

#[derive(Default)]
struct Queue {
    items: Mutex<VecDeque<usize>>,
    not_full: Condvar,
    not_empty: Condvar,
}

impl Queue {
    const MAX: usize = 4;

    fn push(&self, item: usize) {
        let mut items = self.items.lock().unwrap();
        while items.len() == Self::MAX {
            items = self.not_full.wait(items).unwrap();
        }
        items.push_back(item);
        drop(items);
        self.not_empty.notify_one();
    }

    fn pop(&self) -> usize {
        let mut items = self.items.lock().unwrap();
        loop {
            if let Some(item) = items.pop_front() {
                drop(items);
                self.not_full.notify_one();
                return item;
            }
            items = self.not_empty.wait(items).unwrap();
        }
    }
}

/// Two producers and two consumers.
fn pass(items: usize) {
    let queue = Arc::new(Queue::default());
    let pushers: Vec<_> = (0..2)
        .map(|_| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || (0..items).for_each(|item| queue.push(item)))
        })
        .collect();
    let poppers: Vec<_> = (0..2)
        .map(|_| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || (0..items).map(|_| queue.pop()).sum::<usize>())
        })
        .collect();
    pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    let sum: usize = poppers.into_iter().map(|popper| popper.join().unwrap()).sum();
    assert_eq!(sum, items * (items - 1));
}

fn arguments() -> (Program, Vec<String>) {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let program = Program::parse(&args).expect("counter THREADS ROUNDS, or queue ITEMS");
    (program, args)
}

#[cfg(feature = "std")]
fn main() {
    arguments().0.run();
}

/// The last argument is the number of schedules.
#[cfg(not(feature = "std"))]
fn main() {
    let (program, args) = arguments();
    let runs: usize = args.last().and_then(|runs| runs.parse().ok()).expect("how many runs");
    let points = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let scheduler =
        Counting { scheduler: shuttle::scheduler::RandomScheduler::new(runs), points: Arc::clone(&points) };
    let begin = std::time::Instant::now();
    shuttle::Runner::new(scheduler, shuttle::Config::default()).run(move || program.run());
    let seconds = begin.elapsed().as_secs_f64();
    let points = points.load(std::sync::atomic::Ordering::Relaxed);
    println!("{} {}", runs as f64 / seconds, points as f64 / seconds);
}

/// A scheduler that counts its decisions.
#[cfg(not(feature = "std"))]
struct Counting<S> {
    scheduler: S,
    points: Arc<std::sync::atomic::AtomicU64>,
}

#[cfg(not(feature = "std"))]
impl<S: shuttle::scheduler::Scheduler> shuttle::scheduler::Scheduler for Counting<S> {
    fn new_execution(&mut self) -> Option<shuttle::scheduler::Schedule> {
        self.scheduler.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&shuttle::scheduler::Task],
        current: Option<shuttle::scheduler::TaskId>,
        is_yielding: bool,
    ) -> Option<shuttle::scheduler::TaskId> {
        self.points.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.scheduler.next_task(runnable, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.scheduler.next_u64()
    }
}
