//! Lock holders.

use crate::succeeded;
use alloc::{collections::BTreeMap, vec::Vec};
use unsnarl_model::{Event, Op, ThreadIx};

/// The holders of each lock, tracked event by event.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    held: BTreeMap<u64, Vec<ThreadIx>>,
}

impl Holders {
    /// Returns the holders after all these events.
    #[must_use]
    pub fn after(events: &[Event]) -> Self {
        let mut holders = Self::default();
        events.iter().for_each(|event| holders.step(event));
        holders
    }

    /// Processes one more event.
    pub fn step(&mut self, event: &Event) {
        let done = succeeded(event);
        match event.op {
            Op::Lock | Op::TryLock | Op::ReadLock | Op::TryReadLock | Op::WriteLock | Op::TryWriteLock
                if done =>
            {
                self.take(event.addr, event.thread);
            }
            Op::Unlock | Op::RwUnlock if done => self.release(event.addr, event.thread),
            Op::CondWait if done => self.release(event.value, event.thread),
            // The mutex is held again however the wait ended.
            Op::CondWake => {
                if let Some(mutex) = event.waited_mutex() {
                    self.take(mutex, event.thread);
                }
            }
            _ => {}
        }
    }

    /// Returns the holders of the lock at this address in the order of acquisition; a recursive holder
    /// appears repeatedly.
    #[must_use]
    pub fn of(&self, lock: u64) -> &[ThreadIx] {
        self.held.get(&lock).map_or(&[], Vec::as_slice)
    }

    fn take(&mut self, lock: u64, thread: ThreadIx) {
        self.held.entry(lock).or_default().push(thread);
    }

    fn release(&mut self, lock: u64, thread: ThreadIx) {
        if let Some(threads) = self.held.get_mut(&lock)
            && let Some(at) = threads.iter().rposition(|&t| t == thread)
        {
            threads.remove(at);
            if threads.is_empty() {
                self.held.remove(&lock);
            }
        }
    }
}
