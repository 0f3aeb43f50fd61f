//! Happens-before: the edges of every modelled operation.
//!
//! A release publishes the thread's clock at an object; an acquire joins the object's clock. Locks, threads,
//! semaphores, barriers, once controls and atomics are objects. Wake-ups of conditions and futexes are edges
//! from the waking event to the wait that it ended.
//!
//! Uninstrumented code, such as Rust's precompiled standard library, orders threads invisibly: the slow path
//! of a mutex, or the mutex inside a wait on a condition. It is recognised by its futexes, and by atomic
//! variables whose value differs from the last one that instrumented code stored ([`unsnarl_model::Flags::FOREIGN`]),
//! and by calls of functions that are known to synchronise ([`unsnarl_model::Flags::MAY_BE_ORDERED`]). Every
//! edge that it may have made counts ([`Edges::Possible`]): a thread that executed such code comes after
//! everything done up to then. That hides a race only if the thread executes such code between the two
//! accesses. A search or a witness that makes them adjacent still finds the race.
//!
//! Atomics follow C11: a release store begins a release sequence, read-modify-write operations continue it, a
//! relaxed store of any thread ends it; fences make the relaxed operations around them synchronise.

use crate::{
    Epoch,
    clock::{ThreadTimes, VectorClock},
    table::KeyTable,
};
use alloc::{collections::BTreeMap, vec::Vec};
use core::mem;
use unsnarl_model::{Order, ThreadIx};
use unsnarl_semantics::{AtomicEdge, Edge, Step, SyncPoint, acquires, edges, releases};

/// The edges that the relation includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Edges {
    /// The edges of observed operations.
    #[default]
    Observed,
    /// In addition, all edges that uninstrumented code may have made.
    Possible,
}

/// The happens-before relation of a run so far. It is also kept without the edges from the release of a lock
/// to its next acquisition: the order of critical sections is arbitrary.
#[derive(Debug, Default)]
pub struct HappensBefore {
    edges: Edges,
    now: ThreadTimes,
    threads: ThreadClocks,
    /// The clocks of locks of all kinds, semaphores and once controls.
    objects: KeyTable<VectorClock>,
    /// The clocks released by readers of a read-write lock: writers acquire them, other readers do not.
    readers: KeyTable<VectorClock>,
    /// The clocks of barriers by round.
    rounds: BTreeMap<(u64, u64), VectorClock>,
    /// The clocks of threads at creation and at their end.
    lives: KeyTable<VectorClock>,
    variables: KeyTable<AtomicVariable, 64>,
    wake_ups: WakeUpClocks,
}

/// An atomic variable.
#[derive(Debug, Default)]
struct AtomicVariable {
    /// The clock that an acquire of the variable joins.
    known: VectorClock,
    /// The number of times that the variable had an unexpected value.
    foreign: u32,
}

/// Stands for every channel behind descriptors. It is odd, so it cannot be the address of a lock.
const ANY_CHANNEL: u64 = u64::MAX;

/// Stands for all timers. No object has this address.
const TIMERS: u64 = u64::MAX - 1;

#[derive(Debug, Default)]
struct ThreadClock {
    /// The thread's clock; its own time in there is that of its last release.
    clock: VectorClock,
    /// Clocks seen by relaxed loads: they take effect at the next acquire fence.
    seen: VectorClock,
    /// The clock that relaxed stores publish: that of the last release fence.
    fenced: VectorClock,
    /// A relaxed load has seen a variable that uninstrumented code writes; takes effect at the next acquire
    /// fence.
    saw_foreign: bool,
}

impl ThreadClock {
    /// Publishes the thread's clock and its current epoch.
    ///
    /// The epoch is set last: reading a clock as a whole right after a single time in it was written would
    /// stall.
    #[inline]
    fn publish(&mut self, now: Epoch, known: &mut VectorClock) {
        known.join(&self.clock);
        known.set(now);
        self.clock.set(now);
    }

    /// Like [`Self::publish`], but by an edge of a lock.
    #[inline]
    fn publish_by_lock(&mut self, now: Epoch, known: &mut VectorClock) {
        known.join_by_lock(&self.clock);
        known.set_by_lock(now);
        self.clock.set(now);
    }

    /// Like [`Self::publish`], but replaces the contents of `known`.
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
            self.grow(thread);
        }
        &mut self.0[thread.index()]
    }

    /// Joins `known`, if there is one, into the thread's clock.
    #[inline]
    fn absorb(&mut self, thread: ThreadIx, known: Option<&mut VectorClock>) {
        if let Some(known) = known {
            self.at(thread).clock.join(known);
        }
    }

    /// Like [`Self::absorb`], but by an edge of a lock.
    #[inline]
    fn absorb_by_lock(&mut self, thread: ThreadIx, known: Option<&mut VectorClock>) {
        if let Some(known) = known {
            self.at(thread).clock.join_by_lock(known);
        }
    }

    /// Publishes the thread's clock and advances its time.
    #[inline]
    fn publish_and_advance(&mut self, thread: ThreadIx, now: &mut ThreadTimes, known: &mut VectorClock) {
        self.at(thread).publish(now.of(thread), known);
        now.advance(thread);
    }

    /// Like [`Self::publish_and_advance`], but by an edge of a lock.
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
    fn grow(&mut self, thread: ThreadIx) {
        self.0.resize_with(thread.index() + 1, ThreadClock::default);
    }
}

/// Wake-ups that may still have waiters to wake.
#[derive(Debug, Default)]
struct WakeUpClocks {
    /// Wake-ups for a known number of threads, until these have woken; never more than there are threads.
    counted: Vec<WakeUpClock>,
    /// The clocks of the senders of all other wake-ups, by event.
    others: BTreeMap<u64, VectorClock>,
    /// Clocks of completed wake-ups, reused to avoid allocation.
    spare: Vec<VectorClock>,
}

#[derive(Debug)]
struct WakeUpClock {
    event: u64,
    /// The clock of the sender.
    known: VectorClock,
    /// The number of threads still to wake.
    left: u64,
}

impl WakeUpClocks {
    /// Records a wake-up of this thread for `to` waiters; if unknown, for every waiter that names the event.
    fn send(&mut self, event: u64, from: &mut ThreadClock, now: Epoch, to: Option<u64>) {
        match to {
            Some(0) => {}
            Some(left) => {
                let mut known = self.spare.pop().unwrap_or_default();
                from.publish_only(now, &mut known);
                self.counted.push(WakeUpClock { event, known, left });
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
        let WakeUpClock { known, left, .. } = &mut self.counted[at];
        woken.join(known);
        *left -= 1;
        if *left == 0 {
            self.spare.push(self.counted.swap_remove(at).known);
        }
    }
}

impl HappensBefore {
    /// Builds the relation with these edges, before the first event.
    #[must_use]
    pub fn new(edges: Edges) -> Self {
        Self { edges, ..Self::default() }
    }

    /// Returns the thread's current epoch.
    #[must_use]
    #[inline]
    pub fn now(&mut self, thread: ThreadIx) -> Epoch {
        self.now.of(thread)
    }

    /// Returns whether that epoch happened before the thread's current one.
    #[must_use]
    #[inline]
    pub fn before(&self, epoch: Epoch, thread: ThreadIx) -> bool {
        epoch.thread == thread || self.clock_of(thread).is_some_and(|past| past.includes(epoch))
    }

    /// Like [`Self::before`], without the edges of locks.
    #[must_use]
    #[inline]
    pub fn before_without_locks(&self, epoch: Epoch, thread: ThreadIx) -> bool {
        epoch.thread == thread || self.clock_of(thread).is_some_and(|past| past.includes_without_locks(epoch))
    }

    /// Returns the thread's clock; `None` if it has not synchronised yet.
    #[inline]
    pub(crate) fn clock_of(&self, thread: ThreadIx) -> Option<&VectorClock> {
        self.threads.0.get(thread.index()).map(|thread| &thread.clock)
    }

    /// Processes one more step.
    #[inline]
    pub fn step(&mut self, step: &Step) {
        let thread = step.thread;
        edges(step, |edge| match edge {
            Edge::Atomic(access) => self.operate(thread, access),
            Edge::Acquire(SyncPoint::Lock(lock)) => self.acquire_lock(thread, lock),
            Edge::Release(SyncPoint::Lock(lock)) => self.release_lock(thread, lock),
            Edge::Acquire(SyncPoint::Readers(lock)) => {
                self.threads.absorb_by_lock(thread, self.readers.get(lock));
            }
            Edge::Release(SyncPoint::Readers(lock)) => {
                self.threads.publish_by_lock_and_advance(thread, &mut self.now, self.readers.at(lock));
            }
            Edge::Acquire(point) => self.acquire(thread, point),
            Edge::Release(point) => self.release(thread, point),
            Edge::Woken(by) => self.wake_ups.wake(by, &mut self.threads.at(thread).clock),
            Edge::Wakes(to) => self.wake(thread, step.number, to),
            Edge::Fence(order) => self.fence(thread, order),
            Edge::Unobserved => self.order_after_all(thread),
        });
    }

    /// Applies the edges of an atomic operation, and those that uninstrumented code may have made by the variable.
    fn operate(&mut self, thread: ThreadIx, access: AtomicEdge) {
        let AtomicEdge { variable, loads, stores, order, foreign: found } = access;
        let me = self.threads.at(thread);
        let variable = self.variables.at(variable);
        if loads {
            let learns = if acquires(order) { &mut me.clock } else { &mut me.seen };
            learns.join(&variable.known);
        }
        if stores {
            // A read-modify-write continues the release sequence.
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
        variable.foreign += u32::from(found);
        // A first unexpected value proves nothing if the variable was unknown before. Uninstrumented code
        // that writes the variable may also write back the old value.
        let foreign = found || variable.foreign > 1;
        me.saw_foreign |= foreign;
        if foreign && loads && acquires(order) {
            self.order_after_all(thread);
        }
    }

    /// Orders everything done up to now before the thread, but nothing that is done later: uninstrumented code may
    /// have done so.
    #[inline]
    pub fn order_after_all(&mut self, thread: ThreadIx) {
        if self.edges == Edges::Possible {
            self.threads.at(thread).clock.join_all(&self.now);
        }
        self.now.advance_all();
    }

    fn acquire_lock(&mut self, thread: ThreadIx, lock: u64) {
        self.threads.absorb_by_lock(thread, self.objects.get(lock));
    }

    fn release_lock(&mut self, thread: ThreadIx, lock: u64) {
        self.threads.publish_by_lock_and_advance(thread, &mut self.now, self.objects.at(lock));
    }

    fn acquire(&mut self, thread: ThreadIx, point: SyncPoint) {
        let known = match point {
            SyncPoint::Lock(object) | SyncPoint::Object(object) => self.objects.get(object),
            SyncPoint::Readers(lock) => self.readers.get(lock),
            SyncPoint::Life(of) => self.lives.get(of),
            SyncPoint::Round(barrier, round) => self.rounds.get_mut(&(barrier, round)),
            SyncPoint::Guard(guard) => self.variables.get(guard).map(|variable| &mut variable.known),
            SyncPoint::AnyChannel => self.objects.get(ANY_CHANNEL),
            SyncPoint::Timers => self.objects.get(TIMERS),
        };
        self.threads.absorb(thread, known);
    }

    fn release(&mut self, thread: ThreadIx, point: SyncPoint) {
        let known = match point {
            SyncPoint::Lock(object) | SyncPoint::Object(object) => self.objects.at(object),
            SyncPoint::Readers(lock) => self.readers.at(lock),
            SyncPoint::Life(of) => self.lives.at(of),
            SyncPoint::Round(barrier, round) => self.rounds.entry((barrier, round)).or_default(),
            SyncPoint::Guard(guard) => &mut self.variables.at(guard).known,
            SyncPoint::AnyChannel => self.objects.at(ANY_CHANNEL),
            SyncPoint::Timers => self.objects.at(TIMERS),
        };
        self.threads.publish_and_advance(thread, &mut self.now, known);
    }

    /// Wakes `to` waiters; if unknown, every waiter that names the event.
    fn wake(&mut self, thread: ThreadIx, number: u64, to: Option<u64>) {
        self.wake_ups.send(number, self.threads.at(thread), self.now.of(thread), to);
        self.now.advance(thread);
    }

    /// Applies a fence, and the edges that uninstrumented code may have made before it.
    fn fence(&mut self, thread: ThreadIx, order: Order) {
        let me = self.threads.at(thread);
        let saw_foreign = acquires(order) && mem::take(&mut me.saw_foreign);
        if acquires(order) {
            me.clock.join(&me.seen);
        }
        if releases(order) {
            let ThreadClock { clock, fenced, .. } = me;
            fenced.clone_from(clock);
            fenced.set(self.now.of(thread));
            clock.set(self.now.of(thread));
            self.now.advance(thread);
        }
        if saw_foreign {
            self.order_after_all(thread);
        }
    }
}
