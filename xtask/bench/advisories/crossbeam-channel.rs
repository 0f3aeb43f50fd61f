//! Two threads send while the receiver is dropped.

use crossbeam_channel::unbounded;
use std::thread;

fn main() {
    let (first, receiver) = unbounded();
    let second = first.clone();
    let senders = [first, second].map(|sender| {
        thread::spawn(move || {
            let _ = sender.send(Box::new(7));
        })
    });
    drop(receiver);
    for sender in senders {
        sender.join().unwrap();
    }
}
