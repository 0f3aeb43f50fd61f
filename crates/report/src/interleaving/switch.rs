//! The reasons for context switches.

use crate::{describe, objects::ObjectNames};
use unsnarl_model::{Flags, Op, ThreadIx, Trace};

/// The reason for a context switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SwitchReason {
    /// The scheduler preempted a thread (its name) that could have continued.
    Preempts(String),
    /// The thread had to stop; described as far as the trace shows it.
    Stopped(String),
}

/// The context switches of a trace.
pub(crate) struct Switches {
    /// For each event the next one of the same thread; the number of events if there is none.
    next: Vec<usize>,
}

impl Switches {
    pub(crate) fn of(trace: &Trace) -> Self {
        let end = trace.events.len();
        let mut upcoming = vec![end; trace.threads.len()];
        let mut next = vec![end; end];
        for (number, event) in trace.events.iter().enumerate().rev() {
            if let Some(upcoming) = upcoming.get_mut(event.thread.index()) {
                next[number] = std::mem::replace(upcoming, number);
            }
        }
        Self { next }
    }

    /// Returns the previous thread and the reason for the switch between two shown events, if there was one. There may
    /// be events in between that are not shown.
    pub(crate) fn between(
        &self,
        trace: &Trace,
        objects: &ObjectNames,
        before: usize,
        number: usize,
    ) -> Option<(ThreadIx, SwitchReason)> {
        let from = trace.events[before].thread;
        if from == trace.events[number].thread {
            return None;
        }
        let last = (before..number).rev().find(|&at| trace.events[at].thread == from)?;
        let reason = if trace.events[last + 1].flags.has(Flags::PREEMPTS) {
            SwitchReason::Preempts(describe::id(trace, from))
        } else {
            SwitchReason::Stopped(self.stop(trace, objects, last))
        };
        Some((from, reason))
    }

    /// Describes why the thread of this event did not continue after it.
    fn stop(&self, trace: &Trace, objects: &ObjectNames, last: usize) -> String {
        let thread = trace.events[last].thread;
        if matches!(trace.events[last].op, Op::End | Op::Exit) {
            return "has ended".to_owned();
        }
        // The awaited object is known from the thread's next event, or from the outcome if there is none.
        if let Some(next) = trace.events.get(self.next[last]) {
            return match next.op {
                Op::Yield => "yields".to_owned(),
                Op::Sleep => "sleeps".to_owned(),
                // The thread could not continue, so it waited for its next operation.
                Op::CondWake
                | Op::FutexWoken
                | Op::BarrierLeave
                | Op::Lock
                | Op::ReadLock
                | Op::WriteLock
                | Op::SemWait
                | Op::OnceBegin
                | Op::OncePass
                | Op::Join => waits(trace, objects, self.next[last]),
                _ => String::new(),
            };
        }
        let wait = trace.outcome.waits.iter().find(|wait| wait.thread == thread);
        // The thread still waited when the run ended.
        wait.map_or_else(
            || "waits".to_owned(),
            |wait| format!("waits {}", describe::wait(trace, objects, wait)),
        )
    }
}

fn waits(trace: &Trace, objects: &ObjectNames, number: usize) -> String {
    format!("waits {}", describe::wait_ended_by(trace, objects, number))
}
