//! An atomic counter is incremented by a load and a store. Expected: when both threads load first, an update
//! is lost and the assertion in `main` panics.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

static COUNTER: AtomicU32 = AtomicU32::new(0);
static START: Barrier = Barrier::new(2);

fn increment() {
    START.wait();
    let seen = COUNTER.load(Ordering::SeqCst);
    COUNTER.store(seen + 1, Ordering::SeqCst);
}

fn main() {
    let threads = [thread::spawn(increment), thread::spawn(increment)];
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(COUNTER.load(Ordering::SeqCst), 2, "an update was lost"); /* FAIL */
}
