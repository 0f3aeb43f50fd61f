//! Atomics of every size, `fetch_update`, `compare_exchange`, `fetch_max`, fences, and a spin lock of our own
//! that yields. Expected: the same line in every schedule.

use std::cell::UnsafeCell;
use std::hint;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, Ordering, fence};
use std::thread;

struct SpinLock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` gives out the value only to the thread that has set `held`.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        while self.held.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            hint::spin_loop();
            thread::yield_now();
        }
        // SAFETY: this thread has set `held`, and nobody else has the value until it is cleared.
        let result = f(unsafe { &mut *self.value.get() });
        self.held.store(false, Ordering::Release);
        result
    }
}

fn main() {
    let (tiny, small, medium, large) =
        (AtomicU8::new(0), AtomicU16::new(0), AtomicU32::new(1), AtomicI64::new(0));
    let locked = SpinLock { held: AtomicBool::new(false), value: UnsafeCell::new(0) };
    thread::scope(|scope| {
        for number in 1..=2 {
            let (tiny, small, medium, large, locked) = (&tiny, &small, &medium, &large, &locked);
            scope.spawn(move || {
                tiny.fetch_or(number, Ordering::Relaxed);
                small.fetch_max(u16::from(number) * 100, Ordering::AcqRel);
                medium.fetch_update(Ordering::SeqCst, Ordering::Acquire, |n| Some(n * 3)).unwrap();
                large.fetch_sub(i64::from(number), Ordering::Release);
                fence(Ordering::SeqCst);
                locked.with(|value| *value += 1);
            });
        }
    });
    let count = locked.with(|value| *value);
    println!("{tiny:?} {small:?} {medium:?} {large:?} {count}");
}
