//! The balance suffices when it is checked, and no longer when it is taken.
use std::sync::Mutex;
use std::thread;

static BALANCE: Mutex<i32> = Mutex::new(100);
static NOISE: Mutex<u64> = Mutex::new(1);

fn balance() -> i32 {
    *BALANCE.lock().unwrap() // CAUSE
}

fn take(amount: i32) {
    if balance() >= amount { // ROOT
        thread::yield_now();
        *BALANCE.lock().unwrap() -= amount; // ROOT
    }
}

fn noise() {
    for i in 1..50 {
        *NOISE.lock().unwrap() += i; // UNRELATED
    }
}

fn main() {
    let threads = [thread::spawn(noise), thread::spawn(|| take(80)), thread::spawn(|| take(80))];
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(balance() >= 0); // CAUSE
}
