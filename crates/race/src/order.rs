//! Happens-before: the edges of every modelled operation.
//!
//! A release publishes the thread's clock at an object; an acquire joins the object's clock. Locks, threads,
//! semaphores, barriers, once controls and atomics are objects. Wake-ups of conditions and futexes are edges
//! from the waking event to the wait that it ended.
//!
//! Uninstrumented code, such as Rust's precompiled standard library, orders threads invisibly: the slow path
//! of a mutex, or the mutex inside a wait on a condition. It is recognised by its futexes, and by atomic
//! variables whose value differs from the last one that instrumented code stored ([`Flags::FOREIGN`]). Every
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
use unsnarl_model::{Event, Flags, Op, Order, ThreadIx};
use unsnarl_semantics::succeeded;

/// The edges that the relation includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Edges {
    /// The edges of observed operations.
    #[default]
    Observed,
    /// In addition, all edges that uninstrumented code may have made.
    Possible,
}

/// The happens-before relation of a run so far, and the same without the edges from the release of a lock to
/// its next acquisition, because the order of critical sections is arbitrary.
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
    wake_ups: WakeUps,
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
            self.make_room(thread);
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
    fn make_room(&mut self, thread: ThreadIx) {
        self.0.resize_with(thread.index() + 1, ThreadClock::default);
    }
}

/// Wake-ups that may still have waiters to wake.
#[derive(Debug, Default)]
struct WakeUps {
    /// Wake-ups for a known number of threads, until these have woken; never more than there are threads.
    counted: Vec<WakeUp>,
    /// The clocks of the senders of all other wake-ups, by event.
    others: BTreeMap<u64, VectorClock>,
    /// Clocks of completed wake-ups, reused to avoid allocation.
    spare: Vec<VectorClock>,
}

#[derive(Debug)]
struct WakeUp {
    event: u64,
    /// The clock of the sender.
    known: VectorClock,
    /// The number of threads still to wake.
    left: u64,
}

impl WakeUps {
    /// Records a wake-up of this thread for `to` waiters; if unknown, for every waiter that names the event.
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

    /// Processes one more event, given its number.
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

    /// Returns whether uninstrumented code may have ordered the event's thread after others.
    fn may_order_uninstrumented(&mut self, event: &Event) -> bool {
        match event.op {
            Op::FutexWake | Op::FutexRequeue | Op::FutexWoken => true,
            Op::FutexWait => !succeeded(event),
            Op::Fence => acquires(event.order) && mem::take(&mut self.threads.at(event.thread).saw_foreign),
            _ => false,
        }
    }

    /// Applies the edges of an atomic operation; returns whether uninstrumented code may have ordered its
    /// thread after others.
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
        let found = event.flags.has(Flags::FOREIGN);
        variable.foreign += u32::from(found);
        // A first unexpected value proves nothing if the variable was unknown before. Uninstrumented code
        // that writes the variable may also write back the old value.
        let foreign = found || variable.foreign > 1;
        me.saw_foreign |= foreign;
        foreign && loads && acquires(order)
    }

    /// Orders everything done up to now before the thread, but nothing that is done later.
    #[inline]
    fn order_after_all(&mut self, thread: ThreadIx) {
        if self.edges == Edges::Possible {
            self.threads.at(thread).clock.join_all(&self.now);
        }
        self.now.advance_all();
    }

    /// Applies the edges of an observed operation.
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
            Op::CondWait if succeeded(event) => self.release_lock(thread, event.value),
            // The mutex is held again however the wait ended.
            Op::CondWake => {
                if let Some(mutex) = event.waited_mutex() {
                    self.acquire_lock(thread, mutex);
                }
                self.woken(thread, event.waker());
            }
            Op::FutexWoken => self.woken(thread, event.waker()),
            Op::FutexWait if succeeded(event) => self.release(thread, addr),
            Op::FutexWake | Op::FutexRequeue => {
                self.acquire(thread, addr);
                // Threads that were only moved may be woken by another thread's event.
                let woken = match event.op {
                    Op::FutexWake => Some(event.value),
                    _ => (event.size == 0).then_some(0),
                };
                self.wake(thread, number, woken);
            }
            Op::Signal | Op::Broadcast => self.wake(thread, number, Some(event.value)),
            Op::SemPost | Op::SemInit => self.release(thread, addr),
            Op::OnceEnd => {
                // Compilers check the guard of a static by an atomic load before they call the runtime.
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
            // A write happens before the read of its data. A wait may be for data written to any channel.
            Op::FdWrite | Op::FdClose | Op::FdConnect => {
                self.release(thread, addr);
                self.release(thread, ANY_CHANNEL);
            }
            // Everything before the start of a child happens before the wait that learns of its end.
            Op::FdRead | Op::FdAccept | Op::FileLock | Op::ChildStart | Op::ChildWait => {
                self.acquire(thread, addr);
                if matches!(event.op, Op::FileLock | Op::ChildStart) {
                    self.release(thread, addr);
                }
            }
            Op::FdWait => self.acquire(thread, ANY_CHANNEL),
            // A handler runs after its installation and after its signal was sent.
            Op::SigAction => self.release(thread, addr),
            Op::SigSend => self.wake(thread, number, None),
            Op::SigHandle | Op::SigWait => {
                self.acquire(thread, addr);
                self.woken(thread, event.waker());
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

    /// Wakes `to` waiters; if unknown, every waiter that names the event.
    fn wake(&mut self, thread: ThreadIx, number: u64, to: Option<u64>) {
        self.wake_ups.send(number, self.threads.at(thread), self.now.of(thread), to);
        self.now.advance(thread);
    }

    fn woken(&mut self, thread: ThreadIx, by: Option<u64>) {
        if let Some(by) = by {
            self.wake_ups.wake(by, &mut self.threads.at(thread).clock);
        }
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
