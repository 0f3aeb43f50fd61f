//! Who waits by looking again and again.

use unsnarl_model::{Flags, Op};

/// What a thread did in vain of late.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpinDetector {
    /// How many operations in a row were in vain.
    in_a_row: u32,
    /// One of them.
    last: (u64, u64, u64),
    /// How often that came again.
    repeats: u32,
}

impl SpinDetector {
    /// The thread did something, in vain or not: at a place, to an object, with a value. It may do other things in
    /// vain in between: to find the period of a loop, what is waited for changes after 1, 2, 4 … operations (Brent's
    /// method).
    #[inline]
    pub fn note(&mut self, fruitless: bool, operation: (u64, u64, u64)) {
        if !fruitless {
            (self.in_a_row, self.repeats) = (0, 0);
            return;
        }
        self.in_a_row = self.in_a_row.wrapping_add(1);
        if self.last == operation {
            self.repeats += 1;
        } else if self.in_a_row.is_power_of_two() {
            self.last = operation;
            self.repeats = 0;
        }
    }

    /// Whether it does the same thing in vain over and over.
    #[must_use]
    #[inline]
    pub const fn is_spinning(&self) -> bool {
        self.repeats >= 8
    }
}

/// Operations after which the world is as it was.
#[must_use]
#[inline]
pub const fn changes_nothing(op: Op, flags: Flags) -> bool {
    match op {
        Op::AtomicLoad | Op::Read | Op::Yield | Op::SemGet | Op::Fence => true,
        Op::AtomicCas
        | Op::TryLock
        | Op::TryReadLock
        | Op::TryWriteLock
        | Op::SemTryWait
        | Op::FutexWait
        | Op::Join
        | Op::FdRead
        | Op::FdWrite
        | Op::FdAccept
        | Op::FdConnect
        | Op::FileLock
        | Op::ChildWait => flags.has(Flags::FAILED),
        Op::FutexWake | Op::Point => true,
        // By itself: what the handler does is told by its own operations.
        Op::SigHandle | Op::TimerFire => true,
        Op::FdWait => !flags.has(Flags::TIMED_OUT),
        _ => false,
    }
}
