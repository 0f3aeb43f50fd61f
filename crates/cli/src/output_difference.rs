//! Compares the output of a replay with the recording's.

use std::fmt;
use unsnarl_model::{Op, Trace};

/// The first line that differs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutputDifference {
    stream: &'static str,
    /// From 1.
    line: usize,
    recorded: Option<String>,
    replayed: Option<String>,
}

impl OutputDifference {
    /// Compares the output of two runs. That of a run that a limit cut off ends anywhere, and children print when
    /// they like.
    pub(crate) fn of(recorded: &Trace, replayed: &Trace) -> Option<Self> {
        let has_children = recorded.events.iter().any(|event| event.op == Op::ChildStart);
        if has_children || recorded.outcome.limit().is_some() {
            return None;
        }
        let (old, new) = (&recorded.output, &replayed.output);
        Self::in_stream("standard output", &old.stdout, &new.stdout)
            .or_else(|| Self::in_stream("standard error", &old.stderr, &new.stderr))
    }

    fn in_stream(stream: &'static str, recorded: &[u8], replayed: &[u8]) -> Option<Self> {
        if recorded == replayed {
            return None;
        }
        let (mut old, mut new) =
            (recorded.split(|&byte| byte == b'\n'), replayed.split(|&byte| byte == b'\n'));
        let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
        for line in 1.. {
            let (old, new) = (old.next(), new.next());
            if old != new {
                return Some(Self { stream, line, recorded: old.map(text), replayed: new.map(text) });
            }
            if old.is_none() {
                break;
            }
        }
        None
    }
}

impl fmt::Display for OutputDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |line: &Option<String>| line.clone().unwrap_or_else(|| "(nothing)".into());
        writeln!(f, "{} differs, first in line {}:", self.stream, self.line)?;
        writeln!(f, "  recorded: {}", shown(&self.recorded))?;
        writeln!(f, "  now:      {}", shown(&self.replayed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_differing_line_is_found() {
        let of = |old: &str, new: &str| OutputDifference::in_stream("x", old.as_bytes(), new.as_bytes());
        assert_eq!(of("a\nb\n", "a\nb\n"), None);
        let difference = of("a\nb\nc\n", "a\nB\nc\n").expect("a difference");
        assert_eq!((difference.line, difference.replayed.as_deref()), (2, Some("B")));
        let difference = of("a\n", "a").expect("a difference");
        assert_eq!((difference.line, difference.replayed), (2, None));
    }
}
