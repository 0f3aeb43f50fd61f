//! Tasks, channels, a mutex and a timer on tokio's multi-thread runtime.

use std::{sync::Arc, time::Duration};
use tokio::sync::{Mutex, mpsc};

#[tokio::main(worker_threads = 3)]
async fn main() {
    let (sender, mut receiver) = mpsc::channel(4);
    let total = Arc::new(Mutex::new(0u64));
    let tasks: Vec<_> = (0..8u64)
        .map(|n| {
            let (sender, total) = (sender.clone(), total.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(n % 3)).await;
                *total.lock().await += n;
                sender.send(n * n).await.expect("a receiver");
            })
        })
        .collect();
    drop(sender);
    let mut squares = Vec::new();
    while let Some(square) = receiver.recv().await {
        squares.push(square);
    }
    for task in tasks {
        task.await.expect("a task that ends");
    }
    squares.sort_unstable();
    println!("{} {squares:?}", total.lock().await);
}
