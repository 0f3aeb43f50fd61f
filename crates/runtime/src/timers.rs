//! Timers in virtual time.
//!
//! One thread serves all timers of the process. The runtime creates it when the first timer is set, and it
//! sleeps until the earliest one fires. So the firing of a timer is a choice of the schedule like the end of
//! every other sleep, under the same rule, and a program that only waits for a timer does not wait for long.

use crate::{
    gate::Gate,
    hooks::thread,
    signals::{Info, SentSignal},
    state::{Runtime, State},
    sys,
    thread::{Pending, StartRoutine, ThreadRequest},
    turn::Turn,
};
use alloc::vec::Vec;
use core::ffi::c_void;
use unsnarl_model::{Flags, Op, ThreadIx, Timeouts};

/// The action of a timer when it fires.
#[derive(Clone, Copy)]
pub(crate) enum TimerAction {
    /// Nothing: it is only queried.
    None,
    /// Sends a signal to a thread or to the process, with this information for its handler.
    Signal { signal: i32, to: Option<ThreadIx>, info: Info },
    /// Starts a thread that runs a function.
    Thread { function: StartRoutine, value: *mut c_void },
    /// Counts expirations for the readers of a descriptor.
    Count { fd: i32 },
}

/// A timer of the program.
#[derive(Clone, Copy)]
pub(crate) struct Timer {
    pub(crate) id: u64,
    /// The time at which it fires next; `u64::MAX` if it is not set.
    pub(crate) at: u64,
    /// Its interval; 0 if it fires once.
    pub(crate) again: u64,
    pub(crate) clock: i32,
    pub(crate) on_expiry: TimerAction,
    /// The number of times it fired while its signal was still pending.
    pub(crate) overrun: u32,
}

/// All timers, and the thread that makes them fire.
#[derive(Default)]
pub(crate) struct Timers {
    pub(crate) all: Vec<Timer>,
    pub(crate) thread: Option<ThreadIx>,
    made: u64,
}

/// The timer of `alarm` and `setitimer`.
pub(crate) const REAL: u64 = 0;

impl Timers {
    /// Adds a timer.
    pub(crate) fn add(&mut self, clock: i32, on_expiry: TimerAction) -> u64 {
        self.made += 1;
        self.all.push(Timer { id: self.made, at: u64::MAX, again: 0, clock, on_expiry, overrun: 0 });
        self.made
    }

    pub(crate) fn get(&mut self, id: u64) -> Option<&mut Timer> {
        if id == REAL && !self.all.iter().any(|timer| timer.id == REAL) {
            let info = Info::of(libc::SIGALRM, SI_KERNEL, [0, 0], 0);
            let on_expiry = TimerAction::Signal { signal: libc::SIGALRM, to: None, info };
            let clock = libc::CLOCK_REALTIME;
            self.all.push(Timer { id: REAL, at: u64::MAX, again: 0, clock, on_expiry, overrun: 0 });
        }
        self.all.iter_mut().find(|timer| timer.id == id)
    }

    fn next(&self) -> Option<usize> {
        let set = self.all.iter().enumerate().filter(|(_, timer)| timer.at != u64::MAX);
        set.min_by_key(|(_, timer)| timer.at).map(|(at, _)| at)
    }
}

const SI_KERNEL: i32 = 0x80;

impl State {
    /// Removes the timer of a closed descriptor, whose number may be reused.
    pub(crate) fn forget_timer_of(&mut self, fd: i32) {
        let counts = |timer: &Timer| matches!(timer.on_expiry, TimerAction::Count { fd: own } if own == fd);
        if self.timers.all.iter().any(counts) {
            self.timers.all.retain(|timer| !counts(timer));
            self.timers_changed();
        }
    }

    /// Returns how many more intervals of a timer have passed than the one that fires now: other time-outs may have
    /// skipped much time. The kernel does not repeat them either, but counts them.
    fn missed_intervals(&self, at: usize) -> u64 {
        let Timer { at: when, again, .. } = self.timers.all[at];
        // Traces from before there was another rule have an event for each.
        if again == 0 || self.timeouts.rule() == Timeouts::Eager {
            return 0;
        }
        self.clock.now().saturating_sub(when) / again
    }

    /// Adapts the timer thread's deadline after timers were set or stopped.
    fn timers_changed(&mut self) {
        let at = self.timers.next().map_or(u64::MAX, |next| self.timers.all[next].at);
        // A thread that does not wait looks at the timers by itself.
        if let Some(thread) = self.timers.thread.filter(|thread| self.waiting.contains(*thread)) {
            self.thread(thread).pending.deadline = at;
            self.begin_timed_wait(thread, at);
            self.reclassify(thread);
        }
    }
}

impl Runtime {
    /// Sets a timer to fire at `at` (never for `u64::MAX`) and then at each interval; returns its previous
    /// state. Returns `None` if there is no such timer.
    pub(crate) fn set_timer(&mut self, id: u64, at: u64, again: u64, pc: u64) -> Option<Timer> {
        self.state.timers.get(id)?;
        if at != u64::MAX {
            self.make_timer_thread(pc);
        }
        self.turn(Op::TimerSet, 0, pc);
        let timer = self.state.timers.get(id)?;
        let before = *timer;
        (timer.at, timer.again, timer.overrun) = (at, again, 0);
        self.state.timers_changed();
        self.log(Op::TimerSet, Flags::NONE, pc, 0, if at == u64::MAX { 0 } else { at });
        Some(before)
    }

    /// Deletes a timer.
    pub(crate) fn delete_timer(&mut self, id: u64, pc: u64) -> bool {
        let there = self.set_timer(id, u64::MAX, 0, pc).is_some();
        self.state.timers.all.retain(|timer| timer.id != id);
        there
    }

    fn make_timer_thread(&mut self, pc: u64) {
        if self.state.timers.thread.is_some() {
            return;
        }
        let mut handle = 0;
        let request = ThreadRequest {
            handle: &raw mut handle,
            attr: core::ptr::null(),
            start: run,
            arg: core::ptr::null_mut(),
            returns_int: false,
        };
        let Ok(thread) = self.create_parked(&request) else {
            crate::end::refuse("the kernel refused a thread for the program's timers (see `ulimit -u`)")
        };
        self.turn(Op::Create, 0, pc);
        let ix = self.take_over(&request, thread);
        let state = &mut self.state;
        state.timers.thread = Some(ix);
        state.log.thread_named(ix, b"timers");
        state.log.thread_joined_or_detached(ix);
        // The timer thread has no source line: the place of its creation is reported instead.
        state.log.thread(ix).start = pc - 1;
        let thread = state.thread(ix);
        thread.is_timer = true;
        thread.pending.pc = pc;
        self.log(Op::Create, Flags::NONE, pc, 0, ix.0.into());
    }

    /// Fires the earliest timer.
    fn fire(&mut self, pc: u64) {
        let state = &mut self.state;
        let Some(at) = state.timers.next() else { return };
        let missed = state.missed_intervals(at);
        let timer = &mut state.timers.all[at];
        let Timer { at: when, on_expiry, id, again, .. } = *timer;
        timer.at = if again == 0 { u64::MAX } else { when.saturating_add(again.saturating_mul(1 + missed)) };
        let event = state.log.count();
        let mut signal_number = 0;
        let mut is_sent = true;
        match on_expiry {
            TimerAction::Signal { signal, to, info } => {
                signal_number = signal;
                let is_pending = id != REAL && state.is_pending(signal, to, &info);
                let missed = u32::try_from(missed).unwrap_or(u32::MAX);
                let overrun = &mut state.timers.all[at].overrun;
                if is_pending {
                    *overrun = overrun.saturating_add(missed.saturating_add(1));
                } else {
                    *overrun = missed;
                    is_sent = state.send(SentSignal { signal, info, event: Some(event) }, to);
                }
            }
            TimerAction::Count { fd } => {
                let count = 1 + missed;
                // SAFETY: a count for the descriptor's readers.
                unsafe {
                    sys::call(
                        libc::SYS_write,
                        [fd as usize, &raw const count as usize, size_of::<u64>(), 0, 0, 0],
                    )
                };
            }
            TimerAction::None | TimerAction::Thread { .. } => {}
        }
        state.timers_changed();
        let flags = if is_sent { Flags::TIMED_OUT } else { Flags::TIMED_OUT | Flags::FAILED };
        self.log(Op::TimerFire, flags, pc, signal_number as usize, when);
        if let TimerAction::Thread { function, value } = on_expiry {
            self.call_in_thread(function, value);
        }
    }

    fn call_in_thread(&mut self, function: StartRoutine, value: *mut c_void) {
        let mut handle = 0;
        let request = ThreadRequest {
            handle: &raw mut handle,
            attr: core::ptr::null(),
            start: function,
            arg: value,
            returns_int: false,
        };
        let pc = function as usize as u64 + 1;
        if thread::create(self, &request, pc) == 0 {
            thread::detach(self, handle, pc);
        }
    }
}

/// The routine of the timer thread, which never ends.
unsafe extern "C-unwind" fn run(_: *mut c_void) -> *mut c_void {
    loop {
        let Some(runtime) = Runtime::enter() else { return core::ptr::null_mut() };
        let state = &mut runtime.state;
        let deadline = state.timers.next().map_or(u64::MAX, |next| state.timers.all[next].at);
        let pc = state.me().pending.pc;
        let turn = runtime.wait_turn(Pending {
            op: Op::TimerFire,
            pc,
            addr: 0,
            gate: Gate::Sleep,
            deadline,
            cancellable: false,
        });
        if turn == Turn::TimedOut {
            runtime.fire(pc);
        }
    }
}
