//! One line of STD text.

/// The operation of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StdOp {
    Read,
    Write,
    Acquire,
    Release,
    Fork,
    Join,
    Begin,
    End,
    Request,
    Wait,
    Notify,
    NotifyAll,
}

impl StdOp {
    const ALL: [Self; 12] = [
        Self::Read,
        Self::Write,
        Self::Acquire,
        Self::Release,
        Self::Fork,
        Self::Join,
        Self::Begin,
        Self::End,
        Self::Request,
        Self::Wait,
        Self::Notify,
        Self::NotifyAll,
    ];

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Read => "r",
            Self::Write => "w",
            Self::Acquire => "acq",
            Self::Release => "rel",
            Self::Fork => "fork",
            Self::Join => "join",
            Self::Begin => "begin",
            Self::End => "end",
            Self::Request => "req",
            Self::Wait => "wait",
            Self::Notify => "notify",
            Self::NotifyAll => "notifyAll",
        }
    }
}

const UNKNOWN_WORD: &str = "has an operation that is none of r, w, acq, rel, fork, join, begin, end, \
                            req, wait, notify, notifyAll";

/// `thread|word(operand)|location`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StdLine<'a> {
    pub(super) thread: &'a str,
    pub(super) word: StdOp,
    pub(super) operand: &'a str,
    pub(super) location: i64,
}

impl<'a> StdLine<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, &'static str> {
        let mut fields = text.split('|');
        let (Some(thread), Some(action), Some(location), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err("is not of the form thread|op(operand)|location");
        };
        let (word, operand) = action
            .strip_suffix(')')
            .and_then(|action| action.split_once('('))
            .ok_or("has no operation of the form op(operand)")?;
        let word = StdOp::ALL.into_iter().find(|known| known.text() == word).ok_or(UNKNOWN_WORD)?;
        if !is_name(thread) {
            return Err("has no thread, or a blank in its name");
        }
        if !is_name(operand) {
            return Err("has no operand, or a blank in it");
        }
        let location = location.parse().map_err(|_| "has a location that is not an integer")?;
        Ok(Self { thread, word, operand, location })
    }
}

/// Returns whether this is a valid thread or operand.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c == '|' || c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_thread_operation_and_location() {
        let line = StdLine { thread: "T1", word: StdOp::Acquire, operand: "Foo.bar()", location: -7 };
        assert_eq!(StdLine::parse("T1|acq(Foo.bar())|-7"), Ok(line));
    }

    #[test]
    fn malformed_lines_are_rejected_with_a_reason() {
        for (text, reason) in [
            ("T1|acq(L)", "is not of the form thread|op(operand)|location"),
            ("T1|acq(L)|1|2", "is not of the form thread|op(operand)|location"),
            ("T1|acq|1", "has no operation of the form op(operand)"),
            ("|acq(L)|1", "has no thread, or a blank in its name"),
            ("T1|acq()|1", "has no operand, or a blank in it"),
            ("T1|acq(a b)|1", "has no operand, or a blank in it"),
            ("T1|acq(L)|x", "has a location that is not an integer"),
        ] {
            assert_eq!(StdLine::parse(text), Err(reason), "{text}");
        }
        assert!(StdLine::parse("T1|lock(L)|1").unwrap_err().starts_with("has an operation that is none of"));
    }
}
