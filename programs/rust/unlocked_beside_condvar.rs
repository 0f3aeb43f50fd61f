//! Two threads wait for a start by `Condvar` and then increment a counter that no lock protects. Expected: a race that the
//! order of the start does not hide; when both read first, an update is lost and the assertion in `main` panics.

use std::cell::UnsafeCell;
use std::sync::{Condvar, Mutex};
use std::thread;

struct Counter(UnsafeCell<u32>);

// SAFETY: it is not sound; that is the bug.
unsafe impl Sync for Counter {}

static COUNTER: Counter = Counter(UnsafeCell::new(0));
static STARTED: Mutex<bool> = Mutex::new(false);
static START: Condvar = Condvar::new();

fn increment() {
    drop(START.wait_while(STARTED.lock().unwrap(), |started| !*started).unwrap());
    // SAFETY: see above.
    unsafe { *COUNTER.0.get() += 1 };
}

fn main() {
    let threads = [thread::spawn(increment), thread::spawn(increment)];
    *STARTED.lock().unwrap() = true;
    START.notify_all();
    for thread in threads {
        thread.join().unwrap();
    }
    // SAFETY: everybody else has ended.
    assert_eq!(unsafe { *COUNTER.0.get() }, 2, "an update was lost"); /* FAIL */
}
