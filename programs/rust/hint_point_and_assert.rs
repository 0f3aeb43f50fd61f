//! A counter is incremented by a load and a store with a named schedule point between them, and a named assertion
//! looks at it. Expected: when both threads load first, the assertion fails by its name.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

static COUNTER: AtomicU32 = AtomicU32::new(0);
static START: Barrier = Barrier::new(2);

fn increment() {
    START.wait();
    let seen = COUNTER.load(SeqCst);
    unsnarl_hints::point!("between load and store");
    COUNTER.store(seen + 1, SeqCst);
}

fn main() {
    let threads = [thread::spawn(increment), thread::spawn(increment)];
    for thread in threads {
        thread.join().unwrap();
    }
    unsnarl_hints::assert!(COUNTER.load(SeqCst) == 2, "no update is lost"); /* FAIL */
}
