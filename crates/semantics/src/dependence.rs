//! The dependence relation: which events of a trace must keep their order.
//!
//! After SimTrace (Huang and Zhang, SAS 2011), section 3.1, definition 4. The paper lists the orders of a few
//! operations (unlock → lock, fork → start, exit → join, notify → wait, and the conflicts of reads and
//! writes). Here every operation is described by what it *touches* and whether it reads or writes that; two
//! events of different threads depend on each other if they touch a common resource and one of them writes
//! it. All the orders of the paper follow, and those of the operations that the paper does not cover. The
//! relation is the transitive closure of that and of program order, so its size does not matter: the
//! simplifier represents it by a few edges.
//!
//! A reordered schedule must also be executable by the runtime, with the same events and the same outcome.
//! That takes a few dependences which are not conflicts of the program's own:
//!
//! - A failing operation depends on the cause of its failure: a failed try reads the lock, a timed-out wait
//!   reads the object that was not signalled, a lost signal reads the condition (and changes nothing).
//! - A cancellation may act at any operation of its target: it keeps its position among them
//!   ([`Touch::Pin`]).
//! - While a thread is alone its accesses are no events, so it must be alone at the same points as before.
//!   The end that leaves a thread alone keeps its position among that thread's events and comes after all
//!   other ends; and an end does not pass a creation if that could leave a thread alone in between
//!   ([`SharedObject::Concurrency`]).
//! - `memcpy` and similar functions are recorded as events of one site and executed after the last of them:
//!   the last one touches what all of them do.
//! - The program's end comes last, and creations keep their order, so that threads keep their numbers.
//! - The last event stays last (the simplifier sees to that), because the failure follows it.
//!
//! Dependences without an event cannot be kept: accesses of uninstrumented code, reads of the clock, writers
//! that a lock prefers while they wait, the old block of a `realloc`. One replay shows whether that mattered.
//! If it did, stricter rules may help ([`Rules::environment`]).

use crate::succeeded;
use alloc::{collections::BTreeMap, vec::Vec};
use unsnarl_model::{Event, Flags, Op, SiteIx, ThreadIx, Trace};

/// A resource that events touch, other than bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedObject {
    /// A mutex or spin lock, by its address.
    Lock(u64),
    /// A read-write lock; acquiring it for reading reads it.
    RwLock(u64),
    /// A condition variable's waiters and wake-ups.
    Cond(u64),
    /// A semaphore's count.
    Semaphore(u64),
    /// A barrier's arrivals.
    Barrier(u64),
    /// One round of a barrier: arriving writes it, leaving reads it.
    Round(u64, u64),
    /// A once control or the guard of a static.
    Once(u64),
    /// The waiters and wake-ups of a futex.
    Futex(u64),
    /// The assignment of waiters to futexes; only a requeue writes it.
    Futexes,
    /// A thread's lifetime.
    Life(ThreadIx),
    /// The numbering of threads.
    Threads,
    /// The state "more than one thread exists": creations write it, and ends that it may depend on read it.
    Concurrency,
    /// The state that determines the addresses of allocated memory.
    Addresses,
    /// The object behind a descriptor.
    Channel(u64),
    /// All channels, and the descriptor numbers.
    Channels,
    /// Signals and timers of all threads.
    Signals,
    /// Virtual time, as far as it jumps.
    Time,
}

/// The kind of an access to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// Two reads commute.
    Reads,
    /// A write commutes with nothing.
    Writes,
}

/// A reason for an event to depend on others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Touches an object.
    SharedObject(SharedObject, AccessMode),
    /// Touches bytes of memory: the first address and the number of bytes.
    Bytes(u64, u64, AccessMode),
    /// Comes after everything that the thread has done so far.
    After(ThreadIx),
    /// Comes before everything that the thread does from now on.
    Before(ThreadIx),
    /// Both `After` and `Before`.
    Pin(ThreadIx),
    /// Keeps its position among all events.
    Fence,
    /// No event will touch the object any more.
    Forget(SharedObject),
}

/// Order to preserve beyond the program's own dependences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether to preserve also what the program may observe of its environment: the addresses of its memory
    /// and stacks, the passing of time, and which statics of libraries are initialised already. Few programs
    /// care, and preserving it takes context switches.
    pub environment: bool,
    /// True if accesses of a thread that is alone are no events.
    pub hides_sole_accesses: bool,
    /// True if the last event stays last, and the program's exit keeps its position.
    pub end: bool,
}

impl Rules {
    /// Returns the rules that this trace needs to be executed again.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        // Traces of other tools have no program, and contain all accesses.
        let recorded = !trace.program.path.is_empty();
        let accesses = trace.events.iter().any(|event| event.op.is_plain_access());
        Self { hides_sole_accesses: recorded && accesses, ..Self::default() }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self { environment: false, hides_sole_accesses: false, end: true }
    }
}

/// Computes the touches of events, one by one.
#[derive(Debug)]
pub struct Relation {
    rules: Rules,
    threads: Vec<ThreadState>,
    /// Threads that were created and have not ended.
    live: u32,
    /// Threads that ended since a thread was last alone.
    ended: Vec<ThreadIx>,
    /// The thread that runs the routine of a once control.
    once: BTreeMap<u64, ThreadIx>,
    /// The number of threads that have not left a barrier's round yet.
    rounds: BTreeMap<(u64, u64), u32>,
}

#[derive(Debug, Default)]
struct ThreadState {
    alive: bool,
    /// Locks it holds: its end releases a robust one.
    held: Vec<u64>,
    /// The latest consecutive reads from one site, which may be executed together with the next event.
    pending_reads: PendingReads,
}

/// `memcpy` and similar functions read at most two ranges.
#[derive(Clone, Copy, Debug, Default)]
struct PendingReads {
    site: SiteIx,
    reads: [(u64, u64); 2],
    len: usize,
}

impl Relation {
    /// Creates the relation with these rules.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let mut relation = Self {
            rules,
            threads: Vec::new(),
            live: 1,
            ended: Vec::new(),
            once: BTreeMap::new(),
            rounds: BTreeMap::new(),
        };
        relation.thread(ThreadIx::MAIN).alive = true;
        relation
    }

    /// Adds the touches of the trace's next event.
    pub fn touches(&mut self, event: &Event, out: &mut Vec<Touch>) {
        use AccessMode::{Reads, Writes};
        let Event { thread, addr, value, .. } = *event;
        let done = succeeded(event);
        let if_done = if done { Writes } else { Reads };
        let mut on = |object, how| out.push(Touch::SharedObject(object, how));
        match event.op {
            Op::Read | Op::Write | Op::AtomicLoad | Op::AtomicStore | Op::AtomicRmw | Op::AtomicCas => {
                return self.access(event, done, out);
            }
            Op::Lock | Op::TryLock => {
                on(SharedObject::Lock(addr), if_done);
                if done && value <= 1 {
                    self.thread(thread).held.push(addr);
                }
            }
            Op::Unlock => {
                on(SharedObject::Lock(addr), if_done);
                if done && value == 0 {
                    self.released(thread, addr);
                }
            }
            Op::LockInit | Op::LockDestroy => on(SharedObject::Lock(addr), Writes),
            Op::RwInit | Op::RwDestroy => on(SharedObject::RwLock(addr), Writes),
            // No reader may begin or end meanwhile, even if it fails.
            Op::WriteLock | Op::TryWriteLock => on(SharedObject::RwLock(addr), Writes),
            Op::ReadLock | Op::TryReadLock => on(SharedObject::RwLock(addr), Reads),
            Op::RwUnlock if done && value == 0 => on(SharedObject::RwLock(addr), Reads),
            Op::RwUnlock => on(SharedObject::RwLock(addr), Writes),
            Op::CondInit | Op::CondDestroy => on(SharedObject::Cond(addr), Writes),
            Op::CondWait if done => {
                on(SharedObject::Cond(addr), Writes);
                on(SharedObject::Lock(value), Writes);
                // A recursive mutex may stay held.
                if event.size == 0 {
                    self.released(thread, value);
                }
            }
            Op::CondWait => on(SharedObject::Lock(value), Reads),
            // The thread no longer waits and holds the mutex again, however the wait ended.
            Op::CondWake => {
                on(SharedObject::Cond(addr), Writes);
                on(SharedObject::Lock(value), Writes);
                let held = &mut self.thread(thread).held;
                if !held.contains(&value) {
                    held.push(value);
                }
            }
            Op::Signal | Op::Broadcast => {
                on(SharedObject::Cond(addr), if value > 0 { Writes } else { Reads })
            }
            Op::SemInit | Op::SemDestroy => on(SharedObject::Semaphore(addr), Writes),
            Op::SemWait | Op::SemTryWait | Op::SemPost => on(SharedObject::Semaphore(addr), if_done),
            Op::SemGet => on(SharedObject::Semaphore(addr), Reads),
            Op::BarrierInit | Op::BarrierDestroy => on(SharedObject::Barrier(addr), Writes),
            Op::BarrierArrive => {
                on(SharedObject::Barrier(addr), Writes);
                on(SharedObject::Round(addr, value), Writes);
                *self.rounds.entry((addr, value)).or_default() += 1;
            }
            // This does not touch the barrier: others may arrive for the next round, or destroy it.
            Op::BarrierLeave => {
                on(SharedObject::Round(addr, value), Reads);
                self.left(addr, value, out);
            }
            Op::OnceBegin => {
                on(SharedObject::Once(addr), Writes);
                // The previous routine was left by an exception, which is no event but has occurred by now.
                if let Some(thrown) = self.once.insert(addr, thread) {
                    out.push(Touch::After(thrown));
                }
            }
            Op::OnceEnd => {
                on(SharedObject::Once(addr), Writes);
                // Compilers check the guard of a static by their own load.
                out.push(Touch::Bytes(addr, 4, Writes));
                self.once.remove(&addr);
                // In uninstrumented code that load is no event.
                if self.rules.environment {
                    out.push(Touch::Fence);
                }
            }
            Op::OncePass => on(SharedObject::Once(addr), Reads),
            Op::FutexWait => {
                if done {
                    on(SharedObject::Futexes, Reads);
                    on(SharedObject::Futex(addr), Writes);
                }
                out.push(Touch::Bytes(addr, 4, Reads));
            }
            Op::FutexWoken => {
                on(SharedObject::Futexes, Reads);
                on(SharedObject::Futex(addr), Writes);
            }
            Op::FutexWake => {
                on(SharedObject::Futexes, Reads);
                on(SharedObject::Futex(addr), if value > 0 { Writes } else { Reads });
            }
            Op::FutexRequeue => {
                if done {
                    on(SharedObject::Futexes, Writes);
                    on(SharedObject::Futex(addr), Writes);
                    on(SharedObject::Futex(value), Writes);
                }
                out.push(Touch::Bytes(addr, 4, Reads));
            }
            Op::Alloc if done => {
                out.push(Touch::Bytes(addr, event.size.max(1).into(), Writes));
                self.addresses(out);
            }
            Op::Free => {
                out.push(Touch::Bytes(addr, event.size.max(1).into(), Writes));
                self.addresses(out);
            }
            Op::Alloc => self.addresses(out),
            Op::Start => on(SharedObject::Life(thread), Reads),
            Op::End => self.end(thread, out),
            Op::Exit => {
                if self.rules.end {
                    out.push(Touch::Fence);
                }
            }
            Op::Create | Op::Join | Op::Detach | Op::Cancel => self.on_thread(event, done, out),
            // Both ends change the contents of a pipe or socket.
            Op::FdRead | Op::FdWrite => {
                on(SharedObject::Channels, Reads);
                on(SharedObject::Channel(addr), Writes);
            }
            // These access several channels, or determine the descriptor numbers of later opens.
            Op::FdOpen
            | Op::FdClose
            | Op::FdWait
            | Op::FdAccept
            | Op::FdConnect
            | Op::FileLock
            | Op::ChildStart
            | Op::ChildWait => {
                on(SharedObject::Channels, Writes);
            }
            // Which thread may take a signal depends on what all threads have done with signals.
            Op::SigAction
            | Op::SigMask
            | Op::SigSend
            | Op::SigHandle
            | Op::SigWait
            | Op::SigPause
            | Op::TimerSet
            | Op::TimerFire => on(SharedObject::Signals, Writes),
            Op::Cancelled | Op::Fence | Op::Yield | Op::Sleep | Op::Point | Op::Checkpoint => {}
        }
        let time_passed = event.op == Op::Sleep || event.flags.has(Flags::TIMED_OUT);
        if self.rules.environment && time_passed {
            out.push(Touch::SharedObject(SharedObject::Time, Writes));
        }
        self.thread(thread).pending_reads.len = 0;
    }

    fn thread(&mut self, thread: ThreadIx) -> &mut ThreadState {
        if self.threads.len() <= thread.index() {
            self.threads.resize_with(thread.index() + 1, ThreadState::default);
        }
        &mut self.threads[thread.index()]
    }

    /// Adds the touches of a memory access, with the accesses executed together with it.
    fn access(&mut self, event: &Event, done: bool, out: &mut Vec<Touch>) {
        let writes = match event.op {
            Op::Write | Op::AtomicStore | Op::AtomicRmw => !event.flags.has(Flags::CANCELLED),
            Op::AtomicCas => done,
            _ => false,
        };
        let (first, len) = (event.addr, u64::from(event.size.max(1)));
        out.push(Touch::Bytes(first, len, if writes { AccessMode::Writes } else { AccessMode::Reads }));
        let pending_reads = &mut self.thread(event.thread).pending_reads;
        if pending_reads.len > 0 && pending_reads.site != event.site {
            pending_reads.len = 0;
        }
        // Loads of a loop come from one site as well; their sizes distinguish them from functions over
        // ranges.
        let over_range = event.op == Op::Write || !matches!(event.size, 1 | 2 | 4 | 8 | 16);
        if over_range {
            let reads = &pending_reads.reads[..pending_reads.len];
            out.extend(reads.iter().map(|&(first, len)| Touch::Bytes(first, len, AccessMode::Reads)));
        }
        if event.op == Op::Read {
            if pending_reads.len == pending_reads.reads.len() {
                pending_reads.reads.rotate_left(1);
                pending_reads.len -= 1;
            }
            pending_reads.site = event.site;
            pending_reads.reads[pending_reads.len] = (first, len);
            pending_reads.len += 1;
        } else {
            pending_reads.len = 0;
        }
    }

    /// Removes the lock from its holder, whichever thread that is.
    fn released(&mut self, by: ThreadIx, lock: u64) {
        let held = &mut self.thread(by).held;
        if let Some(at) = held.iter().rposition(|&held| held == lock) {
            held.remove(at);
            return;
        }
        for thread in &mut self.threads {
            thread.held.retain(|&held| held != lock);
        }
    }

    fn addresses(&self, out: &mut Vec<Touch>) {
        if self.rules.environment {
            out.push(Touch::SharedObject(SharedObject::Addresses, AccessMode::Writes));
        }
    }

    /// Records that a thread left a round of a barrier.
    fn left(&mut self, barrier: u64, round: u64, out: &mut Vec<Touch>) {
        if let Some(inside) = self.rounds.get_mut(&(barrier, round)) {
            *inside -= 1;
            if *inside == 0 {
                self.rounds.remove(&(barrier, round));
                out.push(Touch::Forget(SharedObject::Round(barrier, round)));
            }
        }
    }

    fn end(&mut self, thread: ThreadIx, out: &mut Vec<Touch>) {
        out.push(Touch::SharedObject(SharedObject::Life(thread), AccessMode::Writes));
        let me = self.thread(thread);
        let was_alive = core::mem::replace(&mut me.alive, false);
        out.extend(
            me.held.drain(..).map(|lock| Touch::SharedObject(SharedObject::Lock(lock), AccessMode::Writes)),
        );
        self.live -= u32::from(was_alive && self.live > 0);
        if !self.rules.hides_sole_accesses || !was_alive {
            return;
        }
        // At most one of two older threads creates threads, so the other one prevents it from being alone.
        let older = self.threads[..thread.index()].iter().filter(|t| t.alive).take(2).count();
        if older < 2 {
            out.push(Touch::SharedObject(SharedObject::Concurrency, AccessMode::Reads));
        }
        if self.live == 1 {
            out.extend(self.ended.drain(..).map(Touch::After));
            let survivor = self.threads.iter().position(|t| t.alive);
            out.extend(survivor.map(|ix| Touch::Pin(ThreadIx(ix as u16))));
        } else {
            self.ended.push(thread);
        }
    }

    /// Adds the touches of operations on threads.
    fn on_thread(&mut self, event: &Event, done: bool, out: &mut Vec<Touch>) {
        use AccessMode::{Reads, Writes};
        let target = u16::try_from(event.value).ok().map(ThreadIx).filter(|&t| t != event.thread);
        if event.op == Op::Create {
            out.push(Touch::SharedObject(SharedObject::Threads, Writes));
            if self.rules.hides_sole_accesses {
                out.push(Touch::SharedObject(SharedObject::Concurrency, Writes));
            }
            self.addresses(out);
            if let (true, Some(child)) = (done, target) {
                out.push(Touch::SharedObject(SharedObject::Life(child), Writes));
                out.push(Touch::Before(child));
                let new = !core::mem::replace(&mut self.thread(child).alive, true);
                self.live += u32::from(new);
            }
            return;
        }
        let Some(target) = target else {
            // Misuse: on a thread that is gone, the result depends on the thread that joined or detached it.
            if !done {
                out.push(Touch::Fence);
            }
            return;
        };
        match event.op {
            Op::Join if done => {
                out.push(Touch::SharedObject(SharedObject::Life(target), Writes));
                // In traces of other tools a thread may have no end event.
                out.push(Touch::After(target));
                self.addresses(out);
            }
            Op::Join => out.push(Touch::SharedObject(SharedObject::Life(target), Reads)),
            Op::Detach => out.push(Touch::SharedObject(SharedObject::Life(target), Writes)),
            _ => out.push(Touch::Pin(target)),
        }
    }
}
