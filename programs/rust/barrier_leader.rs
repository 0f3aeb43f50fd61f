//! Three threads meet at a `Barrier` twice. Expected: exactly one leader each time.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const THREADS: usize = 3;

fn main() {
    let barrier = Barrier::new(THREADS);
    let leaders = [AtomicUsize::new(0), AtomicUsize::new(0)];
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for leaders in &leaders {
                    if barrier.wait().is_leader() {
                        leaders.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    println!("{:?}", leaders.map(AtomicUsize::into_inner));
}
