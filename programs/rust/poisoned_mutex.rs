//! A thread panics while it holds a mutex and a write lock. Expected: others find both poisoned, recover the
//! data and clear the poison.

use std::sync::{Mutex, RwLock};
use std::thread;

fn main() {
    let total = Mutex::new(1);
    let limit = RwLock::new(10);
    thread::scope(|scope| {
        let fails = scope.spawn(|| {
            let mut total = total.lock().unwrap();
            let _limit = limit.write().unwrap();
            *total = 2;
            panic!("left half done");
        });
        assert!(fails.join().is_err());
    });
    assert!(total.is_poisoned() && limit.read().is_err());
    let repaired = *total.lock().unwrap_or_else(|poisoned| {
        total.clear_poison();
        poisoned.into_inner()
    });
    assert!(!total.is_poisoned());
    println!("{repaired} {}", total.lock().unwrap());
}
