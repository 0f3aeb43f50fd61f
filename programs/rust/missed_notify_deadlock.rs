//! A `Condvar` is waited for without a predicate. Expected: deadlock when the notification comes first.

use std::sync::{Condvar, Mutex};
use std::thread;

fn main() {
    let mutex = Mutex::new(());
    let ready = Condvar::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = mutex.lock().unwrap();
            ready.notify_one();
        });
        let guard = mutex.lock().unwrap();
        drop(ready.wait(guard).unwrap());
    });
}
