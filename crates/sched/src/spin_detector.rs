//! Detects threads that wait by polling.

use unsnarl_model::{Flags, Op};

/// The recent fruitless operations of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpinDetector {
    /// The number of consecutive fruitless operations.
    in_a_row: u32,
    /// The reference operation.
    last: (u64, u64, u64),
    /// The number of times the reference operation was repeated.
    repeats: u32,
}

impl SpinDetector {
    /// Notes an operation of the thread: a site, an object and a value. The loop may contain other fruitless
    /// operations: to find its period, the reference operation is replaced after 1, 2, 4 … operations
    /// (Brent's method).
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

    /// Returns whether the thread repeats the same fruitless operation again and again.
    #[must_use]
    #[inline]
    pub const fn is_spinning(&self) -> bool {
        self.repeats >= 8
    }
}

/// Returns whether the operation leaves the state unchanged.
#[must_use]
#[inline]
pub const fn changes_nothing(op: Op, flags: Flags) -> bool {
    match op {
        Op::AtomicLoad | Op::Read | Op::Yield | Op::SemGet | Op::Fence => true,
        // Data that are read advance the position in the file.
        Op::FileRead if !flags.has(Flags::FAILED) => false,
        Op::FileRead | Op::FileCreate | Op::FileRemove | Op::FileRename => flags.has(Flags::FAILED),
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
        // Only the operation counts here; the handler's effects are operations of their own.
        Op::SigHandle | Op::TimerFire => true,
        Op::FdWait => !flags.has(Flags::TIMED_OUT),
        _ => false,
    }
}
