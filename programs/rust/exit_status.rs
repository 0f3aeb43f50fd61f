//! The first of two threads to arrive decides the exit status. Expected: status 4 when the second-spawned one
//! is first.

use std::process;
use std::sync::OnceLock;
use std::thread;

static STATUS: OnceLock<i32> = OnceLock::new();

fn main() {
    let threads = [0, 4].map(|status| thread::spawn(move || STATUS.set(status).is_ok()));
    let was_first = threads.map(|thread| thread.join().unwrap());
    assert!(was_first[0] != was_first[1]);
    process::exit(*STATUS.get().unwrap());
}
