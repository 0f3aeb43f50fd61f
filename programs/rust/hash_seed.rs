//! Two threads hash a word with `RandomState`, whose keys come from the system's random source. Expected:
//! exit 0, and a replay prints exactly the same numbers.

use std::hash::{BuildHasher, RandomState};
use std::thread;

fn main() {
    let hashes = [0, 1].map(|_| thread::spawn(|| RandomState::new().hash_one("knot")));
    for hash in hashes {
        println!("{:x}", hash.join().unwrap());
    }
}
