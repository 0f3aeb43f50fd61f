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
//! - While a thread is alone its accesses and its operations on files are no events, so it must be alone at the same points as before.
//!   The end that leaves a thread alone keeps its position among that thread's events and comes after all
//!   other ends; and an end does not pass a creation if that could leave a thread alone in between
//!   ([`SharedObject::Concurrency`]).
//! - `memcpy` and similar functions are recorded as events of one site and executed after the last of them:
//!   the last one touches what all of them do. So does an operation on a descriptor, of the bytes it writes.
//! - Other threads cannot run while a thread is in an undivided region, so its events keep their position
//!   among all events, and so does the event before.
//! - The program's end comes last, and creations keep their order, so that threads keep their numbers.
//! - The last event stays last (the simplifier sees to that), because the failure follows it.
//!
//! Dependences without an event cannot be kept: accesses of uninstrumented code, reads of the clock, writers
//! that a lock prefers while they wait, the old block of a `realloc`. One replay shows whether that mattered.
//! If it did, stricter rules may help ([`Rules::environment`]).

use crate::{
    Access, AccessKind, AccessMode, BarrierOp, ByteRange, CondOp, HeldLock, LockEffect, MemoryOp, OnceOp,
    Operation, SharedObject, Step, ThreadOp, Touch, lock_effects, touches,
};
use alloc::{collections::BTreeMap, vec::Vec};
use unsnarl_model::{Event, SiteIx, ThreadIx, Trace};

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
        // A program with atomic operations may have plain accesses that were no events in this run.
        let accesses = trace
            .events
            .iter()
            .any(|event| event.op.is_plain_access() || event.op.is_atomic() || event.op.is_on_file());
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
    /// The number of events so far.
    events: u64,
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
    reads: [Option<ByteRange>; 2],
}

impl PendingReads {
    fn touches(&self) -> impl Iterator<Item = Touch> + use<> {
        self.reads.into_iter().flatten().map(|read| Touch::Bytes(read, AccessMode::Reads))
    }

    fn push(&mut self, site: SiteIx, read: ByteRange) {
        self.site = site;
        self.reads = match self.reads {
            [None, _] => [Some(read), None],
            [first, None] => [first, Some(read)],
            [_, second] => [second, Some(read)],
        };
    }
}

impl Relation {
    /// Creates the relation with these rules.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let mut relation = Self {
            rules,
            events: 0,
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
        let step = Step::decode(event, self.events);
        self.events += 1;
        touches(&step, |touch| {
            if self.rules.environment || !touch.is_of_environment() {
                out.push(touch);
            }
        });
        if step.undivided() || step.enters_region() {
            out.push(Touch::Fence);
        }
        match &step.operation {
            Operation::Memory(MemoryOp::Access(access)) => return self.access(&step, access, out),
            Operation::Mutex(_) => self.hold(&step, false),
            Operation::Cond(op) => self.hold(&step, matches!(op, CondOp::Wake { .. })),
            Operation::Barrier(op) => self.barrier(op, out),
            Operation::Once(op) => self.once(step.thread, op, out),
            Operation::Thread(op) => self.life(&step, op, out),
            _ => {}
        }
        let pending = core::mem::take(&mut self.thread(step.thread).pending_reads);
        if pending.site == step.site {
            out.extend(pending.touches());
        }
    }

    fn thread(&mut self, thread: ThreadIx) -> &mut ThreadState {
        if self.threads.len() <= thread.index() {
            self.threads.resize_with(thread.index() + 1, ThreadState::default);
        }
        &mut self.threads[thread.index()]
    }

    /// Adds the accesses that are executed together with this one.
    fn access(&mut self, step: &Step, access: &Access, out: &mut Vec<Touch>) {
        let pending_reads = &mut self.thread(step.thread).pending_reads;
        if pending_reads.site != step.site {
            *pending_reads = PendingReads::default();
        }
        // Loads of a loop come from one site as well; their sizes distinguish them from functions over
        // ranges.
        let over_range = access.kind == AccessKind::Write || !matches!(access.range.len, 1 | 2 | 4 | 8 | 16);
        if over_range {
            out.extend(pending_reads.touches());
        }
        if access.kind == AccessKind::Read {
            pending_reads.push(step.site, access.range);
        } else {
            *pending_reads = PendingReads::default();
        }
    }

    /// Records which locks the thread holds. The thread may have held a mutex all through a wait.
    fn hold(&mut self, step: &Step, again: bool) {
        lock_effects(step, |effect| match effect {
            LockEffect::Acquired(HeldLock { lock, .. }) => {
                let held = &mut self.thread(step.thread).held;
                if !again || !held.contains(&lock) {
                    held.push(lock);
                }
            }
            LockEffect::Released(HeldLock { lock, .. }) => self.released(step.thread, lock),
        });
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

    /// Counts the threads in each round of a barrier.
    fn barrier(&mut self, op: &BarrierOp, out: &mut Vec<Touch>) {
        match *op {
            BarrierOp::Arrive { barrier, round } => *self.rounds.entry((barrier, round)).or_default() += 1,
            BarrierOp::Leave { barrier, round } => {
                if let Some(inside) = self.rounds.get_mut(&(barrier, round)) {
                    *inside -= 1;
                    if *inside == 0 {
                        self.rounds.remove(&(barrier, round));
                        out.push(Touch::Forget(SharedObject::Round(barrier, round)));
                    }
                }
            }
            BarrierOp::Init { .. } | BarrierOp::Destroy { .. } => {}
        }
    }

    fn once(&mut self, thread: ThreadIx, op: &OnceOp, out: &mut Vec<Touch>) {
        match *op {
            // The previous routine was left by an exception, which is no event but has occurred by now.
            OnceOp::Begin { once } => out.extend(self.once.insert(once, thread).map(Touch::After)),
            OnceOp::End { once } => {
                self.once.remove(&once);
                // In uninstrumented code the load of the guard is no event.
                if self.rules.environment {
                    out.push(Touch::Fence);
                }
            }
            OnceOp::Pass { .. } => {}
        }
    }

    fn life(&mut self, step: &Step, op: &ThreadOp, out: &mut Vec<Touch>) {
        match op {
            ThreadOp::End { .. } => self.end(step.thread, out),
            ThreadOp::Exit { .. } if self.rules.end => out.push(Touch::Fence),
            ThreadOp::Create { thread } => {
                if self.rules.hides_sole_accesses {
                    out.push(Touch::writes(SharedObject::Concurrency));
                }
                let child = thread.known().filter(|&child| step.succeeded() && child != step.thread);
                if let Some(child) = child {
                    let is_new = !core::mem::replace(&mut self.thread(child).alive, true);
                    self.live += u32::from(is_new);
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, thread: ThreadIx, out: &mut Vec<Touch>) {
        let me = self.thread(thread);
        let was_alive = core::mem::replace(&mut me.alive, false);
        out.extend(me.held.drain(..).map(|lock| Touch::writes(SharedObject::Lock(lock))));
        self.live -= u32::from(was_alive && self.live > 0);
        if !self.rules.hides_sole_accesses || !was_alive {
            return;
        }
        // At most one of two older threads creates threads, so the other one prevents it from being alone.
        let older = self.threads[..thread.index()].iter().filter(|t| t.alive).take(2).count();
        if older < 2 {
            out.push(Touch::reads(SharedObject::Concurrency));
        }
        if self.live == 1 {
            out.extend(self.ended.drain(..).map(Touch::After));
            let survivor = self.threads.iter().position(|t| t.alive);
            out.extend(survivor.map(|ix| Touch::Pin(ThreadIx(ix as u16))));
        } else {
            self.ended.push(thread);
        }
    }
}
