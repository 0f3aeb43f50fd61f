//! The state of all synchronisation objects between two events.
//!
//! The machine says which locks are held, by whom and since when, which threads wait for what, and whether an
//! operation could be executed next. It follows the events alone, so it does not know what leaves no event:
//! such questions have the answer [`Enabled::Unknown`].

mod expectations;
mod locks;
mod threads;
mod wait_queues;

pub use expectations::Expectations;
pub use locks::{Hold, LockChange};
pub use wait_queues::CondOrFutexWait;

pub(crate) use locks::{LockRequest, Locks};
pub(crate) use threads::Threads;
pub(crate) use wait_queues::WaitQueues;

use crate::{Contradiction, FileOp, MemoryOp, Operation, Step, barrier::Barriers, semaphore::Semaphores};
use alloc::collections::BTreeMap;
use unsnarl_model::{Event, Op, ThreadIx, Wait};

/// The state of locks, semaphores, barriers, once controls, waits and threads after some events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub(crate) locks: Locks,
    pub(crate) wait_queues: WaitQueues,
    pub(crate) semaphores: Semaphores,
    pub(crate) barriers: Barriers,
    /// The thread that runs the routine of a once control.
    pub(crate) once_routines: BTreeMap<u64, ThreadIx>,
    pub(crate) threads: Threads,
    pub(crate) expectations: Expectations,
    events: u64,
}

/// The answer to the question if an operation can be executed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enabled {
    /// It can.
    Yes,
    /// It can if time passes or the environment acts: no other thread has to do anything.
    IfTimePasses,
    /// It has to wait.
    No {
        /// The obstacle.
        by: Blocker,
    },
    /// The events do not show it.
    Unknown,
}

/// The obstacle to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// This thread holds the lock.
    Holder(ThreadIx),
    /// No signal has woken the thread.
    NotWoken,
    /// The semaphore's count is zero.
    NoToken,
    /// Not all threads have arrived at the barrier.
    MissingArrivals,
    /// This thread runs the once routine.
    Routine(ThreadIx),
    /// This thread has not ended.
    Running(ThreadIx),
    /// The signal was not sent.
    NotSent,
    /// The thread itself was not created.
    NotCreated,
}

impl Blocker {
    /// Returns whether an operation with a deadline ends in spite of the obstacle once the deadline has passed.
    const fn yields_to_time(self, operation: &Operation) -> bool {
        match self {
            // However a wait on a condition variable ends, the mutex must be acquired again.
            Self::Holder(_) => !matches!(operation, Operation::Cond(_)),
            Self::NotCreated => false,
            _ => true,
        }
    }
}

impl Machine {
    /// Builds the state before the first event of a run with these properties.
    #[must_use]
    pub fn new(expectations: Expectations) -> Self {
        let semaphores = Semaphores::with_counts(expectations.counts().clone());
        Self { semaphores, expectations, ..Self::default() }
    }

    /// Builds the state before these events, which are a whole run.
    #[must_use]
    pub fn before(events: &[Event]) -> Self {
        Self::new(Expectations::of(events))
    }

    /// Builds the state after these events, which begin with the first of a run.
    #[must_use]
    pub fn after(events: &[Event]) -> Self {
        let mut machine = Self::default();
        events.iter().for_each(|event| machine.follow(event));
        machine
    }

    /// Returns the number of events so far, which is the number of the next one.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Decodes the next event.
    #[must_use]
    pub fn decode(&self, event: &Event) -> Step {
        Step::decode(event, self.events)
    }

    /// Executes an operation.
    ///
    /// # Errors
    /// Returns an error if it cannot have happened now. The state is then as close to the operation's effect as possible.
    pub fn apply(&mut self, step: &Step) -> Result<(), Contradiction> {
        self.apply_with(step, &mut |_| {})
    }

    /// Executes an event that happened, even if it contradicts those before it: programs misuse locks, and
    /// traces of other tools are incomplete.
    pub fn follow(&mut self, event: &Event) {
        let _ = self.apply(&self.decode(event));
    }

    /// Executes an operation and emits the changes of locks. What a thread does after it was joined has its effect too.
    ///
    /// # Errors
    /// Returns an error if it cannot have happened now.
    pub fn apply_with(
        &mut self,
        step: &Step,
        emit: &mut impl FnMut(LockChange),
    ) -> Result<(), Contradiction> {
        self.events += 1;
        let alive = self.threads.run(step);
        let executed = match &step.operation {
            Operation::Memory(MemoryOp::Free(block)) => {
                self.locks.free(*block, emit);
                Ok(())
            }
            Operation::Memory(_)
            | Operation::Scheduling(_)
            | Operation::Descriptor(_)
            | Operation::File(_)
            | Operation::Signal(_) => Ok(()),
            Operation::Mutex(op) => op.apply(step, self, emit),
            Operation::RwLock(op) => op.apply(step, self, emit),
            Operation::Cond(op) => op.apply(step, self, emit),
            Operation::Thread(op) => op.apply(step, self, emit),
            Operation::Semaphore(op) => {
                op.apply(step, self);
                Ok(())
            }
            Operation::Barrier(op) => {
                op.apply(step, self);
                Ok(())
            }
            Operation::Once(op) => {
                op.apply(step, self);
                Ok(())
            }
            Operation::Futex(op) => {
                op.apply(step, self);
                Ok(())
            }
        };
        alive.and(executed)
    }

    /// Returns whether the operation could be executed next, with any result. One that does not wait without limit
    /// can, if time passes.
    #[must_use]
    pub fn enabled(&self, step: &Step) -> Enabled {
        match self.enabled_with_result(step) {
            Enabled::No { by } if step.bounded() && by.yields_to_time(&step.operation) => {
                Enabled::IfTimePasses
            }
            other => other,
        }
    }

    /// Returns whether the operation could be executed next, with the result that it had.
    #[must_use]
    pub fn enabled_with_result(&self, step: &Step) -> Enabled {
        let Step { thread, result, .. } = *step;
        if !self.has_begun(thread) {
            return Enabled::No { by: Blocker::NotCreated };
        }
        match &step.operation {
            Operation::Memory(_) => Enabled::Yes,
            Operation::Mutex(op) => op.enabled(thread, result, self),
            Operation::RwLock(op) => op.enabled(thread, result, self),
            Operation::Cond(op) => op.enabled(thread, result, self),
            Operation::Semaphore(op) => op.enabled(result, self),
            Operation::Barrier(op) => op.enabled(self),
            Operation::Once(op) => op.enabled(thread, self),
            Operation::Futex(op) => op.enabled(thread, result, self),
            Operation::Thread(op) => op.enabled(result, self),
            Operation::Descriptor(op) => op.enabled(),
            Operation::File(_) => FileOp::enabled(),
            Operation::Signal(op) => op.enabled(self),
            Operation::Scheduling(op) => op.enabled(),
        }
    }

    /// Returns whether a thread that was blocked at the end of the run, by this wait, could continue now.
    #[must_use]
    pub fn enabled_wait(&self, wait: &Wait) -> Enabled {
        let Wait { thread, op, addr, .. } = *wait;
        let begun = self.waits_for(thread);
        match op {
            Op::Join => match wait.holders.iter().find(|&&target| !self.has_ended(target)) {
                Some(&target) => Enabled::No { by: Blocker::Running(target) },
                None => Enabled::Yes,
            },
            Op::CondWake | Op::FutexWoken if begun.is_none() => Enabled::No { by: Blocker::NotWoken },
            Op::BarrierLeave => Enabled::No { by: Blocker::MissingArrivals },
            Op::SigWait | Op::SigPause => Enabled::No { by: Blocker::NotSent },
            _ => {
                let value = begun.and_then(|wait| wait.mutex).unwrap_or(0);
                self.enabled(&self.decode(&Event { addr, value, ..Event::new(thread, op) }))
            }
        }
    }

    /// Returns the holders of a lock in the order of acquisition.
    #[must_use]
    pub fn holders(&self, lock: u64) -> &[Hold] {
        self.locks.holders(lock)
    }

    /// Iterates over all held locks with their holders.
    pub fn holds(&self) -> impl Iterator<Item = (u64, Hold)> + '_ {
        self.locks.all()
    }

    /// Returns the thread's hold of a lock.
    #[must_use]
    pub fn hold_of(&self, thread: ThreadIx, lock: u64) -> Option<&Hold> {
        self.locks.holders(lock).iter().find(|hold| hold.thread == thread)
    }

    /// Returns the wait on a condition variable or futex that the thread has begun.
    #[must_use]
    pub fn waits_for(&self, thread: ThreadIx) -> Option<&CondOrFutexWait> {
        self.wait_queues.of(thread)
    }

    /// Iterates over semaphores without a post since their last token was taken, with the thread that took it.
    pub fn token_takers(&self) -> impl Iterator<Item = (u64, ThreadIx)> + '_ {
        self.semaphores.takers().iter().map(|(&semaphore, &thread)| (semaphore, thread))
    }

    /// Returns whether the thread's last event was executed.
    #[must_use]
    pub fn has_ended(&self, thread: ThreadIx) -> bool {
        let silent_end = self.expectations.silent_end(thread);
        self.threads.has_ended(thread) || silent_end.is_some_and(|all| self.threads.executed(thread) >= all)
    }

    /// Returns whether the thread was created, or existed from the start.
    #[must_use]
    pub fn has_begun(&self, thread: ThreadIx) -> bool {
        self.threads.is_created(thread)
            || self.threads.executed(thread) > 0
            || !self.expectations.is_created_by_event(thread)
    }

    /// Returns whether an exception may leave a once routine in this run.
    pub(crate) fn may_throw(&self, once: u64) -> bool {
        self.expectations.may_throw(once)
    }

    /// Returns whether the thread waits for a wake-up, and one is there that it may take. `waker` is the one
    /// that it took in the run.
    pub(crate) fn can_be_woken(&self, thread: ThreadIx, waker: Option<u64>) -> bool {
        self.wait_queues.can_be_woken(thread, waker, self.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::Flags;

    const MUTEX: u64 = 0x10;
    const COND: u64 = 0x20;

    fn event(thread: u16, op: Op, addr: u64) -> Event {
        Event { addr, value: 1, ..Event::new(ThreadIx(thread), op) }
    }

    fn bounded(event: Event) -> Event {
        Event { flags: event.flags | Flags::BOUNDED, ..event }
    }

    #[test]
    fn operation_with_a_deadline_is_blocked_only_until_time_passes() {
        let lock = event(1, Op::Lock, MUTEX);
        let machine = Machine::after(&[event(0, Op::Lock, MUTEX)]);
        let held = Enabled::No { by: Blocker::Holder(ThreadIx::MAIN) };
        assert_eq!(machine.enabled(&machine.decode(&lock)), held);
        let timed = machine.decode(&bounded(lock));
        assert_eq!(machine.enabled(&timed), Enabled::IfTimePasses);
        assert_eq!(machine.enabled_with_result(&timed), held, "it got the lock");
    }

    #[test]
    fn wait_with_a_deadline_needs_its_mutex() {
        let wait = Event { value: MUTEX, ..event(1, Op::CondWait, COND) };
        let wake = bounded(Event { value: MUTEX, ..event(1, Op::CondWake, COND) });
        let mut machine = Machine::after(&[event(1, Op::Lock, MUTEX), wait]);
        assert_eq!(machine.enabled(&machine.decode(&wake)), Enabled::IfTimePasses);
        machine.follow(&event(0, Op::Lock, MUTEX));
        let held = Enabled::No { by: Blocker::Holder(ThreadIx::MAIN) };
        assert_eq!(machine.enabled(&machine.decode(&wake)), held);
    }
}
