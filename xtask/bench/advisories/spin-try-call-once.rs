//! The first attempt to initialise a value fails while another thread waits for it.

use spin::Once;
use std::thread;

static VALUE: Once<u32> = Once::new();

fn main() {
    let failing = thread::spawn(|| {
        let _ = VALUE.try_call_once(|| Err("not yet"));
    });
    let other = thread::spawn(|| *VALUE.call_once(|| 7));
    failing.join().unwrap();
    assert_eq!(other.join().unwrap(), 7);
}
