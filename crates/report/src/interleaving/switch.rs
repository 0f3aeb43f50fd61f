//! Why the processor went from one thread to another.

use crate::{objects::ObjectNames, words};
use unsnarl_model::{Flags, Op, ThreadIx, Trace};

/// Why a context switch happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The scheduler took it from a thread (its name) that could have gone on.
    Preempts(String),
    /// The thread had to stop; in words, as far as the trace tells.
    Stopped(String),
}

/// The context switches of a trace.
pub(super) struct Switches {
    /// For each event the next one by the same thread; the number of events if there is none.
    next: Vec<usize>,
}

impl Switches {
    pub(super) fn of(trace: &Trace) -> Self {
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

    /// Away from whom and why the switch right before this event was, if there was one.
    pub(super) fn before(
        &self,
        trace: &Trace,
        objects: &ObjectNames,
        number: usize,
    ) -> Option<(ThreadIx, Why)> {
        let last = number.checked_sub(1)?;
        let (before, event) = (&trace.events[last], &trace.events[number]);
        if before.thread == event.thread {
            return None;
        }
        let why = if event.flags.has(Flags::PREEMPTS) {
            Why::Preempts(words::id(trace, before.thread))
        } else {
            Why::Stopped(self.stop(trace, objects, last))
        };
        Some((before.thread, why))
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
                Op::CondWake | Op::FutexWoken | Op::BarrierLeave => waits(trace, objects, self.next[last]),
                _ if next.flags.has(Flags::BLOCKED) => waits(trace, objects, self.next[last]),
                _ => String::new(),
            };
        }
        let wait = trace.outcome.waits.iter().find(|wait| wait.thread == thread);
        wait.map(|wait| format!("waits {}", words::wait(trace, objects, wait))).unwrap_or_default()
    }
}

fn waits(trace: &Trace, objects: &ObjectNames, number: usize) -> String {
    format!("waits {}", words::wait_ended_by(trace, objects, number))
}
