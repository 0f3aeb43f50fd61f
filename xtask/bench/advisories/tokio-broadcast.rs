//! Two receivers get the same message, whose type may not be used by two threads at once: it is `Send` and not `Sync`.

use std::{cell::Cell, thread};
use tokio::sync::broadcast;

#[derive(Debug, Default)]
struct Numbered {
    number: u32,
    copies: Cell<u32>,
}

impl Clone for Numbered {
    fn clone(&self) -> Self {
        self.copies.set(self.copies.get() + 1);
        Self { number: self.copies.get(), copies: Cell::new(0) }
    }
}

fn main() {
    let (sender, first) = broadcast::channel(4);
    let second = sender.subscribe();
    sender.send(Numbered::default()).unwrap();
    let receivers =
        [first, second].map(|mut receiver| thread::spawn(move || receiver.try_recv().unwrap().number));
    let [first, second] = receivers.map(|receiver| receiver.join().unwrap());
    assert_ne!(first, second, "two copies have one number");
}
