//! Guards of a lock are sent to two threads, although what they protect may not be used by two threads at once.

use parking_lot::{RwLock, RwLockReadGuard};
use std::{cell::Cell, thread};

fn main() {
    let counter = RwLock::new(Cell::new(0));
    let guards = [(); 2].map(|()| RwLockReadGuard::map(counter.read(), |cell| cell));
    thread::scope(|scope| {
        for guard in guards {
            scope.spawn(move || guard.set(guard.get() + 1));
        }
    });
    assert_eq!(counter.into_inner().get(), 2);
}
