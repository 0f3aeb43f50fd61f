//! A line of text made of coloured pieces at given columns.

use std::fmt::Write;

/// The role of a piece of text, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    /// Less important text.
    Dim,
    /// A heading.
    Bold,
    /// Text of the nth thread.
    Thread(usize),
    /// A preemption.
    Preemption,
    /// A failure.
    Failure,
}

impl Style {
    fn code(self) -> &'static str {
        // Red and yellow are reserved for failures and preemptions.
        const THREADS: [&str; 4] = ["36", "32", "35", "34"];
        match self {
            Self::Plain => "",
            Self::Dim => "2",
            Self::Bold => "1",
            Self::Thread(nth) => THREADS[nth % THREADS.len()],
            Self::Preemption => "1;33",
            Self::Failure => "1;31",
        }
    }
}

/// Returns text in this style, if there are colours.
pub(crate) fn paint(text: &str, style: Style, colour: bool) -> String {
    if colour && style != Style::Plain && !text.is_empty() {
        format!("\x1b[{}m{text}\x1b[0m", style.code())
    } else {
        text.to_owned()
    }
}

/// Returns the number of columns of a text. Double-width characters are rare in code, so they count as one.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// Returns at most `room` columns of a text, with `…` where it was cut.
pub(crate) fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain((room > 0).then_some('…')).collect()
}

/// Wraps a text into lines of at most `room` columns, between words if possible.
pub(crate) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("never empty");
        if line.is_empty() {
            line.push_str(word);
        } else if width(line) + 1 + width(word) <= room {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Returns the end of a text, with `…` where it was cut.
pub(crate) fn cut_front(text: &str, room: usize) -> String {
    let over = width(text).saturating_sub(room);
    if over == 0 {
        return text.to_owned();
    }
    (room > 0).then_some('…').into_iter().chain(text.chars().skip(over + 1)).collect()
}

/// A line under construction. Later text covers earlier text.
#[derive(Clone, Debug, Default)]
pub(crate) struct StyledLine(Vec<(char, Style)>);

impl StyledLine {
    /// Puts a text at a column.
    pub(crate) fn put(&mut self, column: usize, text: &str, style: Style) {
        for (at, char) in (column..).zip(text.chars()) {
            if self.0.len() <= at {
                self.0.resize(at + 1, (' ', Style::Plain));
            }
            // A tab or an escape sequence in a name would break the columns.
            self.0[at] = (if char.is_control() { ' ' } else { char }, style);
        }
    }

    /// Returns whether the line is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the finished line, without trailing blanks.
    pub(crate) fn render(&self, colour: bool) -> String {
        let end = self.0.iter().rposition(|&(char, _)| char != ' ').map_or(0, |at| at + 1);
        let mut text = String::new();
        for piece in self.0[..end].chunk_by(|a, b| a.1 == b.1) {
            let words: String = piece.iter().map(|&(char, _)| char).collect();
            // Blanks have no colour; leaving them plain keeps the output small.
            let style = if words.trim().is_empty() { Style::Plain } else { piece[0].1 };
            let _ = write!(text, "{}", paint(&words, style, colour));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_placed_at_their_columns() {
        let mut line = StyledLine::default();
        line.put(2, "ab", Style::Plain);
        line.put(6, "c\td", Style::Failure);
        line.put(10, "  ", Style::Dim);
        assert_eq!(line.render(false), "  ab  c d");
        assert_eq!(line.render(true), "  ab  \x1b[1;31mc d\x1b[0m");
    }

    #[test]
    fn long_texts_are_truncated_at_either_end() {
        assert_eq!((cut("abcdef", 4), cut("abcd", 4)), ("abc…".to_owned(), "abcd".to_owned()));
        assert_eq!((cut_front("abcdef", 4), cut("abc", 0)), ("…def".to_owned(), String::new()));
    }
}
