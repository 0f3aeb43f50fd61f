//! The length is announced before the element is there. Expected: a reader in between panics on its index, in
//! `main`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

fn main() {
    let items = Arc::new(Mutex::new(vec!["first"]));
    let length = Arc::new(AtomicUsize::new(1));
    let writer = {
        let (items, length) = (Arc::clone(&items), Arc::clone(&length));
        thread::spawn(move || {
            length.fetch_add(1, Ordering::SeqCst);
            items.lock().unwrap().push("second");
        })
    };
    let items = items.lock().unwrap();
    let last = items[length.load(Ordering::SeqCst) - 1]; /* FAIL */
    drop(items);
    println!("{last}");
    writer.join().unwrap();
}
