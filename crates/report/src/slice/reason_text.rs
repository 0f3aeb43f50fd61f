//! The reasons why a line is in a slice, as text.

use super::{LineIndex, SourceLine};
use crate::{Names, ObjectNames};
use unsnarl_model::{OutcomeKind, Site, ThreadIx, Trace};
use unsnarl_slice::{CELLS, Consumer, DataPath, InstructionIx, Reason, x86::Recording};

pub(super) struct ReasonWriter<'a, 'b> {
    pub(super) trace: &'a Trace,
    pub(super) recording: &'a Recording<'a>,
    pub(super) objects: &'a ObjectNames,
    pub(super) lines: &'a mut LineIndex<'b>,
    pub(super) names: &'a mut dyn Names,
    /// The line in question.
    pub(super) line: &'a SourceLine,
}

/// The parts that a line to explain can have in the failure.
const BLOCKS: &str = "blocks here";
const HOLDS: &str = "acquires what another thread waits for";
const FAILS: &str = "fails here";
const STOPPED: &str = "is here when the run is stopped";
const EXPLAINED: &str = "the slice explains this line";

const BY_LIBRARY: &str = "by library code";

/// Returns whether a reason says that the line is to be explained.
pub(super) fn is_criterion(reason: &str) -> bool {
    [BLOCKS, HOLDS, FAILS, STOPPED, EXPLAINED].contains(&reason)
}

/// Returns whether a reason names no line of the user's.
pub(super) fn is_about_library(reason: &str) -> bool {
    reason.contains(BY_LIBRARY)
}

type Dependent = Option<(&'static str, SourceLine)>;

impl ReasonWriter<'_, '_> {
    /// Describes a reason, and returns the line that it is about; `None` for dependences within one line.
    pub(super) fn of(&mut self, instruction: InstructionIx, reason: &Reason) -> Option<(String, Dependent)> {
        let Some(consumer) = reason.about() else { return Some((self.criterion(), None)) };
        let about = self.lines.of(consumer.instruction, self.names).map(|(line, _)| line);
        let between_threads = matches!(
            reason,
            Reason::WroteBefore(..)
                | Reason::WroteAfter(..)
                | Reason::AtomicBefore(..)
                | Reason::AtomicAfter(..)
        );
        if about.as_ref() == Some(self.line) && !between_threads {
            return None;
        }
        let at = self.line_and_thread(&about, consumer);
        let text = match *reason {
            Reason::Criterion => return None,
            Reason::Writes(_, path) => match self.value(path, consumer.thread) {
                Some(object) => (format!("writes {object}, read {at}"), "data"),
                None => (format!("computes a value used {at}"), "data"),
            },
            Reason::Decides(_) => (format!("controls what is executed {at}"), "control"),
            Reason::Calls(_) => (self.call(instruction, &at, consumer), "call"),
            Reason::WroteBefore(_, addr) => {
                let object = object(self.recording, self.objects, self.names, addr, consumer.thread);
                (format!("race: writes {object}, then it is written {at}; nothing orders the two"), "WAW")
            }
            Reason::WroteAfter(_, addr) => {
                let object = object(self.recording, self.objects, self.names, addr, consumer.thread);
                (format!("race: writes {object} after it was read {at}; nothing orders the two"), "WAR")
            }
            Reason::AtomicBefore(_, addr) => {
                let object = object(self.recording, self.objects, self.names, addr, consumer.thread);
                (format!("writes {object}, then it is written {at}; they are atomic, in either order"), "WAW")
            }
            Reason::AtomicAfter(_, addr) => {
                let object = object(self.recording, self.objects, self.names, addr, consumer.thread);
                (format!("writes {object} after it was read {at}; they are atomic, in either order"), "WAR")
            }
        };
        Some((text.0, about.map(|line| (text.1, line))))
    }

    /// Describes the part that a line to explain has in the failure.
    fn criterion(&mut self) -> String {
        let outcome = &self.trace.outcome;
        let mut is_here = |site: Site| {
            let frames = self.names.frames(site);
            let user = frames.into_iter().find(|frame| !frame.system && frame.line.is_some());
            user.is_some_and(|frame| {
                frame.line == Some(self.line.line) && frame.file.as_deref() == Some(self.line.file.as_str())
            })
        };
        let is_wait = outcome.waits.iter().any(|wait| is_here(wait.site))
            || outcome.backtraces.iter().any(|stack| stack.frames.iter().any(|&site| is_here(site)));
        let is_place = outcome.site.is_some_and(is_here);
        match outcome.kind {
            OutcomeKind::Deadlock if is_wait => BLOCKS,
            OutcomeKind::Deadlock => HOLDS,
            OutcomeKind::Livelock | OutcomeKind::Undecided(_) if is_place => STOPPED,
            _ if is_place => FAILS,
            _ => EXPLAINED,
        }
        .to_owned()
    }

    fn line_and_thread(&self, line: &Option<SourceLine>, consumer: Consumer) -> String {
        let thread = self.trace.thread_id(consumer.thread);
        match line {
            Some(line) if line == self.line => format!("on this line by thread {thread}"),
            Some(line) => {
                let file = line.file.rsplit('/').next().unwrap_or(&line.file);
                format!("at {file}:{} by thread {thread}", line.line)
            }
            None => format!("{BY_LIBRARY} in thread {thread}"),
        }
    }

    fn call(&mut self, instruction: InstructionIx, at: &str, consumer: Consumer) -> String {
        let starts = |call: &&unsnarl_slice::x86::Call| {
            call.instruction == instruction && call.created == Some(consumer.thread)
        };
        match self.recording.calls().iter().find(starts) {
            Some(_) => format!("starts thread {}", self.trace.thread_id(consumer.thread)),
            None => format!("calls the code executed {at}"),
        }
    }

    fn value(&mut self, path: DataPath, thread: ThreadIx) -> Option<String> {
        match path {
            DataPath::Register => None,
            DataPath::Memory(addr) if addr >= CELLS && addr >> 56 & 0x70 == 0 => None,
            DataPath::Memory(addr) => Some(object(self.recording, self.objects, self.names, addr, thread)),
        }
    }
}

/// Returns the name of the object at an address.
pub(super) fn object(
    recording: &Recording<'_>,
    objects: &ObjectNames,
    names: &mut dyn Names,
    addr: u64,
    thread: ThreadIx,
) -> String {
    if addr >= CELLS {
        return "a file".into();
    }
    if let Some(name) = names.variable(addr) {
        return format!("`{name}`");
    }
    let mut threads = recording.threads().map(|(thread, _)| thread);
    if recording.own_stack(thread, addr) || threads.any(|thread| recording.own_stack(thread, addr)) {
        return "a local variable".into();
    }
    // Memory that no event of the trace accessed has no name.
    objects.at_end(addr).map_or_else(|| format!("memory at {addr:#x}"), |name| format!("`{name}`"))
}
