//! Two scoped threads lock two mutexes in opposite order. Expected: deadlock when each holds one.

use std::sync::Mutex;
use std::thread;

fn main() {
    let (left, right) = (Mutex::new(0), Mutex::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut left = left.lock().unwrap();
            *left += *right.lock().unwrap();
        });
        scope.spawn(|| {
            let mut right = right.lock().unwrap();
            *right += *left.lock().unwrap();
        });
    });
}
