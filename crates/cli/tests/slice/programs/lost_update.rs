//! The lock is released between reading and writing.
use std::sync::Mutex;
use std::thread;

static COUNTER: Mutex<u32> = Mutex::new(0);
static NOISE: Mutex<u64> = Mutex::new(1);

fn count() {
    let seen = *COUNTER.lock().unwrap(); // ROOT
    thread::yield_now();
    *COUNTER.lock().unwrap() = seen + 1; // ROOT
}

fn noise() {
    for i in 1..50 {
        *NOISE.lock().unwrap() += i; // UNRELATED
    }
}

fn main() {
    let threads = [thread::spawn(noise), thread::spawn(count), thread::spawn(count)];
    for thread in threads {
        thread.join().unwrap();
    }
    let counted = *COUNTER.lock().unwrap(); // CAUSE
    assert!(counted == 2); // CAUSE
}
