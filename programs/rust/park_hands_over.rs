//! Two threads hand a number that no lock protects back and forth, by a flag and `park`. Expected: the same number in every
//! schedule, and no race.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const TURNS: usize = 4;

struct Handed {
    number: UnsafeCell<u64>,
    turn: AtomicUsize,
}

// SAFETY: only the thread whose turn it is touches the number.
unsafe impl Sync for Handed {}

fn main() {
    let table = Handed { number: UnsafeCell::new(1), turn: AtomicUsize::new(0) };
    let handed = &table;
    let play = move |mine: usize, other: &thread::Thread, change: fn(u64) -> u64| {
        for turn in (mine..TURNS).step_by(2) {
            while handed.turn.load(Ordering::Acquire) != turn {
                thread::park();
            }
            // SAFETY: it is this thread's turn.
            unsafe { *handed.number.get() = change(*handed.number.get()) };
            handed.turn.store(turn + 1, Ordering::Release);
            other.unpark();
        }
    };
    thread::scope(|scope| {
        let main = thread::current();
        let other = scope.spawn(move || play(1, &main, |number| number + 3));
        play(0, other.thread(), |number| number * 10);
    });
    println!("{}", table.number.into_inner());
}
