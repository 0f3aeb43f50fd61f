//! The names of operands in the text; the trace has only addresses.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};
use unsnarl_model::{ThreadIx, Trace};

/// The names of locks and variables that are not their own addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StdNames {
    names: Vec<String>,
    numbers: HashMap<String, u64>,
    /// Threads whose name in forks and joins differs from that in their own lines.
    pub(super) threads: BTreeMap<ThreadIx, String>,
}

/// Addresses from here up stand for names; smaller numbers are their own addresses.
const FIRST: u64 = 1 << 63;

impl StdNames {
    /// Returns the name of the lock or variable at this address in the text.
    #[must_use]
    pub fn of(&self, addr: u64) -> Cow<'_, str> {
        let name = addr.checked_sub(FIRST).and_then(|nth| self.names.get(usize::try_from(nth).ok()?));
        name.map_or_else(|| addr.to_string().into(), |name| name.as_str().into())
    }

    /// Reads the names kept in a trace.
    pub(super) fn from_trace(trace: &Trace) -> Self {
        let in_place = |(nth, (addr, _)): (usize, &(u64, String))| *addr == FIRST + nth as u64;
        if !trace.names.iter().enumerate().all(in_place) {
            return Self::default();
        }
        let names: Vec<String> = trace.names.iter().map(|(_, name)| name.clone()).collect();
        let numbers = trace.names.iter().map(|(addr, name)| (name.clone(), *addr)).collect();
        Self { names, numbers, threads: BTreeMap::new() }
    }

    /// Returns all names, to be kept in the trace.
    pub(super) fn all(&self) -> Vec<(u64, String)> {
        (FIRST..).zip(self.names.iter().cloned()).collect()
    }

    /// Returns the address for this name.
    pub(super) fn address(&mut self, name: &str) -> u64 {
        // A number is its own address only if it is written back the same (not 007); 0 means no address.
        let number = name.parse().ok().filter(|number| (1..FIRST).contains(number));
        if let Some(number) = number.filter(|number| number.to_string() == name) {
            return number;
        }
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = FIRST + self.names.len() as u64;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_addresses_and_names_are_interned() {
        let mut names = StdNames::default();
        assert_eq!(names.address("399431958621"), 399_431_958_621);
        for name in ["x", "0", "007", "+7", "9223372036854775808", "18446744073709551616"] {
            let address = names.address(name);
            assert!(address >= FIRST);
            assert_eq!(names.address(name), address);
            assert_eq!(names.of(address), name);
        }
        assert_eq!(names.of(7), "7");
    }
}
