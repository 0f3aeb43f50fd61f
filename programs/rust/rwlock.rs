//! Two readers hold the lock together (they meet at a barrier inside), a writer is alone. Expected: the
//! halves agree.

use std::sync::{Barrier, RwLock};
use std::thread;

fn main() {
    let pair = RwLock::new((0, 0));
    let meeting = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let pair = pair.read().unwrap();
                meeting.wait();
                assert_eq!(pair.0, pair.1);
            });
        }
    });
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut pair = pair.write().unwrap();
                pair.0 += 1;
                pair.1 += 1;
            });
            scope.spawn(|| {
                let pair = pair.read().unwrap();
                assert_eq!(pair.0, pair.1);
            });
        }
    });
    let reader = pair.read().unwrap();
    assert!(pair.try_write().is_err());
    println!("{:?}", *reader);
}
