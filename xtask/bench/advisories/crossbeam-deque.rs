//! A thief takes a batch from a deque whose owner adds and takes tasks meanwhile. Every task is taken exactly once.

use crossbeam_deque::Worker;
use std::{iter, thread};

/// The deque grows when it has more than 64 tasks.
const FULL: u32 = 64;
const ALL: u32 = FULL + 6;

fn main() {
    let worker = Worker::new_lifo();
    let stealer = worker.stealer();
    (0..FULL).for_each(|task| worker.push(task));
    let thief = thread::spawn(move || {
        let own = Worker::new_lifo();
        let _ = stealer.steal_batch(&own);
        iter::from_fn(|| own.pop()).collect::<Vec<u32>>()
    });
    worker.push(FULL);
    let mut taken: Vec<u32> = iter::from_fn(|| worker.pop()).take(FULL as usize - 4).collect();
    (FULL + 1..ALL).for_each(|task| worker.push(task));
    taken.extend(thief.join().unwrap());
    taken.extend(iter::from_fn(|| worker.pop()));
    taken.sort_unstable();
    assert!(taken.into_iter().eq(0..ALL), "a task was taken twice or never");
}
