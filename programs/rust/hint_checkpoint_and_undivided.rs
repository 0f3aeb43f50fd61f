//! The threads of the set-up increment a counter by a load and a store; those after the checkpoint do the same in an
//! undivided region. Expected: nobody is preempted before the checkpoint or in a region, so no update is lost.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

static COUNTER: AtomicU32 = AtomicU32::new(0);

fn increment() {
    COUNTER.store(COUNTER.load(SeqCst) + 1, SeqCst);
}

fn two(routine: fn()) {
    let threads = [thread::spawn(routine), thread::spawn(routine)];
    for thread in threads {
        thread.join().unwrap();
    }
}

fn main() {
    two(increment);
    unsnarl_hints::checkpoint!();
    two(|| {
        let _whole = unsnarl_hints::undivided();
        increment();
    });
    assert_eq!(COUNTER.load(SeqCst), 4);
}
