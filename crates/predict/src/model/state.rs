//! Who holds what between two events: the state that a window begins with, and what each event does to it.

use super::unseen::Unseen;
use crate::flaw::{Contradiction, Flaw};
use std::collections::BTreeMap;
use unsnarl_model::{Event, Flags, Op, ThreadIx};

/// The locks, waits and threads of a run so far.
///
/// It is the only place that knows how events take and give back locks, and the place where a trace that
/// contradicts itself is found out.
#[derive(Clone, Debug, Default)]
pub struct State {
    held: BTreeMap<u64, Vec<Holding>>,
    /// Who waits on a condition: with which mutex, taken how often.
    waiting: BTreeMap<ThreadIx, (u64, u32)>,
    lives: Vec<Life>,
    /// Who took the last token of each semaphore.
    pub(super) tokens: BTreeMap<u64, ThreadIx>,
    unseen: Unseen,
    /// The program is ending: what its last thread does then is no thread's any more.
    exiting: bool,
    events: u64,
}

/// A lock that a thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Who.
    pub thread: ThreadIx,
    /// Together with others, for reading.
    pub shared: bool,
    depth: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Life {
    created: bool,
    ran: bool,
    ended: bool,
    joined: bool,
}

/// What an event does to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It is taken; `blocks` if the thread waits for it where it is not free.
    Takes { lock: u64, shared: bool, blocks: bool },
    /// It is given back.
    Gives { lock: u64, shared: bool },
    /// It was not to be had at this moment.
    Refused { lock: u64, shared: bool },
}

impl Holding {
    /// How often it was taken without being given back.
    #[must_use]
    pub const fn depth(&self) -> u32 {
        self.depth
    }
}

impl State {
    /// How many events there were.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Every lock that is held, and by whom.
    pub fn holdings(&self) -> impl Iterator<Item = (u64, Holding)> + '_ {
        self.held.iter().flat_map(|(&lock, holdings)| holdings.iter().map(move |&holding| (lock, holding)))
    }

    /// Who waits on a condition, with which mutex, which it held how often.
    pub fn waits(&self) -> impl Iterator<Item = (ThreadIx, u64, u32)> + '_ {
        self.waiting.iter().map(|(&thread, &(mutex, depth))| (thread, mutex, depth))
    }

    /// Who took the last token of each semaphore that nobody has posted to since.
    pub fn semaphore_takers(&self) -> impl Iterator<Item = (u64, ThreadIx)> + '_ {
        self.tokens.iter().map(|(&semaphore, &thread)| (semaphore, thread))
    }

    /// Whether the last event's thread may have been ordered after all others by code that is not seen.
    pub(crate) const fn orders_unseen(&self) -> bool {
        self.unseen.orders
    }

    /// One more event.
    ///
    /// # Errors
    /// If it cannot have happened now.
    pub fn step(&mut self, event: &Event) -> Result<(), Flaw> {
        self.step_with(event, &mut |_| {})
    }

    /// One more event, and what it does to locks.
    pub(crate) fn step_with(&mut self, event: &Event, told: &mut dyn FnMut(Effect)) -> Result<(), Flaw> {
        let number = self.events;
        self.events += 1;
        self.unseen.step(event);
        self.effects(event, told).map_err(|what| Flaw { event: number, thread: event.thread, what })
    }

    fn effects(&mut self, event: &Event, told: &mut dyn FnMut(Effect)) -> Result<(), Contradiction> {
        let (thread, addr) = (event.thread, event.addr);
        self.exiting |= event.op == Op::Exit;
        let exiting = self.exiting;
        let life = self.life(thread);
        if life.joined && !exiting {
            return Err(Contradiction::RunsAfterJoin);
        }
        if life.ended && !exiting {
            return Err(Contradiction::RunsAfterEnd);
        }
        life.ran = true;
        let done = succeeded(event);
        match event.op {
            Op::Lock | Op::TryLock => {
                self.take(event, addr, false, event.op == Op::Lock, told)?;
            }
            Op::WriteLock | Op::TryWriteLock => {
                self.take(event, addr, false, event.op == Op::WriteLock, told)?;
            }
            Op::ReadLock | Op::TryReadLock => {
                self.take(event, addr, true, event.op == Op::ReadLock, told)?;
            }
            Op::Unlock | Op::RwUnlock if done => {
                self.give(thread, addr, told)?;
            }
            Op::CondWait if done => {
                let mutex = event.value;
                let mine = |holding: &&Holding| holding.thread == thread && !holding.shared;
                let held = self.held.get(&mutex).and_then(|all| all.iter().find(mine));
                let depth = held.ok_or(Contradiction::WaitsUnlocked(mutex))?.depth;
                self.held.remove(&mutex);
                self.waiting.insert(thread, (mutex, depth));
                told(Effect::Gives { lock: mutex, shared: false });
            }
            // However the wait ended, the mutex is held again.
            Op::CondWake => {
                let (mutex, depth) = self.waiting.remove(&thread).ok_or(Contradiction::NotWaiting)?;
                if let Some(holder) = self.in_the_way(mutex, thread, false) {
                    return Err(Contradiction::HeldByAnother { lock: mutex, holder });
                }
                self.held.insert(mutex, vec![Holding { thread, shared: false, depth }]);
                told(Effect::Takes { lock: mutex, shared: false, blocks: true });
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
                    let life = self.life(child);
                    // Some tools say it twice, before the thread runs.
                    if life.ran {
                        return Err(Contradiction::CreatesAgain(child));
                    }
                    life.created = true;
                }
            }
            Op::Join if done => self.join(event)?,
            Op::End => {
                self.life(thread).ended = true;
                // A robust mutex is free again; of another, nobody will hear any more.
                for (lock, shared) in self.drop_all(thread) {
                    told(Effect::Gives { lock, shared });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn life(&mut self, thread: ThreadIx) -> &mut Life {
        if self.lives.len() <= thread.index() {
            self.lives.resize(thread.index() + 1, Life::default());
        }
        &mut self.lives[thread.index()]
    }

    fn join(&mut self, event: &Event) -> Result<(), Contradiction> {
        let unknown = Contradiction::JoinsUnknown(event.value);
        let target = u16::try_from(event.value).map_err(|_| unknown)?;
        if ThreadIx(target) == event.thread {
            return Err(Contradiction::JoinsItself);
        }
        let life = self.lives.get_mut(usize::from(target)).filter(|life| life.created || life.ran);
        life.ok_or(unknown)?.joined = true;
        Ok(())
    }

    fn in_the_way(&self, lock: u64, thread: ThreadIx, shared: bool) -> Option<ThreadIx> {
        let others = self.held.get(&lock)?.iter().filter(|holding| holding.thread != thread);
        others.filter(|holding| !(holding.shared && shared)).map(|holding| holding.thread).next()
    }

    fn take(
        &mut self,
        event: &Event,
        lock: u64,
        shared: bool,
        blocks: bool,
        told: &mut dyn FnMut(Effect),
    ) -> Result<(), Contradiction> {
        let thread = event.thread;
        if !succeeded(event) {
            // An error of another kind than a lock that is taken says nothing about the lock.
            if self.in_the_way(lock, thread, shared).is_some() {
                told(Effect::Refused { lock, shared });
            }
            return Ok(());
        }
        if let Some(holder) = self.in_the_way(lock, thread, shared) {
            return Err(Contradiction::HeldByAnother { lock, holder });
        }
        let holdings = self.held.entry(lock).or_default();
        match holdings.iter_mut().find(|holding| holding.thread == thread) {
            Some(again) => again.depth += 1,
            None => {
                holdings.push(Holding { thread, shared, depth: 1 });
                told(Effect::Takes { lock, shared, blocks });
            }
        }
        Ok(())
    }

    fn give(
        &mut self,
        thread: ThreadIx,
        lock: u64,
        told: &mut dyn FnMut(Effect),
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
            told(Effect::Gives { lock, shared });
        }
        Ok(())
    }

    fn drop_all(&mut self, thread: ThreadIx) -> Vec<(u64, bool)> {
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

/// Whether an operation did what it is for.
pub(crate) const fn succeeded(event: &Event) -> bool {
    !event.flags.has(Flags::FAILED)
        && !event.flags.has(Flags::TIMED_OUT)
        && !event.flags.has(Flags::CANCELLED)
}
