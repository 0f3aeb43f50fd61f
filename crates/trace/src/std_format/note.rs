//! Irregular lines, which are accepted.

use std::fmt;

/// A line that a well-formed trace would not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The line, from 1.
    pub line: u64,
    /// The thread.
    pub thread: String,
    /// The irregularity.
    pub irregularity: Irregularity,
}

/// The irregularities of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Irregularity {
    /// The thread acquires a lock that it holds.
    TakenAgain {
        /// The lock.
        lock: String,
    },
    /// The thread acquires a lock that another thread holds.
    TakenFromAnother {
        /// The lock.
        lock: String,
        /// The thread that holds it.
        holder: String,
    },
    /// The thread releases or waits on a lock that it does not hold.
    NotHeld {
        /// The lock.
        lock: String,
    },
    /// The thread forks a thread that already exists.
    ForkedAlready {
        /// The existing thread.
        child: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, thread, irregularity } = self;
        write!(f, "line {line}: {thread} ")?;
        match irregularity {
            Irregularity::TakenAgain { lock } => write!(f, "acquires lock {lock}, which it already holds"),
            Irregularity::TakenFromAnother { lock, holder } => {
                write!(f, "acquires lock {lock}, which {holder} holds")
            }
            Irregularity::NotHeld { lock } => write!(f, "releases lock {lock}, which it does not hold"),
            Irregularity::ForkedAlready { child } => write!(f, "forks {child}, which already exists"),
        }
    }
}
