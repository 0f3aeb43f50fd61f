//! Unbounded, bounded and rendezvous channels, several senders, `recv_timeout` that may time out, the end of
//! a channel by dropping its senders. Expected: the same line in every schedule.

use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::Duration;

fn main() {
    let (numbers, received_numbers) = mpsc::channel();
    let (squares, received_squares) = mpsc::sync_channel(1);
    let (rendezvous, met) = mpsc::sync_channel(0);
    for number in 1..=3 {
        let numbers = numbers.clone();
        thread::spawn(move || numbers.send(number).unwrap());
    }
    drop(numbers);
    let squarer = thread::spawn(move || {
        for number in received_numbers {
            squares.send(number * number).unwrap();
        }
        rendezvous.send("done").unwrap();
    });

    let mut sum = 0;
    loop {
        match received_squares.recv_timeout(Duration::from_secs(1)) {
            Ok(square) => sum += square,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if sum == 14 {
            break;
        }
    }
    let word = met.recv().unwrap();
    squarer.join().unwrap();
    assert_eq!(met.try_recv(), Err(TryRecvError::Disconnected));
    println!("{sum} {word}");
}
