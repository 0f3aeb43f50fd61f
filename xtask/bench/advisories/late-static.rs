//! Two threads use a static whose type may not be used by two threads at once.

use late_static::LateStatic;
use std::{cell::Cell, thread};

static COUNTER: LateStatic<Cell<u32>> = LateStatic::new();

fn main() {
    // SAFETY: there is no other thread yet.
    unsafe { LateStatic::assign(&COUNTER, Cell::new(0)) };
    let threads = [(); 2].map(|()| thread::spawn(|| COUNTER.set(COUNTER.get() + 1)));
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(COUNTER.get(), 2);
}
