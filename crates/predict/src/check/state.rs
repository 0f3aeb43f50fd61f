//! The checker's own view of locks, waits and tokens. It is written independently of the model that produces
//! witnesses, so that an error in one of them shows.

use super::ok;
use std::collections::BTreeMap;
use unsnarl_model::{Event, Op, ThreadIx};

/// The locks, waits and tokens after some events.
#[derive(Clone, Debug, Default)]
pub struct CheckedState {
    events: u64,
    locks: BTreeMap<u64, Vec<LockHolder>>,
    /// By thread that waits on a condition: the mutex.
    waiting: BTreeMap<ThreadIx, u64>,
    /// By semaphore without a later post: the thread that took the last token.
    tokens: BTreeMap<u64, ThreadIx>,
}

#[derive(Clone, Copy, Debug)]
struct LockHolder {
    thread: ThreadIx,
    depth: u32,
    shared: bool,
}

impl CheckedState {
    /// Returns the number of events.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Processes one more event.
    ///
    /// # Errors
    /// Returns an error if the thread releases a lock that it does not hold.
    pub fn step(&mut self, event: &Event) -> Result<(), &'static str> {
        self.events += 1;
        let (thread, addr) = (event.thread, event.addr);
        match event.op {
            Op::Lock | Op::TryLock | Op::WriteLock | Op::TryWriteLock if ok(event) => {
                self.acquire(addr, thread, false);
            }
            Op::ReadLock | Op::TryReadLock if ok(event) => self.acquire(addr, thread, true),
            Op::Unlock | Op::RwUnlock if ok(event) => self.release(addr, thread)?,
            Op::CondWait if ok(event) => {
                self.release(event.value, thread)?;
                self.waiting.insert(thread, event.value);
            }
            Op::CondWake => {
                if let Some(mutex) = self.waiting.remove(&thread) {
                    self.acquire(mutex, thread, false);
                }
            }
            Op::SemWait | Op::SemTryWait if ok(event) => drop(self.tokens.insert(addr, thread)),
            Op::SemPost => drop(self.tokens.remove(&addr)),
            Op::LockInit | Op::RwInit => drop(self.locks.remove(&addr)),
            Op::End => {
                self.locks.values_mut().for_each(|holders| holders.retain(|holder| holder.thread != thread));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns whether the thread holds the lock.
    pub(super) fn holds(&self, thread: ThreadIx, lock: u64) -> bool {
        self.holders(lock).iter().any(|holder| holder.thread == thread)
    }

    /// Returns whether the thread took the semaphore's last token.
    pub(super) fn has_token(&self, thread: ThreadIx, semaphore: u64) -> bool {
        self.tokens.get(&semaphore) == Some(&thread)
    }

    /// Returns whether no other thread prevents this one from acquiring the lock.
    pub(super) fn is_free(&self, lock: u64, thread: ThreadIx, shared: bool) -> bool {
        let mut others = self.holders(lock).iter().filter(|holder| holder.thread != thread);
        others.all(|holder| holder.shared && shared)
    }

    /// Returns the mutex of a thread's wait on a condition.
    pub(super) fn awaited_mutex(&self, thread: ThreadIx) -> Option<u64> {
        self.waiting.get(&thread).copied()
    }

    fn holders(&self, lock: u64) -> &[LockHolder] {
        self.locks.get(&lock).map_or(&[], Vec::as_slice)
    }

    fn acquire(&mut self, lock: u64, thread: ThreadIx, shared: bool) {
        let holders = self.locks.entry(lock).or_default();
        match holders.iter_mut().find(|holder| holder.thread == thread) {
            Some(again) => again.depth += 1,
            None => holders.push(LockHolder { thread, depth: 1, shared }),
        }
    }

    fn release(&mut self, lock: u64, thread: ThreadIx) -> Result<(), &'static str> {
        let holders = self.locks.entry(lock).or_default();
        let mine = holders.iter().position(|holder| holder.thread == thread);
        let mine = mine.ok_or("it does not hold the lock")?;
        holders[mine].depth -= 1;
        if holders[mine].depth == 0 {
            holders.remove(mine);
        }
        Ok(())
    }
}
