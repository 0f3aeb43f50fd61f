//! Two threads count under a lock: once by Shuttle, which prints its schedules a second, once as a plain program
//! for unsnarl.

#[cfg(not(feature = "std"))]
use shuttle::{sync::Mutex, thread};
#[cfg(feature = "std")]
use std::{sync::Mutex, thread};
use std::sync::Arc;

fn count() {
    let total = Arc::new(Mutex::new(0));
    let counters: Vec<_> = (0..2)
        .map(|_| {
            let total = Arc::clone(&total);
            thread::spawn(move || (0..2).for_each(|_| *total.lock().unwrap() += 1))
        })
        .collect();
    counters.into_iter().for_each(|counter| counter.join().unwrap());
    assert_eq!(*total.lock().unwrap(), 4);
}

#[cfg(feature = "std")]
fn main() {
    count();
}

#[cfg(not(feature = "std"))]
fn main() {
    const RUNS: usize = 5000;
    let begin = std::time::Instant::now();
    shuttle::check_random(count, RUNS);
    println!("{}", RUNS as f64 / begin.elapsed().as_secs_f64());
}
