//! `OnceLock`, `LazyLock` and `Once` raced by three threads. Expected: each initialiser ran once, all see its
//! result.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Once, OnceLock};
use std::thread;

static RUNS: AtomicUsize = AtomicUsize::new(0);
static LAZY: LazyLock<String> = LazyLock::new(|| {
    RUNS.fetch_add(1, Ordering::Relaxed);
    thread::yield_now();
    "lazy".to_owned()
});
static CELL: OnceLock<String> = OnceLock::new();
static ONCE: Once = Once::new();

fn initialise() -> String {
    RUNS.fetch_add(1, Ordering::Relaxed);
    thread::yield_now();
    "cell".to_owned()
}

fn main() {
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                assert_eq!(CELL.get_or_init(initialise), "cell");
                assert_eq!(*LAZY, "lazy");
                ONCE.call_once(|| {
                    RUNS.fetch_add(1, Ordering::Relaxed);
                });
                assert!(ONCE.is_completed());
            });
        }
    });
    println!("{}", RUNS.load(Ordering::Relaxed));
}
