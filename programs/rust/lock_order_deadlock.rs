//! Two scoped threads lock two mutexes in opposite order. Expected: deadlock when each holds one.

use std::sync::{Barrier, Mutex};
use std::thread;

fn main() {
    let (left, right) = (Mutex::new(0), Mutex::new(0));
    let start = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            let mut left = left.lock().unwrap();
            *left += *right.lock().unwrap();
        });
        scope.spawn(|| {
            start.wait();
            let mut right = right.lock().unwrap();
            *right += *left.lock().unwrap();
        });
    });
}
