//! Call stacks reduced to the user's code.

use crate::{Names, functions};
use unsnarl_model::{Backtrace, ThreadIx, Trace};
use unsnarl_symbols::Frame;

/// The frames of one thread, innermost first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    frames: Vec<Frame>,
    /// The user's code has line numbers, so frames without one are not the user's.
    lines: bool,
}

/// A part of a stack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StackPart<'a> {
    /// A frame of the user's code, with the number of consecutive repetitions.
    User(&'a Frame, usize),
    /// Library frames, named after the function that the user's code called.
    Library(String),
}

impl Stack {
    pub(crate) fn of(backtrace: &Backtrace, names: &mut dyn Names) -> Self {
        let frames: Vec<Frame> = backtrace.frames.iter().flat_map(|&site| names.frames(site)).collect();
        let lines = frames.iter().any(|frame| !frame.system && frame.line.is_some());
        Self { frames, lines }
    }

    /// Returns the stack of a thread when the run ended, as far as it is known.
    pub(crate) fn at_end(trace: &Trace, thread: ThreadIx, names: &mut dyn Names) -> Self {
        let backtrace = trace.outcome.backtraces.iter().find(|b| b.thread == thread);
        backtrace.map(|backtrace| Self::of(backtrace, names)).unwrap_or_default()
    }

    /// Returns all frames, including inlined ones.
    pub(crate) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Returns the frames of the user's code.
    pub(crate) fn users(&self) -> impl DoubleEndedIterator<Item = &Frame> {
        self.frames.iter().filter(|frame| self.is_users(frame))
    }

    /// Returns the library frames inside the user's innermost function, innermost first.
    pub(crate) fn inside(&self) -> &[Frame] {
        let user = self.frames.iter().position(|frame| self.is_users(frame)).unwrap_or(0);
        &self.frames[..user]
    }

    /// Returns the library function that the user's innermost function called.
    pub(crate) fn called(&self) -> Option<String> {
        self.inside().last()?.function.as_deref().map(functions::short)
    }

    /// Returns the stack without library internals and without the callers of the thread's first function.
    pub(crate) fn parts(&self) -> Vec<StackPart<'_>> {
        let mut parts: Vec<StackPart<'_>> = Vec::new();
        for run in self.frames.chunk_by(|a, b| a == b || !self.is_users(a) && !self.is_users(b)) {
            let last = &run[run.len() - 1];
            if self.is_users(last) {
                parts.push(StackPart::User(last, run.len()));
            } else {
                parts.push(StackPart::Library(
                    last.function.as_deref().map(functions::short).unwrap_or_default(),
                ));
            }
        }
        if parts.len() > 1 && matches!(parts.last(), Some(StackPart::Library(_))) {
            parts.pop();
        }
        parts
    }

    fn is_users(&self, frame: &Frame) -> bool {
        !frame.system && (frame.line.is_some() || !self.lines)
    }
}
