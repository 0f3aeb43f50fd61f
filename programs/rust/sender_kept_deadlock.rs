//! A receiver waits for the end of a channel whose last sender it keeps itself. Expected: deadlock in every
//! schedule.

use std::sync::mpsc;
use std::thread;

fn main() {
    let (sender, receiver) = mpsc::channel();
    let worker = {
        let sender = sender.clone();
        thread::spawn(move || sender.send(1).unwrap())
    };
    let sum: i32 = receiver.iter().sum();
    drop(sender);
    worker.join().unwrap();
    println!("{sum}");
}
