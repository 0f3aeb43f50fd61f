//! What was odd about a line, and taken all the same.

use std::fmt;

/// A line that a well-formed trace would not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Which line, from 1.
    pub line: u64,
    /// Whose.
    pub thread: String,
    /// What is odd.
    pub oddity: Oddity,
}

/// What is odd about a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oddity {
    /// The thread takes a lock that it holds.
    TakenAgain {
        /// Which lock.
        lock: String,
    },
    /// The thread takes a lock that another one holds.
    TakenFromAnother {
        /// Which lock.
        lock: String,
        /// Who holds it.
        holder: String,
    },
    /// The thread gives back or waits on a lock that it does not hold.
    NotHeld {
        /// Which lock.
        lock: String,
    },
    /// The thread forks one that there is already.
    ForkedAlready {
        /// Which thread.
        child: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, thread, oddity } = self;
        write!(f, "line {line}: {thread} ")?;
        match oddity {
            Oddity::TakenAgain { lock } => write!(f, "takes lock {lock}, which it holds already"),
            Oddity::TakenFromAnother { lock, holder } => {
                write!(f, "takes lock {lock}, which {holder} holds")
            }
            Oddity::NotHeld { lock } => write!(f, "gives up lock {lock}, which it does not hold"),
            Oddity::ForkedAlready { child } => write!(f, "forks {child}, which exists already"),
        }
    }
}
