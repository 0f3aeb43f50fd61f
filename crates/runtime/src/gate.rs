//! What a thread waits for: a condition over the state of synchronisation objects.

use crate::{
    children::Children,
    hooks::{mutex::Mutex, rwlock::RwLock},
    input::WaitedForInput,
    signals::SignalSet,
    state::State,
    sys,
    thread::Thread,
};
use unsnarl_model::ThreadIx;

/// What must hold for a thread's next operation to be possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nothing.
    Open,
    /// Time must pass.
    Sleep,
    /// The mutex is free.
    Mutex(*const Mutex),
    /// The spin lock is free.
    Spin(*const i32),
    /// The lock can be taken for reading.
    Read(*const RwLock),
    /// The lock can be taken for writing.
    Write(*const RwLock),
    /// A wake-up came, and the mutex is free.
    Cond(usize, *const Mutex),
    /// The count is not zero.
    Semaphore(*const u32),
    /// The thread ended.
    Join(ThreadIx),
    /// The barrier's round is complete (the gate is opened from outside).
    Barrier(usize),
    /// Nobody runs the routine.
    Once(*const i32),
    /// Nobody runs the initialiser.
    Guard(*const u8),
    /// A wake-up came.
    Futex(usize, u32),
    /// One of the descriptors that the thread waits for is ready: the kernel knows.
    Descriptors,
    /// The plan has an answer from outside for the thread.
    Input,
    /// A lock on a file was given back since this moment.
    FileLock(u64),
    /// One of these signals was sent.
    Signal(SignalSet),
    /// A child of this description ended.
    Child(Children),
}

/// Whether a thread can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Now.
    Ready,
    /// Only by time passing, or for no reason.
    ByTimeout,
    /// Not at all.
    Blocked,
}

impl Gate {
    /// Whether a change of the object at `addr` can open or close the gate.
    pub(crate) fn depends_on(self, addr: usize) -> bool {
        match self {
            Self::Open | Self::Sleep | Self::Join(_) | Self::Descriptors | Self::FileLock(_) => false,
            Self::Input | Self::Signal(_) | Self::Child(_) => false,
            Self::Mutex(m) => m as usize == addr,
            Self::Spin(word) | Self::Once(word) => word as usize == addr,
            Self::Read(lock) | Self::Write(lock) => lock as usize == addr,
            Self::Cond(cond, mutex) => cond == addr || mutex as usize == addr,
            Self::Semaphore(count) => count as usize == addr,
            Self::Barrier(barrier) => barrier == addr,
            Self::Guard(guard) => guard as usize == addr,
            Self::Futex(word, _) => word == addr,
        }
    }

    /// Whether it opens without anybody telling: the C library ends a routine when an exception leaves it, and
    /// descriptors are the kernel's.
    pub(crate) fn is_polled(self) -> bool {
        matches!(self, Self::Once(_) | Self::Guard(_) | Self::Descriptors | Self::FileLock(_))
    }
}

impl Gate {
    /// Whether the outside opens it, or the plan in its place.
    pub(crate) fn depends_on_environment(self) -> bool {
        matches!(self, Self::Descriptors | Self::Input | Self::Signal(_) | Self::Child(_))
    }

    /// Whether the thread waits for signals, or until a handler has run.
    pub(crate) fn is_for_signals(self) -> bool {
        matches!(self, Self::Signal(_))
    }
}

impl Thread {
    fn has_ready_descriptor(&self) -> bool {
        let fds = self.awaited.as_ptr() as usize;
        // SAFETY: as many entries as it says; the kernel writes down what it finds in each, which nobody reads.
        unsafe { sys::call(libc::SYS_poll, [fds, self.awaited.len(), 0, 0, 0, 0]) != 0 }
    }
}

impl State {
    /// Whether the thread can go on now, late, or not at all.
    pub(crate) fn readiness(&self, thread: ThreadIx) -> Readiness {
        let called = self.threads[thread.index()].must_check_signals;
        if called && self.may_be_due(thread) { Readiness::Ready } else { self.readiness_at_gate(thread) }
    }

    /// Whether the thread's next operation is possible now, late, or not at all, whatever signals there are.
    pub(crate) fn readiness_at_gate(&self, thread: ThreadIx) -> Readiness {
        let t = &self.threads[thread.index()];
        let pending = &t.pending;
        let timed = pending.deadline != u64::MAX;
        let by_timeout = if timed { Readiness::ByTimeout } else { Readiness::Blocked };
        let cancelled = pending.cancellable && t.cancel.is_due();
        let choose = |open: bool| if open || cancelled { Readiness::Ready } else { by_timeout };
        // SAFETY: objects that threads wait for are alive as long as they are waited for; a program
        // that breaks this rule breaks here as it would break in the C library.
        unsafe {
            match pending.gate {
                Gate::Open => Readiness::Ready,
                Gate::Sleep => choose(false),
                Gate::Mutex(m) => choose((*m).lets_in(t)),
                Gate::Spin(word) => choose(*word == 1),
                Gate::Read(lock) => choose((*lock).lets_read(self, thread)),
                Gate::Write(lock) => choose((*lock).lets_write()),
                Gate::Cond(cond, mutex) => {
                    // Whatever ends the wait, the mutex must be had again.
                    if !(*mutex).lets_in(t) {
                        Readiness::Blocked
                    } else if cancelled || t.granted.is_some() || self.queues.has_wake_up(cond, t.arrival) {
                        Readiness::Ready
                    } else if timed || self.spurious {
                        Readiness::ByTimeout
                    } else {
                        Readiness::Blocked
                    }
                }
                Gate::Semaphore(count) => choose(*count > 0),
                Gate::Join(target) => choose(self.threads[target.index()].ended),
                Gate::Barrier(_) => Readiness::Blocked,
                Gate::Once(word) => choose(*word & 1 == 0),
                Gate::Guard(guard) => choose(*guard.add(1) == 0),
                Gate::Descriptors => choose(t.has_ready_descriptor()),
                // A wait is a wait in a replay too, so that it is told in the same way.
                Gate::Input => match self.has_input(thread) {
                    Some(WaitedForInput::No) => Readiness::Ready,
                    Some(WaitedForInput::Yes) => Readiness::ByTimeout,
                    None => choose(false),
                },
                Gate::Signal(set) if self.has_signal(thread, set) => Readiness::Ready,
                Gate::Signal(_) if self.log.replays_inputs() => match self.has_input(thread) {
                    Some(WaitedForInput::No) => Readiness::Ready,
                    Some(WaitedForInput::Yes) => Readiness::ByTimeout,
                    None => choose(false),
                },
                Gate::Signal(_) => choose(false),
                // When a child ends is not ours to say: the thread may be let wait for it at any moment. That it ended makes no
                // difference, or a replay, which does not know when it did, would.
                Gate::Child(_) if cancelled => Readiness::Ready,
                Gate::Child(_) => Readiness::ByTimeout,
                Gate::FileLock(moment) => choose(self.file_locks_changed != moment),
                Gate::Futex(word, _) => {
                    choose(t.granted.is_some() || self.queues.has_wake_up(word, t.arrival))
                }
            }
        }
    }

    /// Who would have to act for the thread to go on, where that is one thread.
    pub(crate) fn holder(&self, thread: ThreadIx) -> Option<ThreadIx> {
        // SAFETY: as in `readiness`.
        unsafe {
            match self.threads[thread.index()].pending.gate {
                Gate::Mutex(m) | Gate::Cond(_, m) => self.by_tid((*m).owner()),
                Gate::Spin(word) => self.by_tid((*word).unsigned_abs()),
                Gate::Read(lock) | Gate::Write(lock) => self.by_tid((*lock).writer()),
                Gate::Join(target) => Some(target),
                _ => None,
            }
        }
    }

    pub(crate) fn by_tid(&self, tid: u32) -> Option<ThreadIx> {
        let ix = tid.checked_sub(self.threads[0].tid)?;
        self.threads.get(ix as usize).map(|t| t.ix)
    }
}
