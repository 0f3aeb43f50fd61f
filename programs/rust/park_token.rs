//! A thread parks until main has handed it a number. Main may unpark it before it parks: then `park` returns at once. The
//! flag orders nothing, `unpark` and `park` do. Expected: the thread sees the number, and no race.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

struct Number {
    value: UnsafeCell<u32>,
    is_handed_over: AtomicBool,
}

// SAFETY: main writes the value before it unparks the thread that reads it.
unsafe impl Sync for Number {}

static NUMBER: Number = Number { value: UnsafeCell::new(0), is_handed_over: AtomicBool::new(false) };

fn main() {
    let reader = thread::spawn(|| {
        loop {
            thread::park();
            if NUMBER.is_handed_over.load(Ordering::Relaxed) {
                break;
            }
        }
        // SAFETY: main has unparked this thread.
        unsafe { *NUMBER.value.get() }
    });
    // SAFETY: the thread waits.
    unsafe { *NUMBER.value.get() = 7 };
    NUMBER.is_handed_over.store(true, Ordering::Relaxed);
    reader.thread().unpark();
    println!("{}", reader.join().unwrap());
}
