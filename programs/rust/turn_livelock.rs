//! Each of two threads claims the turn once and then spins until it has the turn. Expected: livelock if a
//! claim is overwritten before its thread has checked it, because the turn never returns to that thread.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

static TURN: AtomicU32 = AtomicU32::new(0);
static START: Barrier = Barrier::new(2);

fn claim_turn(me: u32) {
    START.wait();
    TURN.store(me, Ordering::SeqCst);
    while TURN.load(Ordering::SeqCst) != me {
        thread::yield_now();
    }
}

fn main() {
    let threads = [1, 2].map(|me| thread::spawn(move || claim_turn(me)));
    for thread in threads {
        thread.join().unwrap();
    }
}
