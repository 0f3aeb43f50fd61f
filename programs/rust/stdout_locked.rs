//! Two threads print with standard output locked for several lines, and main prints as soon as they do. Expected: no lines are
//! mixed, and no race on the lock's count.

use std::io::{self, Write};
use std::thread;

fn print() {
    let mut out = io::stdout().lock();
    for line in ["one", "two"] {
        writeln!(out, "{line}").unwrap();
    }
}

fn main() {
    let threads = [thread::spawn(print), thread::spawn(print)];
    print();
    for thread in threads {
        thread.join().unwrap();
    }
}
