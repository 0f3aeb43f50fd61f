//! The environment: if threads can only go on by input from outside, the carrier really waits for it.
//!
//! A descriptor whose peer is this process does not depend on the environment: a thread that waits for it
//! when no other thread can run waits for ever.

use crate::{
    children::{self, Children},
    descriptors::Peer,
    end,
    gate::Gate,
    handlers::{self, Disposition},
    signals::{Info, SentSignal, SignalSet, only},
    state::State,
    sys,
};
use unsnarl_model::{Op, ThreadIx};

/// The maximum real time to wait at once for virtual time, in nanoseconds, while input may come from outside.
const MAX_WAIT: u64 = 50_000_000;
/// Signals that people and services send to programs: waiting for one is waiting for the environment. Others
/// come from the program itself.
const ENVIRONMENT_SIGNALS: SignalSet = only(libc::SIGHUP)
    | only(libc::SIGINT)
    | only(libc::SIGQUIT)
    | only(libc::SIGTERM)
    | only(libc::SIGTSTP)
    | only(libc::SIGCONT)
    | only(libc::SIGWINCH);
/// The time between two checks for changes that the kernel does not announce, in nanoseconds.
const POLL_INTERVAL: u64 = 2_000_000;
/// The counterpart of [`MAX_WAIT`] for a child's end, which usually comes.
const MAX_WAIT_FOR_CHILD: u64 = 1_000_000_000;

fn is_for_child(gate: &Gate) -> bool {
    matches!(gate, Gate::Child(_))
}

impl State {
    /// Waits for the environment when no thread is ready, if a thread depends on it; reports a deadlock if no
    /// thread can ever go on.
    #[cold]
    pub(crate) fn wait_for_environment_or_deadlock(&mut self) {
        if self.by_timeout.iter().any(|thread| self.resumes_without_others(thread)) {
            return;
        }
        if handlers::has_arrivals() {
            self.take_arrivals();
            if !self.ready.is_empty() {
                return;
            }
        }
        if self.update_ended_children() {
            return;
        }
        loop {
            if !self.waiting.iter().any(|thread| self.waits_for_environment(thread)) {
                let waits_for_input = |gate: &Gate| *gate == Gate::Input;
                let replays = self.log.replays_inputs();
                let lacks_input = self.waiters(waits_for_input).next().is_some()
                    || (replays && self.waiting.iter().any(|t| self.may_be_signalled_by_environment(t)));
                if self.by_timeout.is_empty() && lacks_input {
                    end::lacks_input(self);
                }
                if self.by_timeout.is_empty() {
                    end::deadlock(self, "no thread can continue");
                }
                return;
            }
            let now = self.clock.now();
            let deadline = self.by_timeout.iter().map(|t| self.threads[t.index()].pending.deadline).min();
            // Virtual time passes at the pace of real time while input from outside may be on its way.
            let step =
                if self.waiters(is_for_child).next().is_some() { MAX_WAIT_FOR_CHILD } else { MAX_WAIT };
            let limit = deadline.filter(|&deadline| deadline != u64::MAX);
            self.wait_for_environment(limit.map(|deadline| deadline.saturating_sub(now).min(step)));
            self.poll();
            if self.update_ended_children() {
                return;
            }
            let others = |thread: ThreadIx| !is_for_child(&self.threads[thread.index()].pending.gate);
            if !self.ready.is_empty() || self.by_timeout.iter().any(others) {
                return;
            }
        }
    }

    /// Returns whether the environment may let the thread go on.
    pub(crate) fn waits_for_environment(&self, thread: ThreadIx) -> bool {
        let thread = &self.threads[thread.index()];
        match thread.pending.gate {
            Gate::Descriptors => thread.awaited.iter().any(|fd| {
                // SAFETY: only the kernel writes there, and not now.
                let fd = unsafe { (*fd.get()).fd };
                match self.descriptors.peer(fd) {
                    Some(Peer::Environment) => true,
                    Some(Peer::Children) => children::may_act(),
                    _ => false,
                }
            }),
            Gate::FileLock(_) => true,
            Gate::Signal(_) => !self.log.replays_inputs() && self.may_be_signalled_by_environment(thread.ix),
            Gate::Child(_) => !thread.child_ended,
            _ => false,
        }
    }

    /// Returns whether the thread waits for a signal that the environment may send.
    fn may_be_signalled_by_environment(&self, thread: ThreadIx) -> bool {
        let t = &self.threads[thread.index()];
        let Gate::Signal(set) = t.pending.gate else { return false };
        let awaited = if t.pending.op == Op::SigPause { self.handled_by(thread) } else { set };
        awaited & ENVIRONMENT_SIGNALS != 0 || (awaited & only(libc::SIGCHLD) != 0 && children::may_act())
    }

    /// Returns the signals that have a handler and that the thread does not block.
    fn handled_by(&self, thread: ThreadIx) -> SignalSet {
        let unblocked = !self.mask_of(thread);
        let handled = |signal: &i32| {
            only(*signal) & unblocked != 0 && handlers::disposition(*signal) == Disposition::Handled
        };
        (1..=31).filter(handled).fold(0, |set, signal| set | only(signal))
    }

    /// Returns whether the thread waits for data from or room at a child.
    pub(crate) fn waits_for_children(&self, thread: ThreadIx) -> bool {
        let thread = &self.threads[thread.index()];
        // SAFETY: only the kernel writes there, and not now.
        let peer =
            |fd: &core::cell::UnsafeCell<libc::pollfd>| self.descriptors.peer(unsafe { (*fd.get()).fd });
        thread.pending.gate == Gate::Descriptors
            && thread.awaited.iter().any(|fd| peer(fd) == Some(Peer::Children))
    }

    fn wait_for_environment(&mut self, limit: Option<u64>) {
        if let (None, Some(children)) = (limit, self.only_child_awaited()) {
            children.wait();
            return;
        }
        let mut fds = core::mem::take(&mut self.environment_fds);
        fds.clear();
        let mut needs_polling = false;
        // A signal is awaited explicitly, or interrupts a thread that does not block it.
        let (mut awaited, mut blocked) = (0, !0);
        for thread in self.waiting.iter() {
            blocked &= self.mask_of(thread);
            let thread = &self.threads[thread.index()];
            if let Gate::Signal(set) = thread.pending.gate {
                awaited |= set;
            }
            if thread.pending.gate == Gate::Descriptors {
                // SAFETY: only the kernel writes there, and not now.
                fds.extend(thread.awaited.iter().map(|fd| unsafe { *fd.get() }));
            }
            needs_polling |= matches!(thread.pending.gate, Gate::FileLock(_) | Gate::Child(_));
        }
        let limit = if needs_polling { Some(limit.unwrap_or(u64::MAX).min(POLL_INTERVAL)) } else { limit };
        let time = limit.map(crate::clock::timespec);
        let time = time.as_ref().map_or(0, |time| core::ptr::from_ref(time) as usize);
        let listener = if awaited == 0 { -1 } else { open_signal_descriptor(awaited) };
        fds.push(libc::pollfd { fd: listener, events: libc::POLLIN, revents: 0 });
        let mask = crate::dispatch::mask(crate::unblockable::mask(blocked | awaited));
        let mask = &raw const mask as usize;
        // SAFETY: the count is the list's length.
        unsafe {
            sys::call(
                libc::SYS_ppoll,
                [fds.as_mut_ptr() as usize, fds.len(), time, mask, size_of::<SignalSet>(), 0],
            )
        };
        if listener >= 0 {
            // SAFETY: the runtime's descriptor.
            unsafe { sys::call(libc::SYS_close, [listener as usize, 0, 0, 0, 0, 0]) };
            while let Some(sent) = take_from_kernel(awaited) {
                self.send(sent, None);
            }
        }
        if handlers::has_arrivals() {
            self.take_arrivals();
        }
        self.file_locks_changed += u64::from(needs_polling);
        self.environment_fds = fds;
    }

    /// Returns the awaited children, if nothing else is awaited.
    fn only_child_awaited(&self) -> Option<Children> {
        let mut waits = self.waiting.iter().map(|thread| self.threads[thread.index()].pending.gate);
        let is_awaited = |gate: &Gate| matches!(gate, Gate::Child(_) | Gate::Descriptors | Gate::FileLock(_));
        match waits.find(is_awaited) {
            Some(Gate::Child(children)) if !waits.any(|gate| is_awaited(&gate)) => Some(children),
            _ => None,
        }
    }

    /// Returns whether a child that a thread waits for has ended.
    fn update_ended_children(&mut self) -> bool {
        if self.waiters(is_for_child).next().is_none() {
            return false;
        }
        // Which of two children ends first must not depend on their speed.
        children::settle();
        let (mut next, mut found) = (0, false);
        while let Some(thread) = self.waiting.first_from(next) {
            next = thread.index() + 1;
            let thread = self.thread(thread);
            if let Gate::Child(children) = thread.pending.gate {
                thread.child_ended = children.has_ended_child();
                found |= thread.child_ended;
            }
        }
        found
    }
}

/// Creates a descriptor that is ready when one of these signals has arrived.
fn open_signal_descriptor(set: SignalSet) -> i32 {
    let (none, set) = (-1isize as usize, &raw const set as usize);
    // SAFETY: only creates a descriptor.
    unsafe { sys::call(libc::SYS_signalfd4, [none, set, size_of::<SignalSet>(), 0, 0, 0]) as i32 }
}

/// Takes one of these signals from the kernel, where it is pending because every thread blocks it.
pub(crate) fn take_from_kernel(set: SignalSet) -> Option<SentSignal> {
    let mut sent = SentSignal { signal: 0, info: Info([0; 32]), event: None };
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let arguments = [
        &raw const set as usize,
        &raw mut sent.info as usize,
        &raw const now as usize,
        size_of::<SignalSet>(),
        0,
        0,
    ];
    // SAFETY: there is room for the result; does not wait.
    sent.signal = unsafe { sys::call(libc::SYS_rt_sigtimedwait, arguments) } as i32;
    (sent.signal > 0).then_some(sent)
}
