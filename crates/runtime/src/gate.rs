//! Gates: conditions over the state of synchronisation objects that threads wait for.

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

/// The condition under which a thread's next operation is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Always possible.
    Open,
    /// The deadline has passed.
    Sleep,
    /// The mutex is free.
    Mutex(*const Mutex),
    /// The spin lock is free.
    Spin(*const i32),
    /// The lock can be taken for reading.
    Read(*const RwLock),
    /// The lock can be taken for writing.
    Write(*const RwLock),
    /// A wake-up is available, and the mutex is free.
    Cond(usize, *const Mutex),
    /// The count is not zero.
    Semaphore(*const u32),
    /// The thread has ended.
    Join(ThreadIx),
    /// The barrier's round is complete (another thread opens the gate).
    Barrier(usize),
    /// No thread runs the routine.
    Once(*const i32),
    /// No thread runs the initialiser.
    Guard(*const u8),
    /// A wake-up is available.
    Futex(usize, u32),
    /// One of the descriptors that the thread waits for is ready, according to the kernel.
    Descriptors,
    /// The plan has an input for the thread.
    Input,
    /// A file lock was released since this moment.
    FileLock(u64),
    /// One of these signals was sent.
    Signal(SignalSet),
    /// A matching child process has ended.
    Child(Children),
}

/// The state of a thread's next operation: enabled, enabled by a timeout, or blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It can go on now.
    Ready,
    /// It can go on only by a timeout or a spurious wake-up.
    ByTimeout,
    /// It cannot go on.
    Blocked,
}

impl Gate {
    /// Returns whether a change of the object at `addr` can open or close the gate.
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

    /// Returns whether the gate opens without an event: the C library ends a once routine when an exception
    /// leaves it, and the kernel changes descriptors.
    pub(crate) fn is_polled(self) -> bool {
        matches!(self, Self::Once(_) | Self::Guard(_) | Self::Descriptors | Self::FileLock(_))
    }
}

impl Gate {
    /// Returns whether the environment opens the gate, or the plan on its behalf.
    pub(crate) fn depends_on_environment(self) -> bool {
        matches!(self, Self::Descriptors | Self::Input | Self::Signal(_) | Self::Child(_))
    }

    /// Returns whether the thread waits for signals, or until a handler has run.
    pub(crate) fn is_for_signals(self) -> bool {
        matches!(self, Self::Signal(_))
    }
}

impl Thread {
    fn has_ready_descriptor(&self) -> bool {
        let fds = self.awaited.as_ptr() as usize;
        // SAFETY: the pointer and count describe the list. The kernel writes its findings into the entries,
        // and no code reads them.
        unsafe { sys::call(libc::SYS_poll, [fds, self.awaited.len(), 0, 0, 0, 0]) != 0 }
    }
}

impl State {
    /// Returns whether the thread can go on now, later or not at all.
    pub(crate) fn readiness(&self, thread: ThreadIx) -> Readiness {
        let must_check = self.threads[thread.index()].must_check_signals;
        if must_check && self.may_be_due(thread) { Readiness::Ready } else { self.readiness_at_gate(thread) }
    }

    /// Like [`Self::readiness`], but ignores signals.
    pub(crate) fn readiness_at_gate(&self, thread: ThreadIx) -> Readiness {
        let t = &self.threads[thread.index()];
        let pending = &t.pending;
        let timed = pending.deadline != u64::MAX;
        let by_timeout = if timed { Readiness::ByTimeout } else { Readiness::Blocked };
        let cancelled = pending.cancellable && t.cancel.is_due();
        let choose = |open: bool| if open || cancelled { Readiness::Ready } else { by_timeout };
        // SAFETY: objects are alive as long as threads wait for them; a program that breaks this rule fails
        // here as it would in the C library.
        unsafe {
            match pending.gate {
                Gate::Open => Readiness::Ready,
                Gate::Sleep => choose(false),
                Gate::Mutex(m) => choose((*m).can_lock(t)),
                Gate::Spin(word) => choose(*word == 1),
                Gate::Read(lock) => choose((*lock).can_read_lock(self, thread)),
                Gate::Write(lock) => choose((*lock).can_write_lock()),
                Gate::Cond(cond, mutex) => {
                    // However the wait ends, the mutex must be acquired again.
                    if !(*mutex).can_lock(t) {
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
                // A wait is replayed as a wait, so that its events are the same.
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
                // The scheduler does not control when a child ends, so the thread may be made to wait for it
                // at any moment. Whether it has ended must not matter: a replay does not know when it did.
                Gate::Child(_) if cancelled => Readiness::Ready,
                Gate::Child(_) => Readiness::ByTimeout,
                Gate::FileLock(moment) => choose(self.file_locks_changed != moment),
                Gate::Futex(word, _) => {
                    choose(t.granted.is_some() || self.queues.has_wake_up(word, t.arrival))
                }
            }
        }
    }

    /// Returns the thread that must act before this one can go on, if there is exactly one.
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
