//! All lines of STD text, with its words numbered.

use super::{
    StdError,
    line::{Line, Word},
};
use std::{collections::HashMap, io::BufRead};

/// A line with its words numbered.
pub(super) struct Entry {
    pub(super) line: u64,
    pub(super) thread: WordNumber,
    pub(super) word: Word,
    pub(super) operand: WordNumber,
    pub(super) location: i64,
}

/// A word of the text, by the order of appearance.
pub(super) type WordNumber = u32;

/// All lines. What a line means depends on later ones: whether an `end` is the last line of its thread,
/// and which threads there are.
#[derive(Default)]
pub(super) struct Text {
    pub(super) entries: Vec<Entry>,
    words: Vec<String>,
    pub(super) numbers: HashMap<String, WordNumber>,
    /// By the words that name threads: the numbers of their first and last entry.
    pub(super) threads: HashMap<WordNumber, (usize, usize)>,
}

impl Text {
    pub(super) fn read(mut input: impl BufRead) -> Result<Self, StdError> {
        let mut text = Self::default();
        let mut bytes = Vec::new();
        for line in 1.. {
            bytes.clear();
            let read = input.read_until(b'\n', &mut bytes);
            if read.map_err(|why| StdError::Io { line: line - 1, why })? == 0 {
                break;
            }
            let wrong = |why| StdError::Line { line, why };
            let content = str::from_utf8(&bytes).map_err(|_| wrong("is not UTF-8"))?.trim_end();
            if content.is_empty() {
                continue;
            }
            let parsed = Line::parse(content).map_err(wrong)?;
            let index = text.entries.len();
            let entry = Entry {
                line,
                thread: text.number(parsed.thread),
                word: parsed.word,
                operand: text.number(parsed.operand),
                location: parsed.location,
            };
            text.threads.entry(entry.thread).or_insert((index, index)).1 = index;
            text.entries.push(entry);
        }
        if text.entries.is_empty() { Err(StdError::Empty) } else { Ok(text) }
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

    /// The name of the thread that a fork or join calls so: `7` may be short for `T7`.
    pub(super) fn thread_name(&self, operand: WordNumber) -> String {
        let word = self.word(operand);
        let long = format!("T{word}");
        let short = !self.threads.contains_key(&operand)
            && self.numbers.get(&long).is_some_and(|number| self.threads.contains_key(number));
        if short { long } else { word.into() }
    }
}
