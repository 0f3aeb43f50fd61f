//! The state of the run as the runtime knows it.

use crate::{
    access_log::AccessLog,
    atomic_values::AtomicValues,
    children,
    clock::VirtualClock,
    conflicts::ConflictMonitor,
    context::ThreadBackend,
    descriptors::Descriptors,
    entropy::Entropy,
    file_changes::RecordedPaths,
    file_names::OpenFileNames,
    gate::{Gate, Readiness},
    heap,
    hooks::{key::Keys, openmp::OpenMpLocks},
    input::InputPositions,
    livelock::RoundDetector,
    log::Log,
    modules::Modules,
    network::TakenPorts,
    queue::Queues,
    signals::{KeptSignal, PendingSignals, SignalSet},
    sites::PlanSites,
    stack, sys,
    thread::Thread,
    timers::Timers,
};
use alloc::{boxed::Box, vec::Vec};
use core::{cell::UnsafeCell, hint::assert_unchecked, mem::MaybeUninit, ptr, sync::atomic::Ordering};
use unsnarl_model::{Action, Flags, Op, ThreadIx};
use unsnarl_sched::{EarlyTimeouts, Picker, RunProgress, RunView, ThreadSet, Withheld};
use unsnarl_wire::{READ_CLOCK, WITHHELD_LONG, WITHHELD_SHORT};

/// The run: the picker that decides and the state it decides about.
pub(crate) struct Runtime {
    pub(crate) picker: Picker,
    pub(crate) state: State,
}

pub(crate) struct State {
    pub(crate) current: ThreadIx,
    /// The thread that ran before the current one.
    pub(crate) previous: ThreadIx,
    /// The running thread's record, which nearly every operation needs.
    pub(crate) running: *mut Thread,
    /// Indexed by [`ThreadIx`]; boxed because threads keep pointers to their records.
    #[allow(clippy::vec_box, reason = "threads keep pointers to their records")]
    pub(crate) threads: Vec<Box<Thread>>,
    /// The number of threads that have not ended yet.
    pub(crate) live: u32,
    pub(crate) ready: ThreadSet,
    pub(crate) by_timeout: ThreadSet,
    /// Which of these may go on now.
    pub(crate) timeouts: Box<EarlyTimeouts>,
    /// The running thread, while it is in an undivided region; then no other thread can be chosen.
    pub(crate) sole_runner: ThreadSet,
    /// Threads at a gate that may be closed.
    pub(crate) waiting: ThreadSet,
    /// The number of waiting threads whose condition must be polled.
    pub(crate) polled: u32,
    /// True from a pick until the picked thread logs its event.
    pub(crate) picked: bool,
    /// The flags of the next event that describe the switch and the wait before it.
    pub(crate) switch_flags: NextFlags,
    /// Signals that were sent to the process.
    pub(crate) signals: PendingSignals,
    /// Signals that some descriptor (`signalfd`) reports.
    pub(crate) listened: SignalSet,
    /// Signals that were handed to the kernel for such a descriptor, in order; some may have been read.
    pub(crate) kept: Vec<KeptSignal>,
    pub(crate) timers: Timers,
    /// True if threads may have different signal masks; then each switch changes the kernel's mask.
    pub(crate) masks_differ: bool,
    /// True if a library-internal operation is in progress: it is no schedule point and no event.
    pub(crate) muted: bool,
    /// Nesting depth of calls during which no other thread may run, because the C library holds one of its
    /// locks.
    pub(crate) undivided: u32,
    /// The values that instrumented code last stored in atomic variables.
    pub(crate) atomic_values: AtomicValues,
    /// True if the operation in progress left memory unchanged.
    pub(crate) unchanged: bool,
    /// The number of consecutive events that changed nothing.
    pub(crate) fruitless_events: u64,
    pub(crate) max_fruitless_events: u64,
    pub(crate) rounds: RoundDetector,
    pub(crate) spurious: bool,
    /// True if a schedule point follows each creation of a thread: accesses that come after it are not seen.
    pub(crate) continuations: bool,
    /// The thread that is at such a point.
    pub(crate) after_creation: Option<ThreadIx>,
    /// The program has used file locks.
    pub(crate) has_file_locks: bool,
    /// Threads that ended and that no thread will join.
    pub(crate) to_reap: Vec<ThreadIx>,
    pub(crate) log: Log,
    pub(crate) clock: VirtualClock,
    pub(crate) entropy: Entropy,
    pub(crate) queues: Queues,
    pub(crate) keys: Keys,
    pub(crate) openmp: OpenMpLocks,
    pub(crate) descriptors: Descriptors,
    /// The files behind descriptors.
    pub(crate) open_files: OpenFileNames,
    pub(crate) recorded_paths: RecordedPaths,
    pub(crate) taken_ports: TakenPorts,
    /// The positions up to which the plan's inputs have been consumed.
    pub(crate) input_positions: InputPositions,
    /// A reusable buffer for the descriptors that all threads wait for.
    pub(crate) environment_fds: Vec<libc::pollfd>,
    /// The number of times a file lock may have been released.
    pub(crate) file_locks_changed: u64,
    pub(crate) modules: Modules,
    pub(crate) places: PlanSites,
    /// The log of plain accesses, if the plan asks for it.
    pub(crate) access_log: AccessLog,
    /// The conflict search, if it is enabled.
    pub(crate) conflicts: Option<Box<ConflictMonitor>>,
    /// True if each schedule point is observed: its choices are recorded, plain accesses are logged, or a debugger follows
    /// the run.
    pub(crate) observed: bool,
}

/// The flags of the next event, in a word of their own. Two bytes beside other small fields would be loaded together with
/// a neighbour that was just stored, and the processor would wait for that store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NextFlags(u32);

impl NextFlags {
    #[inline]
    pub(crate) const fn set(&mut self, flags: Flags) {
        self.0 = flags.0 as u32;
    }

    #[inline]
    pub(crate) const fn add(&mut self, flags: Flags) {
        self.0 |= flags.0 as u32;
    }

    #[inline]
    pub(crate) const fn remove(&mut self, flags: Flags) {
        self.0 &= !(flags.0 as u32);
    }

    #[inline]
    pub(crate) const fn get(self) -> Flags {
        Flags(self.0 as u16)
    }
}

struct RuntimeCell(UnsafeCell<MaybeUninit<Runtime>>, UnsafeCell<usize>);

// SAFETY: only the running thread reaches it (see the crate's documentation).
unsafe impl Sync for RuntimeCell {}

/// The run, and the thread pointer of the current thread, which is 0 while the runtime is passive. The thread
/// pointer alone says whether there is a run: an `Option` would inspect a part of the plan, and every hook
/// would leave that part in a register.
static RUNTIME: RuntimeCell = RuntimeCell(UnsafeCell::new(MaybeUninit::uninit()), UnsafeCell::new(0));

impl Runtime {
    /// Returns the run if the caller is its current thread. Returns `None` if the runtime is passive and for
    /// kernel threads that are just starting or ending.
    #[inline]
    pub(crate) fn enter() -> Option<&'static mut Self> {
        // SAFETY: only the running thread changes this word; another kernel thread sees some value that is
        // not its own thread pointer.
        let current = unsafe { RUNTIME.1.get().read_volatile() };
        if current != sys::thread_pointer() {
            return None;
        }
        // SAFETY: the caller is the running thread, so there is a run.
        Some(unsafe { (*RUNTIME.0.get()).assume_init_mut() })
    }

    /// Takes control: hooks enter the runtime from now on.
    pub(crate) fn begin(self) -> &'static mut Self {
        // SAFETY: called once, before any hook can enter.
        unsafe {
            *RUNTIME.1.get() = sys::thread_pointer();
            (*RUNTIME.0.get()).write(self)
        }
    }

    /// Gives up control in a forked child: hooks no longer enter the runtime. A crash of the child is not
    /// reported in the memory that it shares with its parent and the controller.
    pub(crate) fn abandon() {
        crate::tracer::abandon();
        // SAFETY: the caller is the running thread.
        unsafe { *RUNTIME.1.get() = 0 };
    }

    /// Informs the compiler that `self` is at a constant address. If a single caller loads the reference from
    /// memory, the compiler cannot derive this, and hot paths would keep the address in a register.
    #[inline(always)]
    pub(crate) fn assume_single(&self) {
        // SAFETY: `begin` puts the only runtime there before any reference to it exists.
        unsafe { assert_unchecked(ptr::eq(self, RUNTIME.0.get().cast())) };
    }

    /// Sets the thread pointer of the current thread.
    #[inline]
    pub(crate) fn set_current(thread_pointer: usize) {
        // SAFETY: the caller is the running thread.
        unsafe { RUNTIME.1.get().write_volatile(thread_pointer) };
    }

    /// Returns the word by which hooks recognise the running thread.
    pub(crate) fn control() -> *mut usize {
        RUNTIME.1.get()
    }

    /// Returns the run for a signal handler, which may interrupt the running thread in the middle of an
    /// operation.
    pub(crate) fn interrupted() -> Option<&'static mut Self> {
        // SAFETY: the handlers that use this touch no state that may be half updated.
        unsafe { if *RUNTIME.1.get() == 0 { None } else { Some((*RUNTIME.0.get()).assume_init_mut()) } }
    }
}

impl State {
    /// Returns how threads are executed.
    pub(crate) fn backend(&self) -> ThreadBackend {
        self.threads[0].context.backend()
    }

    #[inline]
    pub(crate) fn thread(&mut self, thread: ThreadIx) -> &mut Thread {
        &mut self.threads[thread.index()]
    }

    /// Returns the source of the program's random numbers, which it uses now.
    pub(crate) fn random(&mut self) -> &mut Entropy {
        self.log.note_random();
        &mut self.entropy
    }

    /// Returns the running thread.
    #[inline]
    pub(crate) fn me(&mut self) -> &mut Thread {
        // SAFETY: records do not move; the pointer is set at every switch.
        unsafe { &mut *self.running }
    }

    /// Returns the thread with this handle, unless it was forgotten or reaped.
    pub(crate) fn by_handle(&self, handle: usize) -> Option<ThreadIx> {
        let found = self.threads.iter().rev().find(|t| t.handle == handle && !t.forgotten && !t.reaped)?;
        Some(found.ix)
    }

    /// Updates the thread's membership in the ready and timeout sets by its gate.
    pub(crate) fn reclassify(&mut self, thread: ThreadIx) {
        let readiness = self.readiness(thread);
        self.ready.set(thread, readiness == Readiness::Ready);
        let by_timeout = readiness == Readiness::ByTimeout;
        if by_timeout || self.by_timeout.contains(thread) {
            self.reclassify_by_timeout(thread, by_timeout);
        }
    }

    #[cold]
    fn reclassify_by_timeout(&mut self, thread: ThreadIx, by_timeout: bool) {
        self.by_timeout.set(thread, by_timeout);
        if by_timeout {
            let deadline = self.threads[thread.index()].pending.deadline;
            let is_by_time = deadline != u64::MAX && !self.resumes_without_others(thread);
            self.thread(thread).timed_wait.deadline = is_by_time.then_some(deadline);
            self.timeouts.enter(thread);
        } else {
            self.timeouts.leave(thread);
        }
    }

    /// Marks a thread whose wait is over as ready.
    #[inline]
    pub(crate) fn end_wait(&mut self, thread: ThreadIx) {
        if self.by_timeout.contains(thread) {
            self.reclassify_by_timeout(thread, false);
        }
        self.waiting.set(thread, false);
        self.ready.set(thread, true);
    }

    /// Returns the progress of the run, on which time-outs depend.
    pub(crate) fn progress(&self) -> RunProgress {
        RunProgress { now: self.clock.now(), events: self.log.count(), fruitless: self.fruitless_events }
    }

    /// Notes that a thread waits for this deadline from now on.
    #[cold]
    pub(crate) fn begin_timed_wait(&mut self, thread: ThreadIx, deadline: u64) {
        let run = self.progress();
        let wait = &mut self.threads[thread.index()].timed_wait;
        wait.patience = self.timeouts.patience(run, deadline, wait.early);
    }

    /// Lets a thread's time-out expire.
    #[cold]
    pub(crate) fn pass_deadline(&mut self, thread: ThreadIx) {
        let run = self.progress();
        let thread = &mut self.threads[thread.index()];
        let is_early = self.timeouts.expire(run, thread.timed_wait);
        thread.timed_wait.early += u32::from(is_early);
        // Another thread may have changed the deadline: a timer's.
        self.clock.pass(thread.pending.deadline);
    }

    /// Determines which time-outs may expire now, if that may have changed.
    #[inline(never)]
    pub(crate) fn update_timeouts(&mut self) {
        let run = self.progress();
        if self.timeouts.is_outdated(run, &self.ready) {
            self.determine_timeouts(run);
        }
    }

    #[cold]
    fn determine_timeouts(&mut self, run: RunProgress) {
        let Self { timeouts, ready, by_timeout, threads, log, .. } = self;
        let thread = |ix: ThreadIx| &threads[ix.index()];
        timeouts.update(run, ready, by_timeout, |ix| thread(ix).yields(), |ix| thread(ix).timed_wait);
        let Withheld { short, long } = timeouts.withheld();
        let bits = u32::from(short) * WITHHELD_SHORT + u32::from(long) * WITHHELD_LONG;
        log.header().withheld.store(bits, Ordering::Relaxed);
    }

    /// Reads a clock for the program; returns `None` for clocks that are not virtual.
    pub(crate) fn read_clock(&mut self, clock: i32) -> Option<u64> {
        self.note_clock();
        self.clock.read(clock)
    }

    /// Reads the time of day for the program.
    pub(crate) fn read_wall_clock(&mut self) -> u64 {
        self.note_clock();
        self.clock.read_wall_clock()
    }

    /// Reads the processor time for the program.
    pub(crate) fn read_cpu_clock(&mut self) -> u64 {
        self.note_clock();
        self.clock.read_cpu_clock()
    }

    /// Notes that a clock is read. What a single thread reads there is the same in every run.
    fn note_clock(&self) {
        if self.threads.len() > 1 {
            self.log.note_influence(READ_CLOCK);
        }
    }

    /// Learns of newly loaded libraries and resolves the plan's sites in them.
    pub(crate) fn refresh_modules(&mut self) {
        stack::run_isolated(|| {
            self.modules.refresh(&self.log);
            self.places = heap::with_plan_heap(|| PlanSites::of(&self.log, &self.modules));
        });
    }

    /// Re-evaluates the threads that wait for the object at this address, after it changed.
    #[inline]
    pub(crate) fn changed(&mut self, addr: usize) {
        if !self.waiting.is_empty() {
            self.reclassify_at(addr);
        }
    }

    #[cold]
    fn reclassify_at(&mut self, addr: usize) {
        let mut next = 0;
        while let Some(thread) = self.waiting.first_from(next) {
            next = thread.index() + 1;
            if self.thread(thread).pending.gate.depends_on(addr) {
                self.reclassify(thread);
            }
        }
    }

    /// Re-evaluates the gates that open without an event.
    #[cold]
    pub(crate) fn poll(&mut self) {
        if self.waiting.iter().any(|thread| self.waits_for_children(thread)) {
            children::settle();
        }
        let mut next = 0;
        while let Some(thread) = self.waiting.first_from(next) {
            next = thread.index() + 1;
            if self.thread(thread).pending.gate.is_polled() {
                self.reclassify(thread);
            }
        }
    }

    /// Voids wake-ups after a waiter left without one: those that only this waiter could have taken.
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

    /// Returns the threads that wait at gates accepted by `at`, in creation order.
    pub(crate) fn waiters(&self, at: impl Fn(&Gate) -> bool) -> impl Iterator<Item = ThreadIx> {
        self.waiting.iter().filter(move |t| at(&self.threads[t.index()].pending.gate))
    }
}

static NO_THREADS: ThreadSet = ThreadSet::new();

impl RunView for State {
    #[inline]
    fn is_after_creation(&self) -> bool {
        self.after_creation == Some(self.current)
    }

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
        if self.sole_runner.is_empty() { &self.by_timeout } else { &NO_THREADS }
    }

    #[inline]
    fn may_expire(&self) -> &ThreadSet {
        if self.sole_runner.is_empty() { self.timeouts.may_expire() } else { &NO_THREADS }
    }

    fn earliest_timeout(&self) -> Option<ThreadIx> {
        self.by_timeout.iter().min_by_key(|t| {
            let thread = &self.threads[t.index()];
            if thread.child_ended { 0 } else { thread.pending.deadline }
        })
    }

    #[inline]
    fn yields(&self, thread: ThreadIx) -> bool {
        self.threads[thread.index()].yields()
    }

    #[inline]
    fn current_can_continue(&self) -> bool {
        // SAFETY: as in `me`.
        let me = unsafe { &*self.running };
        self.ready.contains(self.current) && !me.yields()
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

/// Maps operations that are only known at execution to the requested one: the first thread at a once control
/// runs the routine, the others pass.
const fn requested_op(op: Op) -> u8 {
    match op {
        Op::OnceBegin => Op::OncePass as u8,
        other => other as u8,
    }
}

/// Returns the thread pointer of a thread that is about to run.
pub(crate) fn pointer_of(thread: &Thread) -> usize {
    thread.context.thread_pointer
}
