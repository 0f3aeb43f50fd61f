//! The identity of a failure: the properties by which two runs count as having the same bug.
//!
//! Thread numbers, addresses, directories and values are not among them: a message `left: 3, right: 4` and a
//! message `left: 5, right: 4` of one assertion are the same failure. A race is identified by its two accesses.
//! An exit status alone would be shared by many bugs, so the place that exited and the last line that the program
//! wrote to standard error take part.

use crate::{Conflict, Op, OutcomeKind, Site, Trace};
use alloc::{format, string::String, vec::Vec};

/// The properties by which two failures count as the same bug.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// The kind, including the number for exits and signals.
    pub kind: OutcomeKind,
    /// The module's file name and the offset in it.
    pub place: Option<(String, u64)>,
    /// The message without values.
    pub message: String,
}

/// The places and operations of a race's two accesses, in an order that does not depend on the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RaceIdentity([((String, u64), &'static str); 2]);

impl Trace {
    /// Returns the signature by which another failure is recognised as the same.
    #[must_use]
    pub fn signature(&self) -> Signature {
        let kind = self.outcome.kind;
        let place = self.outcome.site.map(|site| self.place_of(site));
        let message = &self.outcome.message;
        let (place, message) = match kind {
            // The place where a run was stopped by a limit is arbitrary, so only the limit itself counts.
            OutcomeKind::Undecided(_) => (None, message.split(", ").next().unwrap_or_default().into()),
            // The message counts operations, and at which of the loop's places the threads were is arbitrary.
            OutcomeKind::Livelock => (place, String::new()),
            OutcomeKind::Race => match self.races.first() {
                Some(race) => {
                    let RaceIdentity([first, (second, op)]) = self.identity_of_race(race);
                    (Some(first.0), format!("{}, {op} at {}+{:#x}", first.1, second.0, second.1))
                }
                None => (place, without_values(message)),
            },
            // The message describes the address, which may differ at one place, or whether all threads wait.
            OutcomeKind::Signal(_) | OutcomeKind::Deadlock => (place, String::new()),
            OutcomeKind::Exit(status) if status != 0 => {
                let message =
                    if message.is_empty() { last_line(&self.output.stderr) } else { message.clone() };
                (place.or_else(|| self.place_of_exit()), without_values(&message))
            }
            _ => (place, without_values(message)),
        };
        Signature { kind, place, message }
    }

    /// Returns the identity of the first race, which is the failure if the run fails by a race.
    #[must_use]
    pub fn first_race(&self) -> Option<RaceIdentity> {
        self.races.first().map(|race| self.identity_of_race(race))
    }

    /// Moves a race to the front, if it is among the races of this run: a run with several races fails by the
    /// first.
    pub fn prefer_race(&mut self, wanted: &RaceIdentity) {
        if let Some(at) = self.races.iter().position(|race| self.identity_of_race(race) == *wanted) {
            self.races[..=at].rotate_right(1);
        }
    }

    fn identity_of_race(&self, race: &Conflict) -> RaceIdentity {
        let mut sides = race.sides.map(|side| (self.place_of(side.site), side.op.name()));
        sides.sort();
        RaceIdentity(sides)
    }

    fn place_of_exit(&self) -> Option<(String, u64)> {
        let last = self.events.last().filter(|event| event.op == Op::Exit)?;
        Some(self.place_of(self.site(last)))
    }

    fn place_of(&self, site: Site) -> (String, u64) {
        let path = self.modules.get(usize::from(site.module.0)).map(|module| module.path.as_str());
        let file = path.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        (file.into(), site.offset)
    }
}

/// Returns the last line that is not empty.
fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().into()
}

/// Returns a message with `#` for each number, and without the operands that Rust's assertions print.
fn without_values(message: &str) -> String {
    let is_operand = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("left: ") || line.starts_with("right: ")
    };
    let lines: Vec<String> = message.lines().filter(|line| !is_operand(line)).map(without_numbers).collect();
    lines.join("\n")
}

/// Replaces each number by `#`. A digit in a name, as in `worker2` or `u64`, is not a number.
fn without_numbers(line: &str) -> String {
    let mut result = String::with_capacity(line.len());
    let mut rest = line;
    let mut in_word = false;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_digit() && !in_word {
            result.push('#');
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            // A full stop ends the sentence.
            rest[..end].trim_end_matches('.').len()
        } else {
            result.push(first);
            in_word = first.is_alphanumeric() || first == '_';
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_values_and_names_are_not() {
        assert_eq!(without_values("worker2 took 17 of 0x7f3a items."), "worker2 took # of # items.");
        assert_eq!(without_values("3.5 is less than -4"), "# is less than -#");
        assert_eq!(without_values("at bank.rs:12:5"), "at bank.rs:#:#");
        assert_eq!(
            without_values("Assertion `total == u64_max' failed."),
            "Assertion `total == u64_max' failed."
        );
        assert_eq!(without_values("größer als 3 µs"), "größer als # µs");
    }

    #[test]
    fn operands_of_rust_assertions_are_values() {
        let message = "assertion `left == right` failed: sum\n  left: [1, 2]\n right: []";
        assert_eq!(without_values(message), "assertion `left == right` failed: sum");
    }

    #[test]
    fn last_line_skips_empty_ones() {
        assert_eq!(last_line(b"starting\noversold by 3\n\n"), "oversold by 3");
        assert_eq!(last_line(b""), "");
    }
}
