//! Two threads ask for the size of the disks.

use std::thread;

fn main() {
    let threads = [(); 2].map(|()| thread::spawn(|| sys_info::disk_info().unwrap().total));
    let [first, second] = threads.map(|thread| thread.join().unwrap());
    assert_eq!(first, second);
}
