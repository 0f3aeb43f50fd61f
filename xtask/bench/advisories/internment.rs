//! Two threads intern the same string and drop it.

use internment::ArcIntern;
use std::thread;

fn main() {
    let threads = [(); 2].map(|()| {
        thread::spawn(|| {
            let interned = ArcIntern::new("colour".to_owned());
            assert_eq!(interned.as_str(), "colour");
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
}
