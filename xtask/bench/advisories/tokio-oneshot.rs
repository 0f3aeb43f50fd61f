//! A message is sent while the receiver closes the channel and looks once more for a message.

use std::thread;
use tokio::sync::oneshot;

fn main() {
    let (sender, mut receiver) = oneshot::channel();
    let receiving = thread::spawn(move || {
        receiver.close();
        receiver.try_recv().ok()
    });
    let returned = sender.send(Box::new(7)).err();
    let received: Option<Box<i32>> = receiving.join().unwrap();
    assert_eq!(received.is_some(), returned.is_none(), "the message is at one of the two ends");
}
