//! Thread-local values are made on first use and dropped, with a lock taken in `drop`, before `join` returns.
//! Expected: the same line in every schedule.

use std::cell::RefCell;
use std::sync::Mutex;
use std::thread;

static DROPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Diary(String);

impl Drop for Diary {
    fn drop(&mut self) {
        DROPPED.lock().unwrap().push(self.0.clone());
    }
}

thread_local! {
    static DIARY: RefCell<Diary> = RefCell::new(Diary("dear diary:".to_owned()));
}

fn main() {
    let writers = ["one", "two"].map(|word| {
        thread::spawn(move || {
            for _ in 0..2 {
                DIARY.with_borrow_mut(|diary| {
                    diary.0 += " ";
                    diary.0 += word;
                });
                thread::yield_now();
            }
        })
    });
    let idle = thread::spawn(thread::yield_now);
    for writer in writers {
        writer.join().unwrap();
    }
    idle.join().unwrap();
    let mut dropped = DROPPED.lock().unwrap().clone();
    dropped.sort();
    println!("{}", dropped.join("; "));
}
