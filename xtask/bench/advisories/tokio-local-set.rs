//! Another thread aborts a task that must not leave its own thread.

use std::{
    future,
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, ThreadId},
};
use tokio::{
    runtime::Builder,
    task::{self, LocalSet},
};

static DROPPED_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Something that belongs to a thread, like an `Rc`.
struct Owned(ThreadId);

impl Drop for Owned {
    fn drop(&mut self) {
        if thread::current().id() != self.0 {
            DROPPED_ELSEWHERE.store(true, Ordering::SeqCst);
        }
    }
}

fn main() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let task = task::spawn_local(async {
            let _owned = Owned(thread::current().id());
            future::pending::<()>().await;
        });
        task::yield_now().await;
        let aborting = thread::spawn(move || task.abort());
        task::yield_now().await;
        aborting.join().unwrap();
    });
    assert!(!DROPPED_ELSEWHERE.load(Ordering::SeqCst), "the task was dropped by another thread");
}
