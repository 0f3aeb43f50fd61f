//! Why the processor went from one thread to another.

use crate::{describe, objects::ObjectNames};
use unsnarl_model::{Flags, Op, ThreadIx, Trace};

/// Why a context switch happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SwitchReason {
    /// The scheduler took it from a thread (its name) that could have gone on.
    Preempts(String),
    /// The thread had to stop; in words, as far as the trace tells.
    Stopped(String),
}

/// The context switches of a trace.
pub(crate) struct Switches {
    /// For each event the next one by the same thread; the number of events if there is none.
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

    /// Away from whom and why the switch between two events that are shown was, if there was one.
    /// In between there may be events that are not shown.
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

    /// Why the thread of this event did not go on after it.
    fn stop(&self, trace: &Trace, objects: &ObjectNames, last: usize) -> String {
        let thread = trace.events[last].thread;
        if matches!(trace.events[last].op, Op::End | Op::Exit) {
            return "has ended".to_owned();
        }
        // What it waited for shows when it goes on, or in the outcome if it never did.
        if let Some(next) = trace.events.get(self.next[last]) {
            return match next.op {
                Op::Yield => "gives way".to_owned(),
                Op::Sleep => "sleeps".to_owned(),
                // It could not go on, so it must have waited for what it did next.
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
        // It could not go on and never did: it waited, and the run ended before it was over.
        wait.map_or_else(
            || "waits".to_owned(),
            |wait| format!("waits {}", describe::wait(trace, objects, wait)),
        )
    }
}

fn waits(trace: &Trace, objects: &ObjectNames, number: usize) -> String {
    format!("waits {}", describe::wait_ended_by(trace, objects, number))
}
