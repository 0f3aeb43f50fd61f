//! Two related variables have a lock each.
use std::sync::Mutex;
use std::thread;

static WIDTH: Mutex<u32> = Mutex::new(4);
static HEIGHT: Mutex<u32> = Mutex::new(3);
static NOISE: Mutex<u64> = Mutex::new(1);

fn turn() {
    *WIDTH.lock().unwrap() = 3; // ROOT
    thread::yield_now();
    *HEIGHT.lock().unwrap() = 4; // CAUSE
}

fn measure() {
    let width = *WIDTH.lock().unwrap(); // ROOT
    thread::yield_now();
    let height = *HEIGHT.lock().unwrap(); // ROOT
    assert!(width * height == 12); // CAUSE
}

fn noise() {
    for i in 1..50 {
        *NOISE.lock().unwrap() += i; // UNRELATED
    }
}

fn main() {
    let threads = [thread::spawn(noise), thread::spawn(turn), thread::spawn(measure)];
    let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
    assert!(results.iter().all(|result| result.is_ok()));
}
