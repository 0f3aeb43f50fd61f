//! The lines of STD text, with their words numbered.

use super::{
    StdError,
    line::{StdLine, StdOp},
};
use crate::GZIP;
use std::{
    collections::{HashMap, HashSet},
    io::BufRead,
};

/// A line with its words numbered.
pub(super) struct LineEntry {
    pub(super) line: u64,
    pub(super) thread: WordNumber,
    pub(super) word: StdOp,
    pub(super) operand: WordNumber,
    pub(super) location: i64,
}

/// A word of the text, numbered in the order of appearance.
pub(super) type WordNumber = u32;

/// The lines of a thread.
#[derive(Clone, Copy)]
pub(super) struct ThreadLines {
    /// The numbers of its first and last entry.
    pub(super) first: u64,
    pub(super) last: u64,
    /// The location of its first line.
    pub(super) location: i64,
}

/// Facts about all lines that are needed to interpret a single one: whether an `end` is the last line of its
/// thread, and which threads exist.
#[derive(Default)]
pub(super) struct StdText {
    words: Vec<String>,
    pub(super) numbers: HashMap<String, WordNumber>,
    /// By the words that name threads.
    pub(super) threads: HashMap<WordNumber, ThreadLines>,
    /// Words that may name threads.
    mentioned: HashSet<WordNumber>,
    entries: u64,
}

/// Reads the lines in order.
pub(super) fn each_line(
    mut input: impl BufRead,
    mut take: impl FnMut(u64, &StdLine<'_>) -> Result<(), StdError>,
) -> Result<(), StdError> {
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let read = input.read_until(b'\n', &mut bytes);
        if read.map_err(|reason| StdError::Io { line: line - 1, reason })? == 0 {
            break;
        }
        let wrong = |reason| StdError::StdLine { line, reason };
        if line == 1 && bytes.starts_with(&GZIP) {
            return Err(StdError::Compressed);
        }
        let content = str::from_utf8(&bytes).map_err(|_| wrong("is not UTF-8"))?.trim_end();
        if !content.is_empty() {
            take(line, &StdLine::parse(content).map_err(wrong)?)?;
        }
    }
    Ok(())
}

impl StdText {
    /// Records one more line.
    pub(super) fn note(&mut self, line: u64, parsed: &StdLine<'_>) -> LineEntry {
        let entry = LineEntry {
            line,
            thread: self.number(parsed.thread),
            word: parsed.word,
            operand: self.number(parsed.operand),
            location: parsed.location,
        };
        let number = self.entries;
        self.entries += 1;
        let begin = ThreadLines { first: number, last: number, location: entry.location };
        self.threads.entry(entry.thread).or_insert(begin).last = number;
        self.mentioned.insert(entry.thread);
        if matches!(entry.word, StdOp::Fork | StdOp::Join) {
            self.mentioned.insert(entry.operand);
        }
        entry
    }

    /// Returns the entry of a line that was recorded before; `None` if it was not.
    pub(super) fn find_entry(&self, line: u64, parsed: &StdLine<'_>) -> Option<LineEntry> {
        Some(LineEntry {
            line,
            thread: *self.numbers.get(parsed.thread)?,
            word: parsed.word,
            operand: *self.numbers.get(parsed.operand)?,
            location: parsed.location,
        })
    }

    /// Returns the number of entries.
    pub(super) const fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns an upper bound on the number of threads.
    pub(super) fn most_threads(&self) -> usize {
        self.mentioned.len()
    }

    fn number(&mut self, word: &str) -> WordNumber {
        if let Some(&number) = self.numbers.get(word) {
            return number;
        }
        let number = self.words.len() as WordNumber;
        self.words.push(word.into());
        self.numbers.insert(word.into(), number);
        number
    }

    pub(super) fn word(&self, number: WordNumber) -> &str {
        &self.words[number as usize]
    }

    /// Returns the name of the thread that a fork or join refers to: `7` may be short for `T7`.
    pub(super) fn thread_name(&self, operand: WordNumber) -> String {
        let word = self.word(operand);
        let streaming = format!("T{word}");
        let short = !self.threads.contains_key(&operand)
            && self.numbers.get(&streaming).is_some_and(|number| self.threads.contains_key(number));
        if short { streaming } else { word.into() }
    }
}
