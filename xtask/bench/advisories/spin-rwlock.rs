//! One thread writes two numbers under a lock, another one reads them.

use spin::RwLock;
use std::thread;

static PAIR: RwLock<(u32, u32)> = RwLock::new((0, 0));

fn main() {
    let writing = thread::spawn(|| {
        let mut pair = PAIR.write();
        pair.0 += 1;
        pair.1 += 1;
    });
    let pair = PAIR.read();
    assert_eq!(pair.0, pair.1);
    drop(pair);
    writing.join().unwrap();
}
