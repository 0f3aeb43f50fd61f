//! Threads: by number within one run, by identity across runs.

use alloc::vec::Vec;
use core::{fmt, str::FromStr};

/// A thread of one run, numbered in the order of creation; main is 0.
///
/// The numbers are dense, so they index tables. They are meaningless in another run, where threads may be
/// created in another order; across runs a thread is identified by its [`ThreadId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ThreadIx(pub u16);

impl ThreadIx {
    /// The initial thread.
    pub const MAIN: Self = Self(0);

    /// Returns the index into tables of threads.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A thread's identity: the path of its creation. Main is `0`, main's second child is `0.2`.
///
/// A thread keeps its identity when the order of execution changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ThreadId(Vec<u32>);

impl ThreadId {
    /// Returns the identity of the initial thread.
    #[must_use]
    pub const fn main() -> Self {
        Self(Vec::new())
    }

    /// Returns the identity of this thread's `nth` child, counted from 1.
    #[must_use]
    pub fn child(&self, nth: u32) -> Self {
        let mut path = self.0.clone();
        path.push(nth);
        Self(path)
    }

    /// Returns the identity of the creating thread, and this thread's ordinal among its children.
    #[must_use]
    pub fn parent(&self) -> Option<(Self, u32)> {
        let (&nth, path) = self.0.split_last()?;
        Some((Self(path.to_vec()), nth))
    }

    /// Returns the child numbers from main down.
    #[must_use]
    pub fn path(&self) -> &[u32] {
        &self.0
    }

    /// Builds the identity from the child numbers from main down.
    #[must_use]
    pub const fn from_path(path: Vec<u32>) -> Self {
        Self(path)
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0")?;
        self.0.iter().try_for_each(|nth| write!(f, ".{nth}"))
    }
}

impl FromStr for ThreadId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED_FORMAT: &str = "a thread is written as its path of creation, like 0.2.1";
        let mut parts = text.split('.');
        if parts.next() != Some("0") {
            return Err(EXPECTED_FORMAT);
        }
        parts
            .map(|nth| nth.parse().ok().filter(|&n| n > 0).ok_or(EXPECTED_FORMAT))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn thread_id_is_its_creation_path() {
        let grandchild = ThreadId::main().child(2).child(1);
        assert_eq!(grandchild.to_string(), "0.2.1");
        assert_eq!("0.2.1".parse(), Ok(grandchild.clone()));
        assert_eq!(grandchild.parent(), Some((ThreadId::main().child(2), 1)));
        assert!("1.2".parse::<ThreadId>().is_err());
        assert!("0.0".parse::<ThreadId>().is_err());
    }
}
