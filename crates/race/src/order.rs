//! What happens before what: the edges of every modelled operation.
//!
//! A release makes what the thread knows known at an object; an acquire learns what is known there. Locks,
//! threads, semaphores, barriers, once controls and atomics are objects. Wake-ups of conditions and futexes go
//! from the event that sent them to the wait that they ended.
//!
//! Code that is not instrumented, such as Rust's standard library, which comes compiled, orders threads unseen: the
//! slow path of a mutex, or the mutex inside of a wait on a condition. It gives itself away by its futexes, and by
//! atomic variables that hold something else than instrumented code has left there ([`Flags::FOREIGN`]). Whatever
//! it may have ordered counts as ordered ([`Edges::Possible`]): a thread that has been there comes after all that was done
//! up to then. That hides a race only if the thread goes there between the two accesses. A search or a
//! witness that puts them side by side finds it all the same.
//!
//! Atomics follow C11: a release store begins a release sequence, read-modify-write operations continue it, a
//! relaxed store of whatever thread ends it; fences make the relaxed operations around them synchronise.

use crate::{Clock, Epoch, succeeded};
use alloc::{collections::BTreeMap, vec::Vec};
use core::mem;
use unsnarl_model::{Event, Flags, Op, Order, ThreadIx};

/// Which edges the relation has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Edges {
    /// All that operations tell of.
    #[default]
    Seen,
    /// And all that code that is not instrumented may have made.
    Possible,
    /// Not those from the release of a lock to its next taking: which critical section came first is chance.
    /// What is left orders less, but its moments are the same, so that they can be compared with both.
    WithoutLocks,
}

/// The happens-before relation of a run so far.
#[derive(Debug, Default)]
pub struct HappensBefore {
    edges: Edges,
    threads: Threads,
    /// What is known at each object.
    objects: BTreeMap<(Space, u64), Clock>,
    /// The mutex that a waiting thread gave up.
    mutexes: BTreeMap<ThreadIx, u64>,
    wake_ups: WakeUps,
    /// Variables that did not hold what was left there, and how often.
    foreign: BTreeMap<u64, u32>,
}

/// Whose time went on with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// At most that of the event's thread.
    One,
    /// Everybody's.
    All,
}

/// Whatever descriptors lead to. Odd, so that it is no address of a lock.
const ANY_CHANNEL: u64 = u64::MAX;

/// All timers. No object is there.
const TIMERS: u64 = u64::MAX - 1;

/// The same address can be several objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    /// Locks of all kinds, semaphores, once controls.
    Object,
    /// What readers of a read-write lock released: writers learn it, other readers do not.
    Readers,
    /// A barrier's round.
    Round(u64),
    /// A thread's life: by its number.
    Life,
    /// An atomic variable.
    Variable,
}

#[derive(Debug, Default)]
struct Thread {
    clock: Clock,
    /// What relaxed loads have seen: known after the next acquire fence.
    seen: Clock,
    /// What relaxed stores publish: what was known at the last release fence.
    fenced: Clock,
    /// A relaxed load has seen a variable that others write unseen: it counts from the next acquire fence on.
    saw_foreign: bool,
}

#[derive(Debug, Default)]
struct Threads(Vec<Thread>);

impl Threads {
    /// The thread, whose time begins with the first that is asked about it.
    #[inline]
    fn at(&mut self, thread: ThreadIx) -> &mut Thread {
        if self.0.len() <= thread.index() {
            self.begin_up_to(thread);
        }
        &mut self.0[thread.index()]
    }

    #[cold]
    fn begin_up_to(&mut self, thread: ThreadIx) {
        for ix in (self.0.len()..=thread.index()).map(|ix| ThreadIx(ix as u16)) {
            let mut new = Thread::default();
            new.clock.advance(ix);
            self.0.push(new);
        }
    }
}

/// Wake-ups that somebody may still wake from.
#[derive(Debug, Default)]
struct WakeUps {
    /// By the event that sent them.
    sent: BTreeMap<u64, WakeUp>,
    /// Clocks of those that are over: the next ones need no memory.
    spare: Vec<Clock>,
}

#[derive(Debug)]
struct WakeUp {
    /// What its sender knew.
    known: Clock,
    /// How many it is still for, if that is told.
    left: Option<u64>,
}

impl WakeUps {
    fn send(&mut self, event: u64, known: &Clock, to: Option<u64>) {
        if to != Some(0) {
            let mut kept = self.spare.pop().unwrap_or_default();
            kept.clone_from(known);
            self.sent.insert(event, WakeUp { known: kept, left: to });
        }
    }

    fn wake(&mut self, by: u64, woken: &mut Clock) {
        let Some(WakeUp { known, left }) = self.sent.get_mut(&by) else { return };
        woken.join(known);
        *left = left.map(|left| left.saturating_sub(1));
        if *left == Some(0) {
            self.spare.extend(self.sent.remove(&by).map(|over| over.known));
        }
    }
}

impl HappensBefore {
    /// The relation with these edges, before the first event.
    #[must_use]
    pub fn with(edges: Edges) -> Self {
        Self { edges, ..Self::default() }
    }

    /// The thread's present moment.
    #[must_use]
    pub fn now(&mut self, thread: ThreadIx) -> Epoch {
        Epoch { thread, time: self.threads.at(thread).clock.of(thread) }
    }

    /// Whether that moment happened before the thread's present one.
    #[must_use]
    #[inline]
    pub fn before(&self, epoch: Epoch, thread: ThreadIx) -> bool {
        self.threads.0.get(thread.index()).is_some_and(|t| t.clock.knows(epoch))
    }

    /// One more event, with its number.
    pub fn step(&mut self, event: &Event, number: u64) -> Advanced {
        self.seen(event, number);
        if !self.may_order_unseen(event) {
            return Advanced::One;
        }
        self.after_all(event.thread);
        Advanced::All
    }

    /// Whether an event tells that its thread may have been ordered after others by code that is not seen.
    fn may_order_unseen(&mut self, event: &Event) -> bool {
        match event.op {
            Op::FutexWake | Op::FutexRequeue | Op::FutexWoken => true,
            Op::FutexWait => !succeeded(event),
            Op::AtomicLoad | Op::AtomicStore | Op::AtomicRmw | Op::AtomicCas => {
                let found = event.flags.has(Flags::FOREIGN);
                if found {
                    *self.foreign.entry(event.addr).or_default() += 1;
                }
                // Where nothing was known of the variable, once is nothing yet. Where others write, they may also
                // write what was there before.
                let foreign = found || self.foreign.get(&event.addr).is_some_and(|&often| often > 1);
                self.threads.at(event.thread).saw_foreign |= foreign;
                foreign && event.op != Op::AtomicStore && acquires(event.order)
            }
            Op::Fence => acquires(event.order) && mem::take(&mut self.threads.at(event.thread).saw_foreign),
            _ => false,
        }
    }

    /// Everything that was done up to now is past for the thread.
    fn after_all(&mut self, thread: ThreadIx) {
        let mut mine = mem::take(&mut self.threads.at(thread).clock);
        mine.advance(thread);
        for (ix, other) in (0..).map(ThreadIx).zip(&mut self.threads.0).filter(|(ix, _)| *ix != thread) {
            if self.edges == Edges::Possible {
                mine.join(&other.clock);
            }
            // What the others do from now on is not.
            other.clock.advance(ix);
        }
        self.threads.at(thread).clock = mine;
    }

    /// The edges of an operation that is seen.
    fn seen(&mut self, event: &Event, number: u64) {
        let (thread, addr) = (event.thread, event.addr);
        match event.op {
            Op::Start => self.acquire(thread, Space::Life, thread.0.into()),
            Op::Create if succeeded(event) => {
                self.release(thread, Space::Life, event.value);
                // Its time begins here, whoever asks first.
                if let Ok(child) = u16::try_from(event.value) {
                    self.threads.at(ThreadIx(child));
                }
            }
            Op::End => self.release(thread, Space::Life, thread.0.into()),
            Op::Join if succeeded(event) => self.acquire(thread, Space::Life, event.value),
            Op::Lock | Op::TryLock if succeeded(event) => self.take_lock(thread, Space::Object, addr),
            Op::Unlock if succeeded(event) => self.give_lock(thread, Space::Object, addr),
            Op::ReadLock | Op::TryReadLock if succeeded(event) => self.take_lock(thread, Space::Object, addr),
            Op::WriteLock | Op::TryWriteLock if succeeded(event) => {
                self.take_lock(thread, Space::Object, addr);
                self.take_lock(thread, Space::Readers, addr);
            }
            Op::RwUnlock if event.value == 1 => self.give_lock(thread, Space::Object, addr),
            Op::RwUnlock => self.give_lock(thread, Space::Readers, addr),
            Op::CondWait => {
                self.mutexes.insert(thread, event.value);
                self.give_lock(thread, Space::Object, event.value);
            }
            Op::CondWake => {
                if let Some(mutex) = self.mutexes.remove(&thread) {
                    self.take_lock(thread, Space::Object, mutex);
                }
                self.woken(thread, event.value);
            }
            Op::FutexWoken => self.woken(thread, event.value),
            Op::FutexWait if succeeded(event) => self.release(thread, Space::Object, addr),
            Op::FutexWake | Op::FutexRequeue => {
                self.acquire(thread, Space::Object, addr);
                // Of those that are only moved, somebody else's event may be the one that wakes them.
                let woken = (event.op == Op::FutexWake || event.value == 0).then_some(event.value);
                self.wake(thread, number, woken);
            }
            Op::Signal | Op::Broadcast => self.wake(thread, number, Some(event.value)),
            Op::SemPost | Op::SemInit => self.release(thread, Space::Object, addr),
            Op::OnceEnd => {
                // Compilers look at the guard of a static by an atomic load before they call anybody.
                self.release(thread, Space::Variable, addr);
                self.release(thread, Space::Object, addr);
            }
            Op::SemWait | Op::SemTryWait | Op::OncePass | Op::OnceBegin if succeeded(event) => {
                self.acquire(thread, Space::Object, addr);
            }
            Op::BarrierArrive => self.release(thread, Space::Round(event.value), addr),
            Op::BarrierLeave => self.acquire(thread, Space::Round(event.value), addr),
            Op::AtomicLoad => self.load(event),
            Op::AtomicStore => self.store(event, false),
            Op::AtomicRmw => {
                self.load(event);
                self.store(event, true);
            }
            Op::AtomicCas => {
                self.load(event);
                if succeeded(event) {
                    self.store(event, true);
                }
            }
            Op::Fence => self.fence(event),
            // What is written was done before it is read. A wait may have been for anything that was written anywhere.
            Op::FdWrite | Op::FdClose | Op::FdConnect => {
                self.release(thread, Space::Object, addr);
                self.release(thread, Space::Object, ANY_CHANNEL);
            }
            // Whoever starts a child did all that before somebody learns of its end.
            Op::FdRead | Op::FdAccept | Op::FileLock | Op::ChildStart | Op::ChildWait => {
                self.acquire(thread, Space::Object, addr);
                if matches!(event.op, Op::FileLock | Op::ChildStart) {
                    self.release(thread, Space::Object, addr);
                }
            }
            Op::FdWait => self.acquire(thread, Space::Object, ANY_CHANNEL),
            // A handler comes after it was installed and after its signal was sent.
            Op::SigAction => self.release(thread, Space::Object, addr),
            Op::SigSend => self.wake(thread, number, None),
            Op::SigHandle | Op::SigWait => {
                self.acquire(thread, Space::Object, addr);
                self.woken(thread, event.value);
            }
            Op::TimerSet => self.release(thread, Space::Object, TIMERS),
            Op::TimerFire => {
                self.acquire(thread, Space::Object, TIMERS);
                self.wake(thread, number, None);
            }
            _ => {}
        }
    }

    fn take_lock(&mut self, thread: ThreadIx, space: Space, lock: u64) {
        if self.edges != Edges::WithoutLocks {
            self.acquire(thread, space, lock);
        }
    }

    fn give_lock(&mut self, thread: ThreadIx, space: Space, lock: u64) {
        match self.edges {
            Edges::Seen | Edges::Possible => self.release(thread, space, lock),
            Edges::WithoutLocks => self.threads.at(thread).clock.advance(thread),
        }
    }

    fn acquire(&mut self, thread: ThreadIx, space: Space, object: u64) {
        if let Some(known) = self.objects.get(&(space, object)) {
            self.threads.at(thread).clock.join(known);
        }
    }

    fn release(&mut self, thread: ThreadIx, space: Space, object: u64) {
        let me = self.threads.at(thread);
        self.objects.entry((space, object)).or_default().join(&me.clock);
        me.clock.advance(thread);
    }

    /// Wakes so many; if that is not told, as many as say so.
    fn wake(&mut self, thread: ThreadIx, number: u64, to: Option<u64>) {
        let me = self.threads.at(thread);
        self.wake_ups.send(number, &me.clock, to);
        me.clock.advance(thread);
    }

    fn woken(&mut self, thread: ThreadIx, by: u64) {
        self.wake_ups.wake(by, &mut self.threads.at(thread).clock);
    }

    fn load(&mut self, event: &Event) {
        if let Some(known) = self.objects.get(&(Space::Variable, event.addr)) {
            let me = self.threads.at(event.thread);
            let learns = if acquires(event.order) { &mut me.clock } else { &mut me.seen };
            learns.join(known);
        }
    }

    /// A store; `continues` if it is part of an update, which keeps a release sequence going.
    fn store(&mut self, event: &Event, continues: bool) {
        let me = self.threads.at(event.thread);
        let variable = self.objects.entry((Space::Variable, event.addr)).or_default();
        let published = if releases(event.order) { &me.clock } else { &me.fenced };
        if continues {
            variable.join(published);
        } else {
            variable.clone_from(published);
        }
        if releases(event.order) {
            me.clock.advance(event.thread);
        }
    }

    fn fence(&mut self, event: &Event) {
        let thread = event.thread;
        let me = self.threads.at(thread);
        if acquires(event.order) {
            me.clock.join(&me.seen);
        }
        if releases(event.order) {
            me.fenced.clone_from(&me.clock);
            me.clock.advance(thread);
        }
    }
}

const fn acquires(order: Order) -> bool {
    matches!(order, Order::Consume | Order::Acquire | Order::AcqRel | Order::SeqCst)
}

const fn releases(order: Order) -> bool {
    matches!(order, Order::Release | Order::AcqRel | Order::SeqCst)
}
