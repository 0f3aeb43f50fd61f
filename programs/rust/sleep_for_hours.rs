//! Three threads sleep for hours by `thread::sleep`. Expected: `Instant` and `SystemTime` show that the time
//! has passed, though none really has: time is virtual. (Natively this takes hours.)

use std::thread;
use std::time::{Duration, Instant, SystemTime};

const HOUR: Duration = Duration::from_secs(3600);

fn main() {
    let (start, wall_start) = (Instant::now(), SystemTime::now());
    thread::scope(|scope| {
        for hours in 1..=3 {
            scope.spawn(move || {
                let start = Instant::now();
                thread::sleep(hours * HOUR);
                assert!(start.elapsed() >= hours * HOUR);
            });
        }
    });
    assert!(start.elapsed() >= 3 * HOUR && start.elapsed() <= 7 * HOUR);
    assert!(wall_start.elapsed().unwrap() >= 3 * HOUR);
}
