//! Comparison with all interleavings: the predictor finds exactly the existing errors, on random traces.

mod common;

use common::{agree, random};

fn agree_on(seeds: std::ops::Range<u64>, threads: u16, length: usize, memory: u64, locks: u64) {
    let (mut races, mut deadlocks) = (0, 0);
    for seed in seeds {
        let events = random(seed, threads, length, memory, locks);
        let (r, d) = agree(&events, &format!("seed {seed}"));
        races += r;
        deadlocks += d;
    }
    assert!(races > 0 && deadlocks > 0, "{races} races, {deadlocks} deadlocks: the traces are too dull");
}

#[test]
fn three_threads_and_ten_events_match_brute_force() {
    agree_on(0..6000, 3, 10, 2, 2);
}

#[test]
fn more_locks_and_memory_match_brute_force() {
    agree_on(10_000..13_000, 3, 10, 3, 3);
}

#[test]
fn longer_traces_of_three_threads_match_brute_force() {
    agree_on(20_000..20_600, 3, 16, 2, 2);
}

#[test]
fn traces_of_four_threads_match_brute_force() {
    agree_on(30_000..30_400, 4, 14, 2, 3);
}
