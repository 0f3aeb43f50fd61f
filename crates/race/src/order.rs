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

use crate::{
    Epoch,
    clock::{ThreadTimes, VectorClock},
    succeeded,
    table::KeyTable,
};
use alloc::{collections::BTreeMap, vec::Vec};
use core::mem;
use unsnarl_model::{Event, Flags, Op, Order, ThreadIx};

/// Which edges the relation has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Edges {
    /// All that operations tell of.
    #[default]
    Observed,
    /// And all that code that is not instrumented may have made.
    Possible,
}

/// The happens-before relation of a run so far, and the same without the edges from the release of a lock to its next taking: which
/// critical section came first is chance.
#[derive(Debug, Default)]
pub struct HappensBefore {
    edges: Edges,
    now: ThreadTimes,
    threads: ThreadClocks,
    /// What is known at locks of all kinds, semaphores, once controls.
    objects: KeyTable<VectorClock>,
    /// What readers of a read-write lock released: writers learn it, other readers do not.
    readers: KeyTable<VectorClock>,
    /// What is known at a barrier in its rounds.
    rounds: BTreeMap<(u64, u64), VectorClock>,
    /// What is known at a thread's birth, and at its end.
    lives: KeyTable<VectorClock>,
    variables: KeyTable<AtomicVariable, 64>,
    /// The mutex that a waiting thread gave up.
    mutexes: BTreeMap<ThreadIx, u64>,
    wake_ups: WakeUps,
}

/// An atomic variable.
#[derive(Debug, Default)]
struct AtomicVariable {
    /// What whoever acquires it learns.
    known: VectorClock,
    /// How often it did not hold what was left there.
    foreign: u32,
}

/// Whatever descriptors lead to. Odd, so that it is no address of a lock.
const ANY_CHANNEL: u64 = u64::MAX;

/// All timers. No object is there.
const TIMERS: u64 = u64::MAX - 1;

#[derive(Debug, Default)]
struct ThreadClock {
    /// What of the others' past it knows; its own time in there is that of when it last told.
    clock: VectorClock,
    /// What relaxed loads have seen: known after the next acquire fence.
    seen: VectorClock,
    /// What relaxed stores publish: what was known at the last release fence.
    fenced: VectorClock,
    /// A relaxed load has seen a variable that others write unseen: it counts from the next acquire fence on.
    saw_foreign: bool,
}

impl ThreadClock {
    /// What it knows, and this moment of its own, is known there.
    ///
    /// The moment comes last: a clock of which a single time was just written could not be read without waiting for that.
    #[inline]
    fn publish(&mut self, now: Epoch, known: &mut VectorClock) {
        known.join(&self.clock);
        known.set(now);
        self.clock.set(now);
    }

    /// The same by a lock.
    #[inline]
    fn publish_by_lock(&mut self, now: Epoch, known: &mut VectorClock) {
        known.join_by_lock(&self.clock);
        known.set_by_lock(now);
        self.clock.set(now);
    }

    /// The same, and nothing else is known there.
    #[inline]
    fn publish_only(&mut self, now: Epoch, known: &mut VectorClock) {
        known.clone_from(&self.clock);
        known.set(now);
        self.clock.set(now);
    }
}

#[derive(Debug, Default)]
struct ThreadClocks(Vec<ThreadClock>);

impl ThreadClocks {
    #[inline]
    fn at(&mut self, thread: ThreadIx) -> &mut ThreadClock {
        if self.0.len() <= thread.index() {
            self.make_room(thread);
        }
        &mut self.0[thread.index()]
    }

    /// The thread knows what is known there, if anything is.
    #[inline]
    fn absorb(&mut self, thread: ThreadIx, known: Option<&mut VectorClock>) {
        if let Some(known) = known {
            self.at(thread).clock.join(known);
        }
    }

    /// The same by a lock.
    #[inline]
    fn absorb_by_lock(&mut self, thread: ThreadIx, known: Option<&mut VectorClock>) {
        if let Some(known) = known {
            self.at(thread).clock.join_by_lock(known);
        }
    }

    /// What the thread knows is known there; its time goes on.
    #[inline]
    fn publish_and_advance(&mut self, thread: ThreadIx, now: &mut ThreadTimes, known: &mut VectorClock) {
        self.at(thread).publish(now.of(thread), known);
        now.advance(thread);
    }

    /// The same by a lock.
    #[inline]
    fn publish_by_lock_and_advance(
        &mut self,
        thread: ThreadIx,
        now: &mut ThreadTimes,
        known: &mut VectorClock,
    ) {
        self.at(thread).publish_by_lock(now.of(thread), known);
        now.advance(thread);
    }

    #[cold]
    fn make_room(&mut self, thread: ThreadIx) {
        self.0.resize_with(thread.index() + 1, ThreadClock::default);
    }
}

/// Wake-ups that somebody may still wake from.
#[derive(Debug, Default)]
struct WakeUps {
    /// For so many threads, and until they have woken: never more than there are.
    counted: Vec<WakeUp>,
    /// What the senders of others knew, by the event.
    others: BTreeMap<u64, VectorClock>,
    /// Clocks of those that are over: the next ones need no memory.
    spare: Vec<VectorClock>,
}

#[derive(Debug)]
struct WakeUp {
    /// The event that sent it.
    event: u64,
    /// What its sender knew.
    known: VectorClock,
    /// How many it is still for.
    left: u64,
}

impl WakeUps {
    /// One of this thread's for so many; if that is not told, for as many as say so.
    fn send(&mut self, event: u64, from: &mut ThreadClock, now: Epoch, to: Option<u64>) {
        match to {
            Some(0) => {}
            Some(left) => {
                let mut known = self.spare.pop().unwrap_or_default();
                from.publish_only(now, &mut known);
                self.counted.push(WakeUp { event, known, left });
            }
            None => from.publish_only(now, self.others.entry(event).or_default()),
        }
    }

    fn wake(&mut self, by: u64, woken: &mut VectorClock) {
        let Some(at) = self.counted.iter().rposition(|wake_up| wake_up.event == by) else {
            if let Some(known) = self.others.get(&by) {
                woken.join(known);
            }
            return;
        };
        let WakeUp { known, left, .. } = &mut self.counted[at];
        woken.join(known);
        *left -= 1;
        if *left == 0 {
            self.spare.push(self.counted.swap_remove(at).known);
        }
    }
}

impl HappensBefore {
    /// The relation with these edges, before the first event.
    #[must_use]
    pub fn new(edges: Edges) -> Self {
        Self { edges, ..Self::default() }
    }

    /// The thread's present moment.
    #[must_use]
    #[inline]
    pub fn now(&mut self, thread: ThreadIx) -> Epoch {
        self.now.of(thread)
    }

    /// Whether that moment happened before the thread's present one.
    #[must_use]
    #[inline]
    pub fn before(&self, epoch: Epoch, thread: ThreadIx) -> bool {
        epoch.thread == thread || self.clock_of(thread).is_some_and(|past| past.includes(epoch))
    }

    /// The same without the edges of locks.
    #[must_use]
    #[inline]
    pub fn before_without_locks(&self, epoch: Epoch, thread: ThreadIx) -> bool {
        epoch.thread == thread || self.clock_of(thread).is_some_and(|past| past.includes_without_locks(epoch))
    }

    /// What the thread knows of others; none if it knows nothing.
    #[inline]
    pub(crate) fn clock_of(&self, thread: ThreadIx) -> Option<&VectorClock> {
        self.threads.0.get(thread.index()).map(|thread| &thread.clock)
    }

    /// One more event, with its number.
    #[inline]
    pub fn step(&mut self, event: &Event, number: u64) {
        let may_be_ordered = match event.op {
            Op::AtomicLoad | Op::AtomicStore | Op::AtomicRmw | Op::AtomicCas => self.operate(event),
            _ => {
                self.apply_observed(event, number);
                self.may_order_uninstrumented(event)
            }
        };
        if may_be_ordered {
            self.order_after_all(event.thread);
        }
    }

    /// Whether an event tells that its thread may have been ordered after others by code that is not seen.
    fn may_order_uninstrumented(&mut self, event: &Event) -> bool {
        match event.op {
            Op::FutexWake | Op::FutexRequeue | Op::FutexWoken => true,
            Op::FutexWait => !succeeded(event),
            Op::Fence => acquires(event.order) && mem::take(&mut self.threads.at(event.thread).saw_foreign),
            _ => false,
        }
    }

    /// The edges of an atomic operation on a variable, and whether code that is not seen may have ordered its thread after others.
    fn operate(&mut self, event: &Event) -> bool {
        let (thread, order) = (event.thread, event.order);
        let me = self.threads.at(thread);
        let variable = self.variables.at(event.addr);
        let loads = event.op != Op::AtomicStore;
        if loads {
            let learns = if acquires(order) { &mut me.clock } else { &mut me.seen };
            learns.join(&variable.known);
        }
        if matches!(event.op, Op::AtomicStore | Op::AtomicRmw)
            || event.op == Op::AtomicCas && succeeded(event)
        {
            // What also loads keeps a release sequence going.
            match (releases(order), loads) {
                (true, true) => me.publish(self.now.of(thread), &mut variable.known),
                (true, false) => me.publish_only(self.now.of(thread), &mut variable.known),
                (false, true) => variable.known.join(&me.fenced),
                (false, false) => variable.known.clone_from(&me.fenced),
            }
            if releases(order) {
                self.now.advance(thread);
            }
        }
        let found = event.flags.has(Flags::FOREIGN);
        variable.foreign += u32::from(found);
        // Where nothing was known of the variable, once is nothing yet. Where others write, they may also write what was
        // there before.
        let foreign = found || variable.foreign > 1;
        me.saw_foreign |= foreign;
        foreign && loads && acquires(order)
    }

    /// Everything that was done up to now is past for the thread. What anybody does from now on is not.
    #[inline]
    fn order_after_all(&mut self, thread: ThreadIx) {
        if self.edges == Edges::Possible {
            self.threads.at(thread).clock.join_all(&self.now);
        }
        self.now.advance_all();
    }

    /// The edges of an operation that is seen.
    fn apply_observed(&mut self, event: &Event, number: u64) {
        let (thread, addr) = (event.thread, event.addr);
        match event.op {
            Op::Start => self.threads.absorb(thread, self.lives.get(thread.0.into())),
            Op::Create if succeeded(event) => {
                self.threads.publish_and_advance(thread, &mut self.now, self.lives.at(event.value));
            }
            Op::End => {
                self.threads.publish_and_advance(thread, &mut self.now, self.lives.at(thread.0.into()))
            }
            Op::Join if succeeded(event) => self.threads.absorb(thread, self.lives.get(event.value)),
            Op::Lock | Op::TryLock if succeeded(event) => self.acquire_lock(thread, addr),
            Op::Unlock if succeeded(event) => self.release_lock(thread, addr),
            Op::ReadLock | Op::TryReadLock if succeeded(event) => self.acquire_lock(thread, addr),
            Op::WriteLock | Op::TryWriteLock if succeeded(event) => {
                self.acquire_lock(thread, addr);
                self.threads.absorb_by_lock(thread, self.readers.get(addr));
            }
            Op::RwUnlock if event.value != 1 => {
                self.threads.publish_by_lock_and_advance(thread, &mut self.now, self.readers.at(addr));
            }
            Op::RwUnlock => self.release_lock(thread, addr),
            Op::CondWait => {
                self.mutexes.insert(thread, event.value);
                self.release_lock(thread, event.value);
            }
            Op::CondWake => {
                if let Some(mutex) = self.mutexes.remove(&thread) {
                    self.acquire_lock(thread, mutex);
                }
                self.woken(thread, event.value);
            }
            Op::FutexWoken => self.woken(thread, event.value),
            Op::FutexWait if succeeded(event) => self.release(thread, addr),
            Op::FutexWake | Op::FutexRequeue => {
                self.acquire(thread, addr);
                // Of those that are only moved, somebody else's event may be the one that wakes them.
                let woken = (event.op == Op::FutexWake || event.value == 0).then_some(event.value);
                self.wake(thread, number, woken);
            }
            Op::Signal | Op::Broadcast => self.wake(thread, number, Some(event.value)),
            Op::SemPost | Op::SemInit => self.release(thread, addr),
            Op::OnceEnd => {
                // Compilers look at the guard of a static by an atomic load before they call anybody.
                self.threads.publish_and_advance(thread, &mut self.now, &mut self.variables.at(addr).known);
                self.release(thread, addr);
            }
            Op::SemWait | Op::SemTryWait | Op::OncePass | Op::OnceBegin if succeeded(event) => {
                self.acquire(thread, addr);
            }
            Op::BarrierArrive => {
                let round = self.rounds.entry((addr, event.value)).or_default();
                self.threads.publish_and_advance(thread, &mut self.now, round);
            }
            Op::BarrierLeave => self.threads.absorb(thread, self.rounds.get_mut(&(addr, event.value))),
            Op::Fence => self.fence(event),
            // What is written was done before it is read. A wait may have been for anything that was written anywhere.
            Op::FdWrite | Op::FdClose | Op::FdConnect => {
                self.release(thread, addr);
                self.release(thread, ANY_CHANNEL);
            }
            // Whoever starts a child did all that before somebody learns of its end.
            Op::FdRead | Op::FdAccept | Op::FileLock | Op::ChildStart | Op::ChildWait => {
                self.acquire(thread, addr);
                if matches!(event.op, Op::FileLock | Op::ChildStart) {
                    self.release(thread, addr);
                }
            }
            Op::FdWait => self.acquire(thread, ANY_CHANNEL),
            // A handler comes after it was installed and after its signal was sent.
            Op::SigAction => self.release(thread, addr),
            Op::SigSend => self.wake(thread, number, None),
            Op::SigHandle | Op::SigWait => {
                self.acquire(thread, addr);
                self.woken(thread, event.value);
            }
            Op::TimerSet => self.release(thread, TIMERS),
            Op::TimerFire => {
                self.acquire(thread, TIMERS);
                self.wake(thread, number, None);
            }
            _ => {}
        }
    }

    fn acquire_lock(&mut self, thread: ThreadIx, lock: u64) {
        self.threads.absorb_by_lock(thread, self.objects.get(lock));
    }

    fn release_lock(&mut self, thread: ThreadIx, lock: u64) {
        self.threads.publish_by_lock_and_advance(thread, &mut self.now, self.objects.at(lock));
    }

    fn acquire(&mut self, thread: ThreadIx, object: u64) {
        self.threads.absorb(thread, self.objects.get(object));
    }

    fn release(&mut self, thread: ThreadIx, object: u64) {
        self.threads.publish_and_advance(thread, &mut self.now, self.objects.at(object));
    }

    /// Wakes so many; if that is not told, as many as say so.
    fn wake(&mut self, thread: ThreadIx, number: u64, to: Option<u64>) {
        self.wake_ups.send(number, self.threads.at(thread), self.now.of(thread), to);
        self.now.advance(thread);
    }

    fn woken(&mut self, thread: ThreadIx, by: u64) {
        self.wake_ups.wake(by, &mut self.threads.at(thread).clock);
    }

    fn fence(&mut self, event: &Event) {
        let thread = event.thread;
        let me = self.threads.at(thread);
        if acquires(event.order) {
            me.clock.join(&me.seen);
        }
        if releases(event.order) {
            let ThreadClock { clock, fenced, .. } = me;
            fenced.clone_from(clock);
            fenced.set(self.now.of(thread));
            clock.set(self.now.of(thread));
            self.now.advance(thread);
        }
    }
}

const fn acquires(order: Order) -> bool {
    matches!(order, Order::Consume | Order::Acquire | Order::AcqRel | Order::SeqCst)
}

const fn releases(order: Order) -> bool {
    matches!(order, Order::Release | Order::AcqRel | Order::SeqCst)
}
