//! Two threads take turns by `Mutex` and `Condvar::wait_while`; a third only waits for the end, with time-
//! outs that it must survive. Expected: the same line in every schedule.

use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

const TURNS: usize = 4;

fn main() {
    let line = Mutex::new(String::new());
    let changed = Condvar::new();
    let take_turns = |mine: usize, word: &str| {
        for turn in (mine..TURNS).step_by(2) {
            let guard = line.lock().unwrap();
            let mut guard = changed.wait_while(guard, |line| line.matches(' ').count() != turn).unwrap();
            guard.push_str(word);
            changed.notify_all();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| take_turns(1, "tock "));
        scope.spawn(|| take_turns(0, "tick "));
        let mut guard = line.lock().unwrap();
        while guard.matches(' ').count() < TURNS {
            let (next, result) = changed.wait_timeout(guard, Duration::from_secs(1)).unwrap();
            let _may_be_either = result.timed_out();
            guard = next;
        }
    });
    println!("{}", line.into_inner().unwrap());
}
