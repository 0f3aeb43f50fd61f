//! Two threads initialise a value once.

use spin::Once;
use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

static VALUE: Once<u32> = Once::new();
static CALLS: AtomicU32 = AtomicU32::new(0);

fn main() {
    let threads =
        [(); 2].map(|()| thread::spawn(|| *VALUE.call_once(|| CALLS.fetch_add(1, Ordering::SeqCst) + 1)));
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 1);
    }
    assert_eq!(CALLS.load(Ordering::SeqCst), 1, "initialised more than once");
}
