//! A bounded queue of a `Mutex` and two `Condvar`s, with two consumers and one producer. `Condvar::wait` is in the
//! prebuilt standard library. Expected: the same sum in every schedule, and no race.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::thread;

const ROOM: usize = 2;
const END: u64 = 0;

fn main() {
    let (queue, filled, emptied) = (Mutex::new(VecDeque::new()), Condvar::new(), Condvar::new());
    let sum = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let mut items = queue.lock().unwrap();
                    while items.is_empty() {
                        items = filled.wait(items).unwrap();
                    }
                    let item = items.pop_front().unwrap();
                    emptied.notify_one();
                    drop(items);
                    if item == END {
                        break;
                    }
                    *sum.lock().unwrap() += item;
                }
            });
        }
        for item in [1, 2, 3, 4, END, END] {
            let mut items = queue.lock().unwrap();
            while items.len() == ROOM {
                items = emptied.wait(items).unwrap();
            }
            items.push_back(item);
            filled.notify_one();
        }
    });
    println!("{}", sum.into_inner().unwrap());
}
