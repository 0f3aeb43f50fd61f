//! A message is sent while the receiver, which has been polled once, is dropped.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Wake},
    thread,
};

struct Ignore;

impl Wake for Ignore {
    fn wake(self: Arc<Self>) {}
}

fn main() {
    let (sender, mut receiver) = oneshot::channel();
    let sending = thread::spawn(move || drop(sender.send(Box::new(7))));
    let waker = Arc::new(Ignore).into();
    let _ = Pin::new(&mut receiver).poll(&mut Context::from_waker(&waker));
    drop(receiver);
    sending.join().unwrap();
}
