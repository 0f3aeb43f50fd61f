//! One thread looks at the values of all threads while another one adds its own.

use std::{sync::Arc, thread};
use thread_local::ThreadLocal;

fn main() {
    let values = Arc::new(ThreadLocal::new());
    let same = Arc::clone(&values);
    let adding = thread::spawn(move || *same.get_or(|| Box::new(7)).as_ref());
    for value in values.iter() {
        assert_eq!(**value, 7);
    }
    assert_eq!(adding.join().unwrap(), 7);
}
