//! Who holds what.

use crate::{Event, Flags, Op, ThreadIx};
use alloc::{collections::BTreeMap, vec::Vec};

/// Who holds which lock, as events tell it one after the other.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    held: BTreeMap<u64, Vec<ThreadIx>>,
    /// The mutex that a thread gave up for a wait on a condition variable.
    waiting: BTreeMap<ThreadIx, u64>,
}

impl Holders {
    /// Who holds what after all these events.
    #[must_use]
    pub fn after(events: &[Event]) -> Self {
        let mut holders = Self::default();
        events.iter().for_each(|event| holders.step(event));
        holders
    }

    /// One more event.
    pub fn step(&mut self, event: &Event) {
        let failed = event.flags.has(Flags::FAILED) || event.flags.has(Flags::TIMED_OUT);
        match event.op {
            Op::Lock | Op::TryLock | Op::ReadLock | Op::TryReadLock | Op::WriteLock | Op::TryWriteLock
                if !failed =>
            {
                self.take(event.addr, event.thread);
            }
            Op::Unlock | Op::RwUnlock if !failed => self.release(event.addr, event.thread),
            Op::CondWait => {
                self.waiting.insert(event.thread, event.value);
                self.release(event.value, event.thread);
            }
            // However the wait ended, the mutex is held again.
            Op::CondWake => {
                if let Some(mutex) = self.waiting.remove(&event.thread) {
                    self.take(mutex, event.thread);
                }
            }
            _ => {}
        }
    }

    /// Who holds the lock at this address, in the order of taking; a recursive holder repeatedly.
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
