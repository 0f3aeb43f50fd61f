//! Two threads read a value from a cache, although its type may not be used by two threads at once.

use concread::arcache::ARCache;
use std::{cell::Cell, thread};

fn main() {
    let cache = ARCache::new_size(8, 8);
    let mut writing = cache.write();
    writing.insert(1, Cell::new(0));
    writing.commit();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let reading = cache.read();
                let counter: &Cell<u32> = reading.get(&1).unwrap();
                counter.set(counter.get() + 1);
            });
        }
    });
    assert_eq!(cache.read().get(&1).unwrap().get(), 2);
}
