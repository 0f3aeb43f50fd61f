//! Everything the runtime knows about the run.

use crate::{
    atomic_values::AtomicValues,
    children,
    clock::VirtualClock,
    conflicts::ConflictMonitor,
    context::ThreadBackend,
    descriptors::Descriptors,
    entropy::Entropy,
    gate::{Gate, Readiness},
    heap,
    hooks::{key::Keys, openmp::OpenMpLocks},
    input::InputPositions,
    log::Log,
    modules::Modules,
    queue::Queues,
    signals::{Queue, SignalSet},
    sites::PlanSites,
    stack, sys,
    thread::Thread,
    timers::Timers,
};
use alloc::{boxed::Box, vec::Vec};
use core::{cell::UnsafeCell, mem::MaybeUninit};
use unsnarl_model::{Action, Flags, Op, ThreadIx};
use unsnarl_sched::{Picker, RunView, ThreadSet};

/// The run: who decides, and what is decided about.
pub(crate) struct Runtime {
    pub(crate) picker: Picker,
    pub(crate) state: State,
}

pub(crate) struct State {
    pub(crate) current: ThreadIx,
    /// Who ran before.
    pub(crate) previous: ThreadIx,
    /// The running thread's record: what nearly every operation needs.
    pub(crate) running: *mut Thread,
    /// By [`ThreadIx`]; boxed because threads know their own record's place.
    #[allow(clippy::vec_box, reason = "threads hold on to their records")]
    pub(crate) threads: Vec<Box<Thread>>,
    /// Threads that did not end yet.
    pub(crate) live: u32,
    pub(crate) ready: ThreadSet,
    pub(crate) by_timeout: ThreadSet,
    /// The running thread, while it goes on in an undivided region: then nobody else can be chosen.
    pub(crate) sole_runner: ThreadSet,
    /// Threads at a gate that may be closed.
    pub(crate) waiting: ThreadSet,
    /// How many of those are at gates that others open behind our back.
    pub(crate) polled: u32,
    /// Somebody was picked and has not logged an event yet.
    pub(crate) picked: bool,
    /// What the next event tells of the switch that led to it.
    pub(crate) switch_flags: Flags,
    /// Signals that were sent to the process.
    pub(crate) signals: Queue,
    /// Signals that some descriptor tells of (`signalfd`).
    pub(crate) listened: SignalSet,
    pub(crate) timers: Timers,
    /// Whether threads may have different signal masks: then each switch changes the kernel's.
    pub(crate) masks_differ: bool,
    /// The operation in progress is made by a library's innards: no choice, no event.
    pub(crate) muted: bool,
    /// Depth of calls during which nobody else may run, because the C library holds a lock of its own.
    pub(crate) undivided: u32,
    /// What instrumented code has left in atomic variables.
    pub(crate) atomic_values: AtomicValues,
    /// The operation in progress left memory as it was.
    pub(crate) unchanged: bool,
    /// Events in a row that changed nothing.
    pub(crate) fruitless_events: u64,
    pub(crate) max_fruitless_events: u64,
    pub(crate) spurious: bool,
    /// Threads that ended and that nobody will join.
    pub(crate) to_reap: Vec<ThreadIx>,
    pub(crate) log: Log,
    pub(crate) clock: VirtualClock,
    pub(crate) entropy: Entropy,
    pub(crate) queues: Queues,
    pub(crate) keys: Keys,
    pub(crate) openmp: OpenMpLocks,
    pub(crate) descriptors: Descriptors,
    /// What of the plan's inputs was told.
    pub(crate) input_positions: InputPositions,
    /// Room for a list of what everybody waits for.
    pub(crate) environment_fds: Vec<libc::pollfd>,
    /// How often a lock on a file may have been given back.
    pub(crate) file_locks_changed: u64,
    pub(crate) modules: Modules,
    pub(crate) places: PlanSites,
    /// The search for conflicts, if there is one.
    pub(crate) conflicts: Option<Box<ConflictMonitor>>,
    /// Whether somebody wants to know of each point: who could run there, or where the run is.
    pub(crate) observed: bool,
}

struct RuntimeCell(UnsafeCell<MaybeUninit<Runtime>>, UnsafeCell<usize>);

// SAFETY: reached by the running thread only (see the crate's documentation).
unsafe impl Sync for RuntimeCell {}

/// The run, and the thread pointer of the current thread: 0 while the runtime is passive. That alone says whether there is a run: what an
/// `Option` would look at is a part of the plan, which would be left in a register by every hook.
static RUNTIME: RuntimeCell = RuntimeCell(UnsafeCell::new(MaybeUninit::uninit()), UnsafeCell::new(0));

impl Runtime {
    /// The run, if the caller is its current thread; none for a passive runtime and for kernel threads
    /// that are on their way in or out.
    #[inline]
    pub(crate) fn enter() -> Option<&'static mut Self> {
        // SAFETY: a word that only the running thread changes; another kernel thread sees a value that is
        // not its own thread pointer, whatever it sees.
        let current = unsafe { RUNTIME.1.get().read_volatile() };
        if current != sys::thread_pointer() {
            return None;
        }
        // SAFETY: we are the running thread, so there is a run.
        Some(unsafe { (*RUNTIME.0.get()).assume_init_mut() })
    }

    /// Takes control: from now on hooks enter.
    pub(crate) fn begin(self) -> &'static mut Self {
        // SAFETY: called once, before any hook can enter.
        unsafe {
            *RUNTIME.1.get() = sys::thread_pointer();
            (*RUNTIME.0.get()).write(self)
        }
    }

    /// Gives up control, in a forked child: hooks stay outside, and a crash is the child's own business,
    /// not to be told in the memory that it shares with its parent and the controller.
    pub(crate) fn abandon() {
        crate::tracer::abandon();
        // SAFETY: we are the running thread.
        unsafe { *RUNTIME.1.get() = 0 };
    }

    /// The current thread is the one with this thread pointer.
    #[inline]
    pub(crate) fn set_current(thread_pointer: usize) {
        // SAFETY: we are the running thread.
        unsafe { RUNTIME.1.get().write_volatile(thread_pointer) };
    }

    /// The word by which hooks know the running thread.
    pub(crate) fn control() -> *mut usize {
        RUNTIME.1.get()
    }

    /// For signal handlers, which interrupt the running thread, perhaps in the middle of something.
    pub(crate) fn interrupted() -> Option<&'static mut Self> {
        // SAFETY: the handlers that use this touch nothing that may be half done.
        unsafe { if *RUNTIME.1.get() == 0 { None } else { Some((*RUNTIME.0.get()).assume_init_mut()) } }
    }
}

impl State {
    /// What threads run on.
    pub(crate) fn backend(&self) -> ThreadBackend {
        self.threads[0].context.backend()
    }

    #[inline]
    pub(crate) fn thread(&mut self, thread: ThreadIx) -> &mut Thread {
        &mut self.threads[thread.index()]
    }

    /// The running thread.
    #[inline]
    pub(crate) fn me(&mut self) -> &mut Thread {
        // SAFETY: records stay where they are; set at every switch.
        unsafe { &mut *self.running }
    }

    /// The thread with this handle, unless it is gone for good.
    pub(crate) fn by_handle(&self, handle: usize) -> Option<ThreadIx> {
        let found = self.threads.iter().rev().find(|t| t.handle == handle && !t.forgotten && !t.reaped)?;
        Some(found.ix)
    }

    /// Puts the thread where its gate says it belongs.
    pub(crate) fn reclassify(&mut self, thread: ThreadIx) {
        let readiness = self.readiness(thread);
        self.ready.set(thread, readiness == Readiness::Ready);
        self.by_timeout.set(thread, readiness == Readiness::ByTimeout);
    }

    /// Libraries may have been loaded: learns of them, and where the plan's places in them are.
    pub(crate) fn refresh_modules(&mut self) {
        stack::run_isolated(|| {
            self.modules.refresh(&self.log);
            self.places = heap::with_plan_heap(|| PlanSites::of(&self.log, &self.modules));
        });
    }

    /// Something about the object at this address changed: who waits there may go on, or no longer.
    #[inline]
    pub(crate) fn changed(&mut self, addr: usize) {
        if !self.waiting.is_empty() {
            self.reclassify_at(addr);
        }
    }

    #[cold]
    fn reclassify_at(&mut self, addr: usize) {
        let mut n = 0;
        while let Some(thread) = self.waiting.nth(n) {
            n += 1;
            if self.thread(thread).pending.gate.depends_on(addr) {
                self.reclassify(thread);
            }
        }
    }

    /// Looks again at gates that are opened behind our back.
    #[cold]
    pub(crate) fn poll(&mut self) {
        if self.waiting.iter().any(|thread| self.waits_for_children(thread)) {
            children::settle();
        }
        let mut n = 0;
        while let Some(thread) = self.waiting.nth(n) {
            n += 1;
            if self.thread(thread).pending.gate.is_polled() {
                self.reclassify(thread);
            }
        }
    }

    /// A waiter left without a wake-up: those that only it could have taken are void.
    pub(crate) fn forget_surplus_wake_ups(&mut self, object: usize) {
        let Self { queues, waiting, threads, .. } = self;
        queues.forget_surplus(object, |moment| {
            let waiters_without_wake_up = waiting.iter().map(|w| &threads[w.index()]).filter(|t| t.granted.is_none());
            let here = |t: &Thread| matches!(t.pending.gate, Gate::Cond(other, _) | Gate::Futex(other, _) if other == object);
            let suspended = threads.iter().flat_map(|t| &t.suspended).filter(|s| s.granted.is_none());
            waiters_without_wake_up.filter(|t| here(t) && t.arrival < moment).count()
                + suspended.filter(|s| s.gate.depends_on(object) && s.arrival < moment).count()
        });
    }

    /// Those who wait at gates that `at` accepts, in the order of creation.
    pub(crate) fn waiters(&self, at: impl Fn(&Gate) -> bool) -> impl Iterator<Item = ThreadIx> {
        self.waiting.iter().filter(move |t| at(&self.threads[t.index()].pending.gate))
    }
}

impl RunView for State {
    #[inline]
    fn current(&self) -> ThreadIx {
        self.current
    }

    #[inline]
    fn ready(&self) -> &ThreadSet {
        if self.sole_runner.is_empty() { &self.ready } else { &self.sole_runner }
    }

    #[inline]
    fn by_timeout(&self) -> &ThreadSet {
        static NO_THREADS: ThreadSet = ThreadSet::new();
        if self.sole_runner.is_empty() { &self.by_timeout } else { &NO_THREADS }
    }

    fn earliest_timeout(&self) -> Option<ThreadIx> {
        self.by_timeout.iter().min_by_key(|t| {
            let thread = &self.threads[t.index()];
            if thread.child_ended { 0 } else { thread.pending.deadline }
        })
    }

    #[inline]
    fn yields(&self, thread: ThreadIx) -> bool {
        let thread = &self.threads[thread.index()];
        thread.pending.op.yields() || thread.spin_detector.is_spinning()
    }

    #[inline]
    fn current_can_continue(&self) -> bool {
        // SAFETY: as in `me`.
        let me = unsafe { &*self.running };
        self.ready.contains(self.current) && !me.pending.op.yields() && !me.spin_detector.is_spinning()
    }

    fn is_about_to(&self, thread: ThreadIx, action: &Action) -> bool {
        let pending = &self.threads[thread.index()].pending;
        let op = if pending.op != Op::Start && self.is_due(thread) { Op::SigHandle } else { pending.op };
        requested_op(op) == requested_op(action.op) && self.modules.is_at(pending.pc, action.site)
    }

    fn conflict(&self, a: ThreadIx, b: ThreadIx) -> bool {
        let (a, b) = (&self.threads[a.index()].pending, &self.threads[b.index()].pending);
        a.addr != 0 && a.addr == b.addr && !(a.op.only_reads() && b.op.only_reads())
    }

    fn is_at(&self, thread: ThreadIx, place: u16) -> bool {
        self.places.is_at(place, self.threads[thread.index()].pending.pc)
    }

    fn resolve_thread(&self, in_plan: ThreadIx) -> Option<ThreadIx> {
        self.log.resolve_thread(in_plan)
    }
}

/// Some operations are known only when they are executed: who comes first to a once control runs the
/// routine, the others pass.
const fn requested_op(op: Op) -> u8 {
    match op {
        Op::OnceBegin => Op::OncePass as u8,
        other => other as u8,
    }
}

/// The thread pointer of a thread about to run.
pub(crate) fn pointer_of(thread: &Thread) -> usize {
    thread.context.thread_pointer
}
