//! `unpark` before `park` is not lost, `park` may return early, `park_timeout` may time out. Expected: both
//! threads see the flag that was set before they were unparked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let ready = Arc::new(AtomicBool::new(false));
    let parked = {
        let ready = Arc::clone(&ready);
        thread::spawn(move || {
            while !ready.load(Ordering::Acquire) {
                thread::park();
            }
        })
    };
    let timed = {
        let ready = Arc::clone(&ready);
        thread::spawn(move || {
            while !ready.load(Ordering::Acquire) {
                thread::park_timeout(Duration::from_secs(1));
            }
        })
    };
    ready.store(true, Ordering::Release);
    parked.thread().unpark();
    timed.thread().unpark();
    parked.join().unwrap();
    timed.join().unwrap();

    thread::current().unpark();
    thread::park();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1) {
        thread::park_timeout(Duration::from_millis(1));
    }
}
