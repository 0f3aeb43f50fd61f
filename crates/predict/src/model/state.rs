//! Lock holders between two events: the initial state of a window, and the effect of each event on it.

use super::uninstrumented::UninstrumentedOrder;
use crate::flaw::{Contradiction, Flaw};
use std::collections::BTreeMap;
use unsnarl_model::{Event, Op, ThreadIx};
use unsnarl_semantics::succeeded;

/// The locks, waits and threads of a run so far.
///
/// Only this type knows how events acquire and release locks, and it detects traces that contradict
/// themselves.
#[derive(Clone, Debug, Default)]
pub struct SyncState {
    held: BTreeMap<u64, Vec<Holding>>,
    /// By thread that waits on a condition: the mutex.
    waiting: BTreeMap<ThreadIx, u64>,
    lifecycles: Vec<ThreadLifecycle>,
    /// The thread that took the last token of each semaphore.
    pub(super) tokens: BTreeMap<u64, ThreadIx>,
    uninstrumented: UninstrumentedOrder,
    /// The program is exiting: later events of its last thread belong to no thread.
    exiting: bool,
    events: u64,
}

/// A lock that a thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    pub thread: ThreadIx,
    /// Held in shared mode, for reading.
    pub shared: bool,
    depth: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct ThreadLifecycle {
    created: bool,
    ran: bool,
    ended: bool,
    joined: bool,
}

/// The effect of an event on a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockEffect {
    /// It is acquired; `blocks` if the thread waits while it is not free.
    Takes { lock: u64, shared: bool, blocks: bool },
    /// It is released.
    Gives { lock: u64, shared: bool },
    /// It was not available at this moment.
    Refused { lock: u64, shared: bool },
}

impl SyncState {
    /// Returns the number of events.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Iterates over all held locks with their holders.
    pub fn holdings(&self) -> impl Iterator<Item = (u64, Holding)> + '_ {
        self.held.iter().flat_map(|(&lock, holdings)| holdings.iter().map(move |&holding| (lock, holding)))
    }

    /// Returns whether uninstrumented code may have ordered the last event's thread after all others.
    pub(crate) const fn may_be_ordered_by_uninstrumented(&self) -> bool {
        self.uninstrumented.orders
    }

    /// Processes one more event.
    ///
    /// # Errors
    /// Returns an error if the event cannot have happened now.
    pub fn step(&mut self, event: &Event) -> Result<(), Flaw> {
        self.step_with(event, &mut |_| {})
    }

    /// Processes one more event and emits its effects on locks.
    pub(crate) fn step_with(&mut self, event: &Event, emit: &mut dyn FnMut(LockEffect)) -> Result<(), Flaw> {
        let number = self.events;
        self.events += 1;
        self.uninstrumented.step(event);
        self.effects(event, emit).map_err(|contradiction| Flaw {
            event: number,
            thread: event.thread,
            contradiction,
        })
    }

    fn effects(&mut self, event: &Event, emit: &mut dyn FnMut(LockEffect)) -> Result<(), Contradiction> {
        let (thread, addr) = (event.thread, event.addr);
        self.exiting |= event.op == Op::Exit;
        let exiting = self.exiting;
        let lifecycle = self.lifecycle(thread);
        if lifecycle.joined && !exiting {
            return Err(Contradiction::EventAfterJoin);
        }
        if lifecycle.ended && !exiting {
            return Err(Contradiction::EventAfterEnd);
        }
        lifecycle.ran = true;
        let done = succeeded(event);
        match event.op {
            Op::Lock | Op::TryLock => {
                self.take(event, addr, false, event.op == Op::Lock, emit)?;
            }
            Op::WriteLock | Op::TryWriteLock => {
                self.take(event, addr, false, event.op == Op::WriteLock, emit)?;
            }
            Op::ReadLock | Op::TryReadLock => {
                self.take(event, addr, true, event.op == Op::ReadLock, emit)?;
            }
            Op::Unlock | Op::RwUnlock if done => {
                self.give(thread, addr, emit)?;
            }
            Op::CondWait if done => {
                let mutex = event.value;
                let mine = |holding: &&Holding| holding.thread == thread && !holding.shared;
                if !self.held.get(&mutex).is_some_and(|all| all.iter().any(|holding| mine(&holding))) {
                    return Err(Contradiction::WaitWithoutLock(mutex));
                }
                // One level of a recursive mutex is released: it may stay held.
                self.give(thread, mutex, emit)?;
                self.waiting.insert(thread, mutex);
            }
            // The mutex is held again however the wait ended.
            Op::CondWake => {
                let mutex = self.waiting.remove(&thread).ok_or(Contradiction::NotWaiting)?;
                self.acquire(thread, mutex, false, true, emit)?;
            }
            Op::SemWait | Op::SemTryWait if done => {
                self.tokens.insert(addr, thread);
            }
            Op::SemPost => {
                self.tokens.remove(&addr);
            }
            Op::LockInit | Op::RwInit => {
                self.held.remove(&addr);
            }
            Op::Create if done => {
                if let Ok(child) = u16::try_from(event.value).map(ThreadIx) {
                    let lifecycle = self.lifecycle(child);
                    // Some tools record the creation twice, before the thread runs.
                    if lifecycle.ran {
                        return Err(Contradiction::DuplicateCreation(child));
                    }
                    lifecycle.created = true;
                }
            }
            Op::Join if done => self.join(event)?,
            Op::End => {
                self.lifecycle(thread).ended = true;
                // A robust mutex is free again; any other is never used again.
                for (lock, shared) in self.release_all(thread) {
                    emit(LockEffect::Gives { lock, shared });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn lifecycle(&mut self, thread: ThreadIx) -> &mut ThreadLifecycle {
        if self.lifecycles.len() <= thread.index() {
            self.lifecycles.resize(thread.index() + 1, ThreadLifecycle::default());
        }
        &mut self.lifecycles[thread.index()]
    }

    fn join(&mut self, event: &Event) -> Result<(), Contradiction> {
        let unknown = Contradiction::JoinOfUnknownThread(event.value);
        let target = u16::try_from(event.value).map_err(|_| unknown)?;
        if ThreadIx(target) == event.thread {
            return Err(Contradiction::SelfJoin);
        }
        let lifecycle = self
            .lifecycles
            .get_mut(usize::from(target))
            .filter(|lifecycle| lifecycle.created || lifecycle.ran);
        lifecycle.ok_or(unknown)?.joined = true;
        Ok(())
    }

    fn blocking_holder(&self, lock: u64, thread: ThreadIx, shared: bool) -> Option<ThreadIx> {
        let others = self.held.get(&lock)?.iter().filter(|holding| holding.thread != thread);
        others.filter(|holding| !(holding.shared && shared)).map(|holding| holding.thread).next()
    }

    fn take(
        &mut self,
        event: &Event,
        lock: u64,
        shared: bool,
        blocks: bool,
        emit: &mut dyn FnMut(LockEffect),
    ) -> Result<(), Contradiction> {
        let thread = event.thread;
        if !succeeded(event) {
            // Any error other than a held lock reveals nothing about the lock.
            if self.blocking_holder(lock, thread, shared).is_some() {
                emit(LockEffect::Refused { lock, shared });
            }
            return Ok(());
        }
        self.acquire(thread, lock, shared, blocks, emit)
    }

    fn acquire(
        &mut self,
        thread: ThreadIx,
        lock: u64,
        shared: bool,
        blocks: bool,
        emit: &mut dyn FnMut(LockEffect),
    ) -> Result<(), Contradiction> {
        if let Some(holder) = self.blocking_holder(lock, thread, shared) {
            return Err(Contradiction::HeldByAnother { lock, holder });
        }
        let holdings = self.held.entry(lock).or_default();
        match holdings.iter_mut().find(|holding| holding.thread == thread) {
            Some(again) => again.depth += 1,
            None => {
                holdings.push(Holding { thread, shared, depth: 1 });
                emit(LockEffect::Takes { lock, shared, blocks });
            }
        }
        Ok(())
    }

    fn give(
        &mut self,
        thread: ThreadIx,
        lock: u64,
        emit: &mut dyn FnMut(LockEffect),
    ) -> Result<(), Contradiction> {
        let holdings = self.held.get_mut(&lock).ok_or(Contradiction::NotHeld(lock))?;
        let at = holdings.iter().position(|holding| holding.thread == thread);
        let at = at.ok_or(Contradiction::NotHeld(lock))?;
        holdings[at].depth -= 1;
        if holdings[at].depth == 0 {
            let shared = holdings.remove(at).shared;
            if holdings.is_empty() {
                self.held.remove(&lock);
            }
            emit(LockEffect::Gives { lock, shared });
        }
        Ok(())
    }

    fn release_all(&mut self, thread: ThreadIx) -> Vec<(u64, bool)> {
        let mut dropped = Vec::new();
        self.held.retain(|&lock, holdings| {
            holdings.retain(|holding| {
                let mine = holding.thread == thread;
                if mine {
                    dropped.push((lock, holding.shared));
                }
                !mine
            });
            !holdings.is_empty()
        });
        dropped
    }
}
