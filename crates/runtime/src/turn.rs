//! The schedule point: where the running thread asks which thread goes next.
//!
//! Every visible operation is executed the same way: the thread announces the operation, waits for its turn,
//! performs the operation and logs one event. Each pick yields exactly one event, which is why a schedule can
//! be replayed.

use crate::{
    debug, dispatch, end,
    gate::{Gate, Readiness},
    handlers,
    modules::Owner,
    snapshot, stack,
    state::{Runtime, pointer_of},
    thread::{Pending, Thread},
    tracer,
};
use unsnarl_model::{Flags, Op, Order, ThreadIx};
use unsnarl_sched::{Pick, PrefixDivergence, RunView, changes_nothing};
use unsnarl_wire::{RawEnabled, RawEvent};

/// The reason why a thread's turn came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The condition it waited for holds.
    Go,
    /// Its deadline passed.
    TimedOut,
    /// A spurious wake-up.
    Spurious,
    /// The thread was cancelled.
    Cancelled,
    /// A signal is pending and must be handled first.
    Signalled,
    /// A signal handler has run, and the wait is abandoned.
    Interrupted,
}

impl Turn {
    /// Returns the event flags that describe this turn.
    pub(crate) const fn flags(self) -> Flags {
        match self {
            Self::Go => Flags::NONE,
            Self::TimedOut => Flags::TIMED_OUT,
            Self::Spurious => Flags::SPURIOUS,
            Self::Cancelled => Flags::CANCELLED,
            Self::Signalled | Self::Interrupted => Flags::INTERRUPTED,
        }
    }
}

/// The reason why no thread was picked.
enum NoPick {
    /// The plan does not cover what follows.
    End,
    Diverged(PrefixDivergence),
}

impl Runtime {
    /// Blocks until the running thread's turn for an operation that is always possible.
    ///
    /// A thread with a pending asynchronous cancellation unwinds from here.
    #[inline]
    pub(crate) extern "C-unwind" fn turn(&mut self, op: Op, addr: usize, pc: u64) {
        self.assume_single();
        let state = &mut self.state;
        if state.is_quiet(pc) {
            state.muted = true;
            return;
        }
        let me = state.me();
        me.pending.op = op;
        me.pending.pc = pc;
        me.pending.addr = addr as u64;
        me.pending.gate = Gate::Open;
        me.pending.cancellable = false;
        self.take_turn();
        if self.state.me().must_check_signals {
            self.answer_calls(op, addr, pc);
        }
    }

    /// Blocks until the running thread's turn for an operation that may have to wait. Signals are handled
    /// during the wait.
    #[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
    pub(crate) extern "C-unwind" fn wait_turn(&mut self, mut pending: Pending) -> Turn {
        let turn = loop {
            let turn = self.wait_once(pending);
            if turn != Turn::Signalled {
                break turn;
            }
            if let Some(turn) = self.handle_in_wait(&mut pending) {
                break turn;
            }
        };
        // Another thread may have set the deadline later: a timer's.
        if pending.deadline != u64::MAX || turn == Turn::TimedOut {
            self.state.mark_bounded();
        }
        turn
    }

    /// Blocks until the running thread's turn for a try of an operation whose events are otherwise waits.
    #[inline]
    pub(crate) extern "C-unwind" fn try_turn(&mut self, op: Op, addr: usize, pc: u64) {
        self.turn(op, addr, pc);
        self.state.mark_bounded();
    }

    fn wait_once(&mut self, pending: Pending) -> Turn {
        self.assume_single();
        let state = &mut self.state;
        let ix = state.current;
        state.me().pending = pending;
        if pending.deadline != u64::MAX {
            state.begin_timed_wait(ix, pending.deadline);
        }
        if pending.gate.depends_on_environment() {
            stack::run_isolated(|| state.reclassify(ix));
        } else {
            state.reclassify(ix);
        }
        if state.is_quiet(pending.pc) && state.readiness_at_gate(ix) == Readiness::Ready {
            state.muted = true;
            return state.turn_at_gate(ix, true);
        }
        state.waiting.set(ix, true);
        state.polled += u32::from(pending.gate.is_polled());
        let blocked = !state.is_ready_without_signal(ix);
        state.me().blocked = blocked;
        if blocked {
            state.check_for_deadlock_cycle(ix);
        }
        if state.undivided > 0 {
            self.take_turn_inside();
        } else {
            self.take_turn();
        }

        let state = &mut self.state;
        let turn = state.turn_of(ix);
        state.polled -= u32::from(pending.gate.is_polled());
        if turn == Turn::TimedOut {
            state.pass_deadline(ix);
        }
        state.end_wait(ix);
        if blocked {
            state.switch_flags.add(Flags::BLOCKED);
        }
        if pending.gate.depends_on_environment() {
            stack::clear_unused_stack();
        }
        turn
    }

    /// Runs the picked thread; returns when the caller is picked.
    #[inline]
    pub(crate) fn take_turn(&mut self) {
        let me = self.state.current;
        let next = self.pick();
        if next != me {
            self.switch(next);
        }
    }

    /// Takes a turn inside an undivided region. This happens when the C library creates a thread and calls an
    /// allocator whose lock another thread holds. The other threads run as usual.
    #[cold]
    fn take_turn_inside(&mut self) {
        let undivided = core::mem::take(&mut self.state.undivided);
        let resume_guard = dispatch::ResumeGuard::new();
        self.take_turn();
        drop(resume_guard);
        self.state.undivided = undivided;
    }

    /// Lets the carrier continue with another thread for good: the current thread has ended.
    pub(crate) fn switch_away(&mut self) {
        let next = self.pick();
        // If the thread ever returns from here, it is on its own kernel thread and no longer controlled.
        self.leave_to(next);
    }

    #[inline]
    fn pick(&mut self) -> ThreadIx {
        self.assume_single();
        let Self { picker, state } = self;
        if state.polled > 0 || state.ready.is_empty() {
            stack::run_isolated(|| state.poll_environment());
        }
        let me = state.current;
        let sole_runner = state.me().undivided > 0 && state.current_can_continue();
        if sole_runner {
            state.sole_runner.set(me, true);
        }
        let mut other = None;
        let thread = stack::run_on_own_stack(|| {
            if !state.by_timeout.is_empty() {
                state.update_timeouts();
            }
            if state.observed {
                state.before_pick(picker.is_deferred());
            }
            let pick = picker.pick(state);
            if state.observed {
                state.after_pick(picker.is_deferred(), &pick);
            }
            match pick {
                Pick::Run(thread) => u32::from(thread.0),
                Pick::End => {
                    other = Some(NoPick::End);
                    0
                }
                Pick::Diverged(divergence) => {
                    other = Some(NoPick::Diverged(divergence));
                    0
                }
            }
        });
        if sole_runner {
            state.sole_runner.set(me, false);
        }
        match other {
            None => {
                state.picked = true;
                ThreadIx(thread as u16)
            }
            Some(NoPick::End) => {
                snapshot::wait(self);
                // Here the run continues in another process, with another plan.
                self.pick_again()
            }
            Some(NoPick::Diverged(divergence)) => end::diverged(state, divergence),
        }
    }

    #[cold]
    fn pick_again(&mut self) -> ThreadIx {
        self.pick()
    }

    #[inline]
    fn switch(&mut self, to: ThreadIx) {
        self.leave_to(to);
        self.arrive();
    }

    #[inline]
    fn leave_to(&mut self, to: ThreadIx) {
        self.assume_single();
        let state = &mut self.state;
        let preempts = if state.could_continue() { Flags::PREEMPTS } else { Flags::NONE };
        state.switch_flags.set(preempts);
        state.previous = state.current;
        state.current = to;
        tracer::switching(to, state.log.count());
        let from: *mut Thread = state.running;
        let to: *mut Thread = state.thread(to);
        state.running = to;
        // SAFETY: records do not move. The only reference into the state kept across the switch is `self`:
        // there is one runtime, and every hook obtains it again.
        unsafe {
            Self::set_current(pointer_of(&*to));
            (*from).context.switch(&(*to).context);
        }
    }

    /// Completes a switch to the running thread.
    #[inline]
    pub(crate) fn arrive(&mut self) {
        if self.state.rounds.is_active() {
            stack::clear_unused_stack();
        }
        if self.state.masks_differ {
            self.state.take_mask();
        }
    }

    /// Appends an event of the running thread; returns its number.
    #[inline]
    pub(crate) fn log(&mut self, op: Op, flags: Flags, pc: u64, addr: usize, value: u64) -> u64 {
        let event = RawEvent::new(self.state.current, op, flags, pc, addr as u64, value);
        self.append(op, flags, event, (pc, addr as u64, value))
    }

    /// Appends an operation that another event may have caused: the end of a wait, or a signal taken.
    pub(crate) fn log_woken(
        &mut self,
        op: Op,
        flags: Flags,
        pc: u64,
        (addr, value): (usize, u64),
        waker: Option<u64>,
    ) -> u64 {
        let event = RawEvent::new(self.state.current, op, flags, pc, addr as u64, value).woken_by(waker);
        self.append(op, flags, event, (pc, addr as u64, waker.unwrap_or(u64::MAX)))
    }

    /// Appends an operation with a count.
    pub(crate) fn log_count(
        &mut self,
        op: Op,
        flags: Flags,
        pc: u64,
        (addr, value): (usize, u64),
        count: u64,
    ) -> u64 {
        let event = RawEvent::new(self.state.current, op, flags, pc, addr as u64, value).with_size(count);
        self.append(op, flags, event, (pc, addr as u64, count))
    }

    /// Appends a memory access of the running thread.
    #[inline]
    pub(crate) fn log_access(
        &mut self,
        op: Op,
        flags: Flags,
        pc: u64,
        access: (usize, u64, Order),
        value: u64,
    ) {
        let (addr, size, order) = access;
        let event = RawEvent::new(self.state.current, op, flags, pc, addr as u64, value).access(size, order);
        self.append(op, flags, event, (pc, addr as u64, value));
    }

    /// Logs the operation in which the running thread dies: each pick needs one event, so that a replay gets
    /// equally far.
    #[cold]
    pub(crate) fn log_unfinished(&mut self) {
        let state = &mut self.state;
        if core::mem::take(&mut state.picked) {
            let Pending { op, pc, addr, .. } = state.me().pending;
            let event = RawEvent::new(state.current, op, Flags::FAILED, pc, addr, 0);
            // If there is no room for it, the replay ends one event earlier.
            let _ = state.log.append(event.with(state.switch_flags.get()));
        }
    }

    #[inline]
    fn append(&mut self, op: Op, flags: Flags, event: RawEvent, operation: (u64, u64, u64)) -> u64 {
        self.assume_single();
        let state = &mut self.state;
        if state.muted {
            state.muted = false;
            return state.log.count();
        }
        let unchanged = core::mem::take(&mut state.unchanged);
        let fruitless = changes_nothing(op, flags) || unchanged;
        state.fruitless_events = if fruitless { state.fruitless_events + 1 } else { 0 };
        // A schedule point in a waiting loop is neither progress nor a change of the loop.
        if op != Op::Point {
            state.me().spin_detector.note(fruitless, operation);
        }
        state.clock.tick();
        state.picked = false;
        let mut own_flags = core::mem::take(&mut state.switch_flags);
        let me = state.me();
        own_flags.add(me.region_flags.get());
        if me.unseen_order.is_unlogged() {
            own_flags.add(state.take_unseen_order());
        }
        let event = event.with(own_flags.get());
        if !state.log.has_room() {
            return self.append_slowly(event);
        }
        let number = state.log.store(event);
        if state.fruitless_events > state.max_fruitless_events {
            state.stop_without_progress();
        }
        if state.conflicts.is_some() {
            state.watch_event(&event, number);
        }
        number
    }
}

impl Runtime {
    /// Appends an event where more memory is needed or a check is due.
    #[cold]
    #[inline(never)]
    fn append_slowly(&mut self, event: RawEvent) -> u64 {
        // States are compared before anything here depends on the number of events: it would be found on the stack.
        let checked = self.state.log.is_check_due();
        let round = if checked { self.next_round(&event) } else { 0 };
        let number = self.append_whatever_it_takes(event, round);
        if checked {
            stack::clear_unused_stack();
        }
        number
    }

    #[inline(never)]
    fn append_whatever_it_takes(&mut self, event: RawEvent, round: u64) -> u64 {
        let state = &mut self.state;
        let number = state.log.append(event);
        if round > 0 {
            end::repeated_round(state, round);
        }
        if state.fruitless_events > state.max_fruitless_events {
            state.stop_without_progress();
        }
        let Some(number) = number else { end::full(state) };
        if state.conflicts.is_some() {
            state.watch_event(&event, number);
        }
        number
    }
}

impl crate::state::State {
    /// Ends the run, because nothing has changed for long. If something outside the program's threads can change
    /// what they wait for, or the end of a time, they are observed for as long again.
    #[cold]
    fn stop_without_progress(&mut self) {
        if self.by_timeout.is_empty() && !self.depends_on_outside() {
            end::livelock(self);
        }
        self.fruitless_events = 0;
    }

    /// Polls the gates that open without an event; if no thread can run, waits for the environment.
    #[cold]
    fn poll_environment(&mut self) {
        if self.polled > 0 {
            self.poll();
        }
        if self.ready.is_empty() {
            self.wait_for_environment_or_deadlock();
        }
    }

    /// Records what was written and which threads could run now, for observed runs. `waits`: the policy has not begun yet.
    #[cold]
    fn before_pick(&mut self, waits: bool) {
        self.access_log.settle();
        if handlers::has_arrivals() {
            self.take_arrivals();
        }
        if self.log.header().plan.choices > 0 && !waits {
            self.record_choices();
        }
    }

    /// Reports which thread runs now, for observed runs.
    #[cold]
    fn after_pick(&mut self, waits: bool, pick: &Pick) {
        if self.log.header().plan.choices > 0 && waits {
            self.record_single_choice(pick);
        }
        if debug::is_on() {
            debug::picked(self, pick, self.could_continue());
        }
    }

    /// Marks the next event, whose turn it is, as one that does not wait without limit.
    #[inline]
    fn mark_bounded(&mut self) {
        if !self.muted {
            self.switch_flags.add(Flags::BOUNDED);
        }
    }

    /// Removes the mark again.
    pub(crate) fn unmark_bounded(&mut self) {
        self.switch_flags.remove(Flags::BOUNDED);
    }

    /// Returns whether taking the processor from the running thread is a preemption.
    #[inline]
    fn could_continue(&self) -> bool {
        // SAFETY: as in `me`.
        let me = unsafe { &*self.running };
        // A trace does not record when input arrived during a wait, so a replay still waits there.
        let goes_on = if me.pending.gate.depends_on_environment() {
            !me.blocked
        } else {
            self.is_ready_without_signal(self.current)
        };
        goes_on && !me.pending.op.yields()
    }

    /// Returns whether the thread is ready for a reason other than a signal to handle. A trace records when a
    /// signal from outside was handled, not when it arrived, so no recorded fact may depend on the arrival.
    #[inline]
    fn is_ready_without_signal(&self, thread: ThreadIx) -> bool {
        self.ready.contains(thread)
            && (!self.threads[thread.index()].must_check_signals
                || self.readiness_at_gate(thread) == Readiness::Ready)
    }

    /// Records which threads could run now.
    fn record_choices(&mut self) {
        let mut choices = RawEnabled::default();
        for thread in self.ready().iter().chain(self.may_expire().iter()).filter(|thread| thread.index() < 64)
        {
            let bit = 1 << thread.index();
            let by_timeout = self.by_timeout.contains(thread);
            choices.can_run |= bit;
            choices.yields |= if by_timeout || self.yields(thread) { bit } else { 0 };
        }
        self.log.choices(choices);
    }

    /// Records the only choice: before the checkpoint there is no alternative.
    fn record_single_choice(&mut self, pick: &Pick) {
        if let Pick::Run(thread) = pick {
            let can_run = if thread.index() < 64 { 1 << thread.index() } else { 0 };
            self.log.choices(RawEnabled { can_run, ..RawEnabled::default() });
        }
    }

    /// Returns whether an operation at this site is internal to a library: it is no schedule point.
    #[inline]
    pub(crate) fn is_quiet(&mut self, pc: u64) -> bool {
        self.undivided > 0 || (!self.modules.is_program(pc) && self.is_unwinder(pc))
    }

    fn is_unwinder(&mut self, pc: u64) -> bool {
        if matches!(self.modules.owner(pc), Owner::Unknown) {
            // The C library loads the unwinder lazily.
            self.refresh_modules();
        }
        matches!(self.modules.owner(pc), Owner::Unwinder)
    }

    /// Returns whether the thread waited for an event from outside that the plan supplies.
    pub(crate) fn resumes_without_others(&self, thread: ThreadIx) -> bool {
        match self.threads[thread.index()].pending.gate {
            Gate::Input => self.has_input(thread).is_some(),
            Gate::Signal(set) => {
                self.log.replays_inputs() && !self.has_signal(thread, set) && self.has_input(thread).is_some()
            }
            _ => false,
        }
    }

    /// Returns the way in which the thread can go on.
    fn turn_of(&self, thread: ThreadIx) -> Turn {
        if self.threads[thread.index()].must_check_signals {
            return self.turn_with_signals(thread);
        }
        self.turn_at_gate(thread, self.ready.contains(thread))
    }

    #[cold]
    fn turn_with_signals(&self, thread: ThreadIx) -> Turn {
        let readiness = self.readiness_at_gate(thread);
        if self.is_due(thread) || (readiness == Readiness::Blocked && self.may_be_due(thread)) {
            Turn::Signalled
        } else {
            self.turn_at_gate(thread, readiness == Readiness::Ready)
        }
    }

    fn turn_at_gate(&self, thread: ThreadIx, ready: bool) -> Turn {
        let t = &self.threads[thread.index()];
        if t.pending.cancellable && t.cancel.is_due() {
            Turn::Cancelled
        } else if ready || self.resumes_without_others(thread) {
            Turn::Go
        } else if t.pending.deadline == u64::MAX {
            Turn::Spurious
        } else {
            Turn::TimedOut
        }
    }

    /// Ends the run if the thread, which is about to block, closes a cycle of threads that wait for each
    /// other's locks. That is a deadlock regardless of what other threads do.
    #[cold]
    fn check_for_deadlock_cycle(&self, thread: ThreadIx) {
        let mut at = thread;
        for _ in 0..self.threads.len() {
            let pending = &self.threads[at.index()].pending;
            let waits_for_lock =
                matches!(pending.gate, Gate::Mutex(_) | Gate::Spin(_) | Gate::Write(_) | Gate::Read(_));
            if !waits_for_lock || pending.deadline != u64::MAX || self.ready.contains(at) {
                return;
            }
            match self.holder(at) {
                Some(holder) if holder == thread => {
                    end::deadlock(self, "threads wait for each other in a cycle")
                }
                Some(holder) if !self.threads[holder.index()].ended && self.waiting.contains(holder) => {
                    at = holder
                }
                _ => return,
            }
        }
    }
}
