//! One thread reads a value by a reference that outlives its guard; another one removes the value.

use dashmap::DashMap;
use std::{sync::Arc, thread};

fn main() {
    let map = Arc::new(DashMap::new());
    map.insert(1, "one".to_owned());
    let same = Arc::clone(&map);
    let removing = thread::spawn(move || drop(same.remove(&1)));
    if let Some(guard) = map.get(&1) {
        let text = guard.value();
        drop(guard);
        assert_eq!(text, "one");
    }
    removing.join().unwrap();
}
