//! A worker panics; `join` hands the panic to `main`, which copes, as does `catch_unwind` in another thread.
//! Expected: exit 0; a panic that is handled is not the outcome of the run.

use std::panic;
use std::thread;

fn fail() {
    panic!("cannot go on");
}

fn main() {
    let fails = thread::spawn(fail);
    let catches = thread::spawn(|| {
        let caught = panic::catch_unwind(|| {
            thread::yield_now();
            panic!("caught at home");
        });
        assert!(caught.is_err());
        7
    });
    let payload = fails.join().unwrap_err();
    println!("{} {}", payload.downcast_ref::<&str>().unwrap(), catches.join().unwrap());
}
