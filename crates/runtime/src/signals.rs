//! Pending signals: sent and not yet taken.
//!
//! A signal to a thread is pending at that thread, one to the process at the process. Every thread that does
//! not block it may take it, and the one that is scheduled first does: its handler runs before its next
//! operation. Which thread takes a signal, and where, is part of the schedule like every other
//! choice. The kernel is involved last: the thread that takes a signal makes the kernel send it to that
//! thread, so that the handler finds everything as in a normal delivery (see [`crate::handlers`]).

use crate::{
    context::ThreadBackend,
    environment::take_from_kernel,
    gate::Gate,
    handlers::{self, Disposition},
    heap, stack,
    state::{Runtime, State},
    sys,
    thread::{Pending, Thread},
    turn::Turn,
};
use alloc::vec::Vec;
use core::mem;
use unsnarl_model::{Flags, Op, ThreadIx};

/// A set of signals in the kernel's format.
pub(crate) type SignalSet = u64;

/// Returns the set of one signal.
pub(crate) const fn only(signal: i32) -> SignalSet {
    1 << (signal - 1)
}

/// The kernel's first real-time signal: from there on every instance is queued.
const FIRST_QUEUED: i32 = 32;

/// A pending signal.
#[derive(Clone, Copy)]
pub(crate) struct SentSignal {
    pub(crate) signal: i32,
    pub(crate) info: Info,
    /// The event that sent it; `None` if it came from outside.
    pub(crate) event: Option<u64>,
}

/// The information for a handler: the kernel's `siginfo_t`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct Info(pub(crate) [u32; 32]);

impl Info {
    /// Creates the information of a signal that this process sends: its ids and a value.
    pub(crate) fn sent(signal: i32, code: i32, value: u64) -> Self {
        // SAFETY: a query without side effects.
        let user = unsafe { sys::call(libc::SYS_getuid, [0; 6]) } as u32;
        Self::of(signal, code, [crate::hooks::ids::PROCESS as u32, user], value)
    }

    /// Creates it with two words and a value, whose meaning depends on the code.
    pub(crate) fn of(signal: i32, code: i32, words: [u32; 2], value: u64) -> Self {
        let mut info = [0; 32];
        (info[0], info[2]) = (signal as u32, code as u32);
        [info[4], info[5]] = words;
        (info[6], info[7]) = (value as u32, (value >> 32) as u32);
        Self(info)
    }

    /// Returns the information for a thread that waits for the signal: the C library reports `raise` as `kill` there.
    pub(crate) const fn as_awaited(mut self) -> Self {
        if self.code() == libc::SI_TKILL {
            self.0[2] = libc::SI_USER as u32;
        }
        self
    }

    pub(crate) const fn code(&self) -> i32 {
        self.0[2] as i32
    }

    /// Returns the sender's process id, if the code says that there is one.
    pub(crate) const fn process(&self) -> i32 {
        self.0[4] as i32
    }
}

impl SentSignal {
    /// Looks for a signal on the runtime's separate stack. If there is none, no stray bytes are copied from
    /// there.
    pub(crate) fn find(job: impl FnOnce() -> Option<Self>) -> Option<Self> {
        let mut sent = Self { signal: 0, info: Info([0; 32]), event: None };
        let is_there = stack::run_isolated(|| {
            let found = job();
            found.map(|found| sent = found).is_some()
        });
        is_there.then_some(sent)
    }
}

/// The maximum number of signals that are remembered as kept by the kernel.
const MAX_KEPT: usize = 64;

/// A signal that the kernel keeps for a descriptor.
#[derive(Clone, Copy)]
pub(crate) struct KeptSignal {
    sent: SentSignal,
    to: Option<ThreadIx>,
}

/// A wait that was left to run a handler: other threads may end it meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct SuspendedWait {
    pub(crate) gate: Gate,
    pub(crate) arrival: u64,
    pub(crate) granted: Option<u64>,
}

/// Signals that were sent and not taken.
#[derive(Default)]
pub(crate) struct PendingSignals(Vec<SentSignal>);

impl PendingSignals {
    /// Adds a signal. Standard signals are queued only once.
    pub(crate) fn push(&mut self, sent: SentSignal) {
        if sent.signal >= FIRST_QUEUED || !self.0.iter().any(|other| other.signal == sent.signal) {
            self.0.push(sent);
        }
    }

    /// Returns the set of queued signals.
    pub(crate) fn set(&self) -> SignalSet {
        self.0.iter().fold(0, |set, sent| set | only(sent.signal))
    }

    /// Takes the first signal of the lowest number.
    fn take(&mut self, of: SignalSet) -> Option<SentSignal> {
        let fits = |sent: &&SentSignal| only(sent.signal) & of != 0;
        let lowest = self.0.iter().filter(fits).map(|sent| sent.signal).min()?;
        let at = self.0.iter().position(|sent| sent.signal == lowest)?;
        Some(self.0.remove(at))
    }

    /// Removes a signal, which is ignored from now on.
    fn forget(&mut self, signal: i32) {
        self.0.retain(|sent| sent.signal != signal);
    }
}

/// The effect of a handler on the operation it interrupts.
enum Interruption {
    /// None.
    None,
    /// The operation fails, unless the handler was installed with `SA_RESTART`.
    MayRestart,
    /// The operation fails.
    Fails,
}

const fn interruption(pending: &Pending) -> Interruption {
    match pending.op {
        Op::SemWait => Interruption::MayRestart,
        // Sockets with a timeout do not restart.
        Op::FdRead | Op::FdWrite | Op::FdAccept | Op::FdConnect if pending.deadline != u64::MAX => {
            Interruption::Fails
        }
        Op::FdRead | Op::FdWrite | Op::FdAccept | Op::FdConnect | Op::FileLock => Interruption::MayRestart,
        // The futex hook restarts the wait itself, because the word may have changed.
        Op::Sleep | Op::FdWait | Op::SigWait | Op::SigPause | Op::FutexWoken => Interruption::Fails,
        _ => Interruption::None,
    }
}

impl State {
    /// Returns the signal mask of a thread.
    pub(crate) fn mask_of(&self, thread: ThreadIx) -> SignalSet {
        let t = &self.threads[thread.index()];
        if self.masks_differ && thread == self.current {
            t.context.own_mask(handlers::kernel_mask())
        } else if self.masks_differ && self.backend() == ThreadBackend::Kernel {
            t.context.own_mask(t.context.mask())
        } else {
            t.mask
        }
    }

    /// Returns the signals that the thread may take before its next operation.
    fn due(&self, thread: ThreadIx) -> SignalSet {
        let t = &self.threads[thread.index()];
        let sent = t.signals.set() | self.signals.set();
        if sent == 0 || t.ended || t.is_timer || t.interrupted {
            return 0;
        }
        // An awaited signal is not handled.
        let awaited = match t.pending.gate {
            Gate::Signal(set) => set,
            _ => 0,
        };
        let due = sent & !awaited & !self.mask_of(thread);
        (1..=64).filter(|signal| due & only(*signal) != 0).fold(due, |due, signal| {
            if handlers::disposition(signal) == Disposition::Ignored { due & !only(signal) } else { due }
        })
    }

    /// Returns whether there is a signal for the thread to handle.
    pub(crate) fn is_due(&self, thread: ThreadIx) -> bool {
        let t = &self.threads[thread.index()];
        t.must_check_signals && (self.due(thread) != 0 || (!t.interrupted && self.is_arrival_due(thread)))
    }

    /// Like [`Self::is_due`], but also if the plan has a signal that the thread may take while it waits.
    pub(crate) fn may_be_due(&self, thread: ThreadIx) -> bool {
        self.due(thread) != 0 || self.next_is_arrival(thread)
    }

    /// Returns whether one of these signals is pending for the thread.
    pub(crate) fn has_signal(&self, thread: ThreadIx, of: SignalSet) -> bool {
        (self.threads[thread.index()].signals.set() | self.signals.set()) & of != 0
    }

    /// Returns all signals that are pending for the running thread.
    pub(crate) fn pending_for_running_thread(&mut self) -> SignalSet {
        self.signals.set() | self.me().signals.set()
    }

    /// Takes one of these signals for the running thread, thread-directed ones first.
    pub(crate) fn take_signal(&mut self, of: SignalSet) -> Option<SentSignal> {
        if let Some(own) = self.me().signals.take(of) {
            return Some(own);
        }
        let taken = self.signals.take(of)?;
        // Other threads may have been about to take it.
        self.reclassify_waiters();
        Some(taken)
    }

    /// Takes a signal that the running thread has a handler for.
    fn take_due(&mut self) -> Option<SentSignal> {
        SentSignal::find(|| self.take_due_of_plan_or_queue())
    }

    fn take_due_of_plan_or_queue(&mut self) -> Option<SentSignal> {
        if let Some(again) = self.take_arrival() {
            return Some(again);
        }
        let due = self.due(self.current);
        let taken = self.take_signal(due)?;
        if taken.event.is_none() {
            self.record_arrival(Op::SigHandle, &taken);
        }
        Some(taken)
    }

    /// Re-evaluates the waiting threads after a change of pending signals.
    fn reclassify_waiters(&mut self) {
        // In a replay, a thread that waits for a signal may get it from the plan.
        stack::run_isolated(|| {
            let mut next = 0;
            while let Some(thread) = self.waiting.first_from(next) {
                next = thread.index() + 1;
                if self.threads[thread.index()].must_check_signals
                    || self.threads[thread.index()].pending.gate.is_for_signals()
                {
                    self.reclassify(thread);
                }
            }
        });
    }

    /// Returns whether a signal that is sent now would have no effect at all.
    fn is_dropped(&self, signal: i32, to: Option<ThreadIx>) -> bool {
        let keeps = |thread: ThreadIx| {
            let awaits = matches!(self.threads[thread.index()].pending.gate, Gate::Signal(set) if set & only(signal) != 0);
            awaits || self.mask_of(thread) & only(signal) != 0
        };
        handlers::disposition(signal) == Disposition::Ignored
            && match to {
                Some(thread) => !keeps(thread),
                None => !self.threads.iter().any(|t| !t.ended && !t.is_timer && keeps(t.ix)),
            }
    }

    /// Returns whether the timer's last signal is still pending.
    pub(crate) fn is_pending(&self, signal: i32, to: Option<ThreadIx>, info: &Info) -> bool {
        let queue = to.map_or(&self.signals, |thread| &self.threads[thread.index()].signals);
        queue.0.iter().any(|sent| sent.signal == signal && sent.info.0 == info.0)
    }

    /// Returns whether the signal can only be read from a descriptor: then the kernel keeps it.
    fn goes_to_descriptor(&self, signal: i32, to: Option<ThreadIx>) -> bool {
        let one = only(signal);
        let blocks = |t: &Thread| self.mask_of(t.ix) & one != 0;
        let awaits = |t: &Thread| matches!(t.pending.gate, Gate::Signal(set) if set & one != 0);
        let leaves = |t: &Thread| t.ended || t.is_timer || (blocks(t) && !awaits(t));
        self.listened & one != 0
            && match to {
                Some(thread) => leaves(&self.threads[thread.index()]),
                None => self.threads.iter().all(|t| leaves(t)),
            }
    }

    /// Sends a signal to a thread or to the process; returns false if it is ignored.
    pub(crate) fn send(&mut self, sent: SentSignal, to: Option<ThreadIx>) -> bool {
        if self.is_dropped(sent.signal, to) {
            return false;
        }
        if self.goes_to_descriptor(sent.signal, to) {
            return stack::run_isolated(|| self.log.replays_inputs() || self.keep_in_kernel(sent, to));
        }
        match to {
            Some(thread) => {
                let target = self.thread(thread);
                target.signals.push(sent);
                target.must_check_signals = true;
            }
            None => {
                self.signals.push(sent);
                self.threads.iter_mut().filter(|t| !t.ended).for_each(|t| t.must_check_signals = true);
            }
        }
        self.reclassify_waiters();
        true
    }

    /// Notes that a descriptor reports these signals, including those that are pending already.
    pub(crate) fn listen_to(&mut self, signals: SignalSet) {
        self.listened |= signals;
        self.masks_differ = true;
        for _ in 0..self.signals.0.len() {
            let sent = self.signals.0.remove(0);
            self.send(sent, None);
        }
        for thread in (0..self.threads.len()).map(|ix| ThreadIx(ix as u16)) {
            for _ in 0..self.thread(thread).signals.0.len() {
                let sent = self.thread(thread).signals.0.remove(0);
                self.send(sent, Some(thread));
            }
        }
    }

    /// Hands a signal to the kernel, which keeps it until it is read from a descriptor.
    fn keep_in_kernel(&mut self, sent: SentSignal, to: Option<ThreadIx>) -> bool {
        self.block_kept(only(sent.signal));
        if self.kept.len() == MAX_KEPT {
            // The earliest ones are read first.
            self.kept.remove(0);
        }
        // A replay does not get here.
        heap::with_plan_heap(|| self.kept.reserve_exact(MAX_KEPT - self.kept.len()));
        self.kept.push(KeptSignal { sent, to });
        hand_to_kernel(&sent)
    }

    /// Takes back the signals that the kernel keeps and that were not read, before a mask changes.
    pub(crate) fn take_kept(&mut self) {
        // A replay, for which the kernel keeps nothing, takes the same path.
        if self.listened == 0 {
            return;
        }
        stack::run_isolated(|| {
            for nth in (0..self.kept.len()).rev() {
                if take_from_kernel(only(self.kept[nth].sent.signal)).is_none() {
                    self.kept.remove(nth);
                }
            }
            self.unblock_kept();
        });
    }

    /// Sends the signals that were taken back.
    pub(crate) fn send_kept_again(&mut self) {
        if self.listened == 0 {
            return;
        }
        stack::run_isolated(|| {
            for _ in 0..self.kept.len() {
                let KeptSignal { sent, to } = self.kept.remove(0);
                self.send(sent, to);
            }
        });
    }

    /// Reacts to a changed action: pending signals that are now ignored are removed.
    pub(crate) fn action_changed(&mut self, signal: i32) {
        if handlers::has_arrivals() {
            self.take_arrivals();
        }
        if handlers::disposition(signal) == Disposition::Ignored {
            self.signals.forget(signal);
            self.threads.iter_mut().for_each(|t| t.signals.forget(signal));
        }
        self.reclassify_waiters();
    }
}

/// Leaves a signal that every thread blocks to the kernel.
fn hand_to_kernel(sent: &SentSignal) -> bool {
    let mut info = sent.info;
    let is_main = sys::thread() == sys::process();
    if !is_main && (info.code() >= 0 || info.code() == libc::SI_TKILL) {
        // The kernel lets only its main thread use these codes; with fibers that is every thread.
        info.0[2] = libc::SI_QUEUE as u32;
    }
    let arguments = [sys::process() as usize, sent.signal as usize, &raw const info as usize, 0, 0, 0];
    // SAFETY: a signal to this process, where it stays pending.
    unsafe { sys::call(libc::SYS_rt_sigqueueinfo, arguments) == 0 }
}

impl Runtime {
    /// Handles the signals or the cancellation that the running thread was picked for. Returns when it may
    /// perform its operation, with a pick for that.
    #[cold]
    pub(crate) extern "C-unwind" fn answer_calls(&mut self, op: Op, addr: usize, pc: u64) {
        loop {
            let me = self.state.me();
            if me.cancel.asynchronous && me.cancel.is_due() {
                self.log(op, Flags::CANCELLED, pc, addr, 0);
                crate::hooks::cancel::exit_cancelled();
            }
            let pending = me.pending;
            let Some(sent) = self.state.take_due() else {
                self.state.clear_signal_check();
                return;
            };
            self.handle(&sent, None);
            self.state.me().pending = pending;
            self.take_turn();
        }
    }

    /// Handles signals that were unblocked or sent to the running thread, before the program goes on.
    #[cold]
    pub(crate) extern "C-unwind" fn handle_due(&mut self, pc: u64) {
        loop {
            let me = self.state.current;
            self.state.me().must_check_signals = true;
            if !self.state.is_due(me) {
                self.state.clear_signal_check();
                return;
            }
            self.state.me().pending = Pending {
                op: Op::SigHandle,
                pc,
                addr: 0,
                gate: Gate::Open,
                deadline: u64::MAX,
                cancellable: false,
            };
            self.take_turn();
            match self.state.take_due() {
                Some(sent) => self.handle(&sent, None),
                None => {
                    self.log_woken(Op::SigHandle, Flags::FAILED, pc, (0, 0), None);
                    None
                }
            };
        }
    }

    /// Handles a signal for which the waiting thread was picked. Returns how the wait ended, or `None` if it
    /// goes on at a gate that may have been opened meanwhile.
    #[cold]
    #[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
    pub(crate) extern "C-unwind" fn handle_in_wait(&mut self, pending: &mut Pending) -> Option<Turn> {
        let state = &mut self.state;
        let (arrival, granted) = (state.me().arrival, state.me().granted);
        // A futex wake-up counts as earlier than the signal.
        let woken = match state.me().pending.gate {
            Gate::Futex(word, _) if granted.is_none() => {
                let woken = state.queues.take(word, arrival);
                state.changed(word);
                woken
            }
            _ => granted,
        };
        let gate = state.me().pending.gate;
        // A semaphore with tokens is not waited for, so there is nothing to interrupt.
        let is_possible = matches!(gate, Gate::Semaphore(_))
            && state.readiness_at_gate(state.current) == crate::gate::Readiness::Ready;
        let taken = state.take_due();
        let suspended = SuspendedWait { gate, arrival, granted: woken };
        let suspended = match taken {
            Some(sent) => self.handle_suspended(&sent, suspended),
            None => {
                self.log_woken(Op::SigHandle, Flags::FAILED, pending.pc, (0, 0), None);
                suspended
            }
        };
        let me = self.state.me();
        (me.arrival, me.granted) = (suspended.arrival, suspended.granted);
        pending.gate = suspended.gate;
        let fails = match interruption(pending) {
            Interruption::None => false,
            Interruption::MayRestart => !me.restarts,
            Interruption::Fails => true,
        };
        if !fails || is_possible || (matches!(gate, Gate::Futex(..)) && woken.is_some()) {
            return None;
        }
        // A thread that was woken from its sleep no longer yields to others.
        let op = if pending.op == Op::Sleep { Op::SigPause } else { pending.op };
        me.pending = Pending { op, gate: Gate::Open, deadline: u64::MAX, ..*pending };
        // Signals that arrive now are handled afterwards, with the mask that the thread has then.
        me.interrupted = true;
        self.take_turn();
        self.state.me().interrupted = false;
        self.state.me().pending.gate = pending.gate;
        Some(Turn::Interrupted)
    }

    fn handle_suspended(&mut self, sent: &SentSignal, suspended: SuspendedWait) -> SuspendedWait {
        self.handle(sent, Some(suspended)).unwrap_or(suspended)
    }

    /// Logs the event of the pick and runs the handler, which may wait for anything or never return.
    #[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
    extern "C-unwind" fn handle(
        &mut self,
        sent: &SentSignal,
        suspended: Option<SuspendedWait>,
    ) -> Option<SuspendedWait> {
        let me = self.state.me();
        let pending = me.pending;
        let awaited = mem::take(&mut me.awaited);
        me.suspended.extend(suspended);
        let restarts = handlers::restarts(sent.signal);
        self.log_woken(Op::SigHandle, Flags::NONE, pending.pc, (sent.signal as usize, 0), sent.event);
        // The path to this point differs in a replay, and the handler runs directly below this frame.
        stack::clear_unused_stack();
        handlers::raise(sent);
        stack::clear_unused_stack();
        // Time has passed and other threads have run.
        let me = self.state.me();
        me.awaited = awaited;
        me.pending = pending;
        me.must_check_signals = true;
        me.restarts = restarts;
        suspended.and_then(|_| me.suspended.pop())
    }
}

impl State {
    /// Removes the pending signals that the running thread does not block and that are ignored. As in the kernel, a
    /// blocked signal stays pending even if it is ignored, until it is unblocked.
    fn discard_ignored(&mut self) {
        let open = self.pending_for_running_thread() & !self.mask_of(self.current);
        for signal in (1..=64).filter(|&signal| open & only(signal) != 0) {
            if handlers::disposition(signal) == Disposition::Ignored {
                self.signals.forget(signal);
                self.me().signals.forget(signal);
            }
        }
    }

    /// Clears the check flag when there is nothing left to handle.
    fn clear_signal_check(&mut self) {
        if self.pending_for_running_thread() != 0 {
            self.discard_ignored();
        }
        let has_next_arrival = self.next_is_arrival(self.current);
        let me = self.me();
        me.must_check_signals = me.cancel.asynchronous || has_next_arrival;
    }

    /// Returns the suspended waits for an object of threads that handle a signal.
    pub(crate) fn suspended_at(&mut self, object: usize) -> impl Iterator<Item = &mut SuspendedWait> {
        self.threads.iter_mut().flat_map(|t| &mut t.suspended).filter(move |s| s.gate.depends_on(object))
    }
}
