//! Threads share a `Mutex` in an `Arc`, also by `try_lock`. Expected: no update lost, and the last owner gets
//! it back.

use std::sync::{Arc, Mutex, TryLockError};
use std::thread;

fn main() {
    let names = Arc::new(Mutex::new(Vec::new()));
    let guard = names.lock().unwrap();
    let workers: Vec<_> = ["b", "c", "a"]
        .map(|name| {
            let names = Arc::clone(&names);
            thread::spawn(move || names.lock().unwrap().push(name))
        })
        .into();
    assert!(matches!(names.try_lock(), Err(TryLockError::WouldBlock)));
    assert!(guard.is_empty());
    drop(guard);
    for worker in workers {
        worker.join().unwrap();
    }
    let mut names = Arc::into_inner(names).unwrap().into_inner().unwrap();
    names.sort();
    println!("{}", names.join(" "));
}
