//! Two threads share the guard of a mutex, although what it protects may not be used by two threads at once.

use futures_intrusive::sync::Mutex;
use std::{cell::Cell, thread};

fn main() {
    let counter = Mutex::new(Cell::new(0), true);
    let guard = counter.try_lock().unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| guard.set(guard.get() + 1));
        }
    });
    assert_eq!(guard.get(), 2);
}
