//! The identity of a failure: the properties by which two runs count as having the same bug.
//!
//! Thread numbers, addresses, directories and values are not among them: a message `left: 3, right: 4` and a
//! message `left: 5, right: 4` of one assertion are the same failure. A race is identified by its two accesses.
//! An exit status alone would be shared by many bugs, so the place that exited and the last line that the program
//! wrote to standard error take part.
//!
//! Places are those of [`Outcome::place`](crate::Outcome::place), which other builds of the program have, too. If it
//! is empty, offsets in the code take its place; they are only the same in the same build.

use crate::{Conflict, Op, OutcomeKind, Site, Trace, stable_hash};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

/// The properties by which two failures count as the same bug.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// The kind, including the number for exits and signals.
    pub kind: OutcomeKind,
    /// The place in the program; empty if it does not matter or is not known.
    pub place: String,
    /// The message without values.
    pub message: String,
    /// True if it is not the failure that the user looks for.
    pub excluded: bool,
}

impl Signature {
    /// Returns a short name of the failure: the same in every build of the program that has it.
    #[must_use]
    pub fn id(&self) -> String {
        let number = match self.kind {
            OutcomeKind::Exit(number) | OutcomeKind::Signal(number) => number,
            _ => 0,
        };
        let text = format!("{} {number}\0{}\0{}", self.kind.name(), self.place, self.message);
        format!("{:016x}", stable_hash(text.bytes()))
    }
}

/// The places and operations of a race's two accesses, in an order that does not depend on the run. It is the same
/// only in runs of one build.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RaceIdentity([((String, u64), &'static str); 2]);

impl Trace {
    /// Returns the signature by which another failure is recognised as the same.
    #[must_use]
    pub fn signature(&self) -> Signature {
        let kind = self.outcome.kind;
        let message = &self.outcome.message;
        let message = match kind {
            // The place where a run was stopped by a limit is arbitrary, so only the limit itself counts.
            OutcomeKind::Undecided(_) => message.split(", ").next().unwrap_or_default().into(),
            // The message counts operations.
            OutcomeKind::Livelock => String::new(),
            // The message describes the address, which may differ at one place, or whether all threads wait.
            OutcomeKind::Signal(_) | OutcomeKind::Deadlock => String::new(),
            // The place names both accesses.
            OutcomeKind::Race if !self.races.is_empty() => String::new(),
            OutcomeKind::Exit(status) if status != 0 && message.is_empty() => {
                without_values(&last_line(&self.output.stderr))
            }
            _ => without_values(message),
        };
        let place = match kind {
            OutcomeKind::Undecided(_) => String::new(),
            _ if self.outcome.place.is_empty() => self.place_by_offsets(),
            _ => self.outcome.place.clone(),
        };
        Signature { kind, place, message, excluded: self.outcome.excluded }
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

    /// Returns the place of the failure as offsets in modules.
    fn place_by_offsets(&self) -> String {
        let text = |(module, offset): &(String, u64)| format!("{module}+{offset:#x}");
        let site = match self.outcome.kind {
            OutcomeKind::Race => match self.first_race() {
                Some(RaceIdentity([(a, op), (b, other)])) => {
                    return format!("{op} at {}, {other} at {}", text(&a), text(&b));
                }
                None => self.outcome.site,
            },
            OutcomeKind::Exit(status) if status != 0 => self.outcome.site.or_else(|| self.site_of_exit()),
            _ => self.outcome.site,
        };
        site.map_or_else(String::new, |site| text(&self.place_of(site)))
    }

    /// Returns the site of the call that ended the process, if the run ended by one.
    #[must_use]
    pub fn site_of_exit(&self) -> Option<Site> {
        self.events.last().filter(|event| event.op == Op::Exit).map(|event| self.site(event))
    }

    fn place_of(&self, site: Site) -> (String, u64) {
        let path = self.modules.get(usize::from(site.module.0)).map(|module| module.path.as_str());
        (path.map(base_name).unwrap_or_default().into(), site.offset)
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
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
    let stable = |line: &str| without_numbers(&without_directories(line));
    let lines: Vec<String> = message.lines().filter(|line| !is_operand(line)).map(stable).collect();
    lines.join("\n")
}

/// Returns a line with only the last part of each absolute path.
fn without_directories(line: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || "._-+~@%/".contains(c);
    let words = line.split_inclusive(|c: char| !is_part(c));
    let stable = |word: &str| {
        let path = word.trim_end_matches(|c: char| !is_part(c));
        let is_path = path.starts_with('/') && path.len() > 1 && !path.ends_with('/');
        if is_path { format!("{}{}", base_name(path), &word[path.len()..]) } else { word.to_string() }
    };
    words.map(stable).collect()
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
    fn directories_are_no_part_of_a_message() {
        assert_eq!(
            without_values("/home/me/shop/till.cc:12: Failure"),
            without_values("/tmp/x/till.cc:31: Failure")
        );
        assert_eq!(without_directories("a/b or /c/d.rs, 'and' /e/ /"), "a/b or d.rs, 'and' /e/ /");
        assert_eq!(without_directories("(/a/b.c)"), "(b.c)");
    }

    #[test]
    fn last_line_skips_empty_ones() {
        assert_eq!(last_line(b"starting\noversold by 3\n\n"), "oversold by 3");
        assert_eq!(last_line(b""), "");
    }
}
