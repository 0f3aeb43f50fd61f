//! Describes the result of a fix check.

use crate::output;
use std::{os::unix::ffi::OsStrExt, path::Path};
use unsnarl_fix::{Doubt, FixCheck, FixVerdict, MissReason, MissedPreemption, ReadDifference};
use unsnarl_model::Trace;
use unsnarl_report::{Names, ProgramNames, operation_text, preemption_text};
use unsnarl_symbols::Symbols;

/// The result of a fix check, with all that is needed to describe it.
pub(super) struct FixReport<'a> {
    pub(super) recorded: &'a Trace,
    pub(super) names: ProgramNames<'a>,
    pub(super) path: &'a Path,
    pub(super) checked: FixCheck,
}

impl FixReport<'_> {
    pub(super) fn verdict_name(&self) -> &'static str {
        match self.checked.verdict {
            FixVerdict::Failing => "failing",
            FixVerdict::Fixed => "fixed",
            FixVerdict::Unreachable(_) => "unreachable",
            FixVerdict::CannotTell(_) => "cannot-tell",
        }
    }

    /// Returns whether it fails in the same way. If the code was changed there, the message or the function decides.
    pub(super) fn is_same(&mut self) -> bool {
        if self.recorded.signature() == self.checked.trace.signature() {
            return true;
        }
        let (old_outcome, new_outcome) = (&self.recorded.outcome, &self.checked.trace.outcome);
        let mut symbols = Symbols::new();
        let mut others = ProgramNames::new(&self.checked.trace.modules, &mut symbols);
        let old_function = old_outcome.site.and_then(|site| self.names.place(site).function);
        let new_function = new_outcome.site.and_then(|site| others.place(site).function);
        old_outcome.kind == new_outcome.kind
            && (old_outcome.message == new_outcome.message
                || (old_function.is_some() && old_function == new_function))
    }

    /// Describes why the schedule is not reachable, or why there is no verdict.
    pub(super) fn reason_text(&mut self) -> Option<String> {
        match self.checked.verdict.clone() {
            FixVerdict::Failing | FixVerdict::Fixed => None,
            FixVerdict::Unreachable(missed) => Some(self.miss_text(missed)),
            FixVerdict::CannotTell(doubt) => Some(self.doubt_text(doubt)),
        }
    }

    fn doubt_text(&mut self, doubt: Doubt) -> String {
        let path = output::quoted(self.path);
        let mut operation = |number: usize| {
            let thread = self.recorded.thread_id(self.recorded.events[number].thread);
            (thread.to_string(), operation_text(self.recorded, number, &mut self.names))
        };
        match doubt {
            Doubt::UnknownCode(number) => {
                let (thread, operation) = operation(number);
                format!(
                    "in the recording, thread {thread} does {operation}; {path} has no such function \
                     or does not start this thread, so this cannot be compared"
                )
            }
            Doubt::Read(ReadDifference::Missing(number)) => {
                let (thread, operation) = operation(number);
                format!(
                    "every preemption was made, but then thread {thread} did not {operation} as in the recording"
                )
            }
            Doubt::Read(ReadDifference::OtherSource(number)) => {
                let (thread, operation) = operation(number);
                format!(
                    "every preemption was made, but when thread {thread} did {operation}, it did not see the \
                     write that it saw in the recording"
                )
            }
            Doubt::Ambiguous(number) => {
                let (thread, operation) = operation(number);
                format!(
                    "several operations of {path} may be {operation} of thread {thread}, and the verdict depends \
                     on which of them is taken"
                )
            }
            Doubt::Stopped => "a limit ended the run before the program did".into(),
            Doubt::NotReproduced => {
                "it is the recorded build, and the recorded schedule did not fail again: the failure depends on \
                 something outside the program; `unsnarl replay` shows where the run differs"
                    .into()
            }
        }
    }

    fn miss_text(&mut self, MissedPreemption { event, reason }: MissedPreemption) -> String {
        let preemption = preemption_text(self.recorded, event, &mut self.names).unwrap_or_default();
        let trace = &self.checked.trace;
        let mut symbols = Symbols::new();
        let mut others = ProgramNames::new(&trace.modules, &mut symbols);
        match reason {
            MissReason::Gone(number) => {
                let thread = self.recorded.thread_id(self.recorded.events[number].thread);
                let operation = operation_text(self.recorded, number, &mut self.names);
                format!("{preemption}: thread {thread} does not {operation} there any more")
            }
            MissReason::Waits(Some(number)) => {
                let thread = trace.thread_id(trace.events[number].thread);
                let operation = operation_text(trace, number, &mut others);
                format!("{preemption}: thread {thread} is blocked then, waiting to {operation}")
            }
            MissReason::Waits(None) => format!("{preemption}: the other threads are blocked then"),
        }
    }

    pub(super) fn text(&mut self, same: bool, saved: Option<&Path>) -> String {
        let path = output::quoted(self.path);
        let mut arguments = String::new();
        for arg in self.recorded.program.args.iter().skip(1) {
            arguments += " ";
            arguments += &output::quoted(Path::new(std::ffi::OsStr::from_bytes(arg)));
        }
        let explore = format!("unsnarl explore -- {path}{arguments}");
        let preemptions = self.recorded.stats().preemptive;
        let preemptions = match preemptions {
            1 => "the preemption".to_owned(),
            n => format!("all {n} preemptions"),
        };
        match (self.checked.verdict.clone(), saved) {
            (FixVerdict::Failing, saved) => {
                let how = if same { "in the same way" } else { "in another way" };
                let saved = saved.map(output::quoted).unwrap_or_default();
                format!(
                    "still failing: {path} follows the recorded schedule and fails {how}\n\n{}\n\
                     trace    {saved}\nshow     unsnarl show {saved}\n",
                    output::outcome(&self.checked.trace)
                )
            }
            (FixVerdict::Fixed, _) => format!(
                "fixed: {path} followed the recorded schedule, with {preemptions}, and ended normally\n\
                 This is one schedule; to try others: {explore}\n"
            ),
            (FixVerdict::Unreachable(_), _) => format!(
                "no longer reachable: {path} cannot follow the recorded schedule; it ended normally\n  \
                 {}\nThe reason may be a lock that was added, or code that was removed. To try other schedules: {explore}\n",
                self.reason_text().unwrap_or_default()
            ),
            (FixVerdict::CannotTell(_), _) => format!(
                "cannot tell: {path} did not fail, but this does not show that it is fixed\n  {}\n\
                 To search in it: {explore}\n",
                self.reason_text().unwrap_or_default()
            ),
        }
    }
}
