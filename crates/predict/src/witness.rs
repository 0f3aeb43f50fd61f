//! Witnesses: reorderings of a window's events that lead to an error.

use crate::{
    model::{Model, NONE, ReadRule},
    order::Frontier,
};
use unsnarl_model::{Event, Fidelity, Op, Plan, Policy, Prefix, Schedule, ThreadIx, Trace};

/// An order of events after which given events come next, each in its own thread.
///
/// A trace can have thousands of witnesses, so they are kept small: the order is computed on request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The number of events before the window, which come first in their original order.
    pub before: u64,
    /// The events that come next: the accesses that race, or the operations that wait for each other.
    pub meet: Vec<u64>,
    /// The writes that its reads may see.
    pub reads: ReadRule,
    runs: WitnessOrder,
}

/// The events that each thread executes in the window, and their order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WitnessOrder {
    /// By thread: the number of its events, in the order of the trace.
    TraceOrder(Vec<u32>),
    /// Thread by thread: the thread, and the event before which it stops.
    ThreadByThread(Vec<(ThreadIx, u32)>),
}

impl Witness {
    /// Builds the witness of a frontier in the order of the trace, up to the targets.
    pub(crate) fn in_trace_order(
        model: &Model,
        window: &Window<'_>,
        frontier: &Frontier,
        targets: &[u32],
    ) -> Self {
        let mut counts = vec![0; window.by_thread.len()];
        for (thread, events) in window.by_thread.iter().enumerate() {
            // Up to the thread's next step: the events in between do not matter to other threads.
            let until =
                match frontier[thread].checked_sub(1).filter(|_| frontier[thread] > model.given[thread]) {
                    Some(last) => end_of(model, thread, last),
                    None => 0,
                };
            counts[thread] = events.partition_point(|&event| event < until) as u32;
        }
        Self::to(model, window, WitnessOrder::TraceOrder(counts), targets)
    }

    /// Builds the witness of these steps in this order, up to the targets.
    pub(crate) fn thread_by_thread(
        model: &Model,
        window: &Window<'_>,
        steps: &[u32],
        targets: &[u32],
    ) -> Self {
        let mut turns: Vec<(ThreadIx, u32)> = Vec::new();
        for &number in steps {
            let step = model.step(number);
            let until = end_of(model, step.thread.index(), step.at);
            match turns.last_mut() {
                Some((thread, so_far)) if *thread == step.thread => *so_far = until,
                _ => turns.push((step.thread, until)),
            }
        }
        Self::to(model, window, WitnessOrder::ThreadByThread(turns), targets)
    }

    fn to(model: &Model, window: &Window<'_>, runs: WitnessOrder, targets: &[u32]) -> Self {
        let meet = targets.iter().map(|&target| window.first + u64::from(model.step(target).event)).collect();
        Self { before: window.first, meet, reads: model.reads, runs }
    }

    /// Returns the events of the window in the order of this witness, by their numbers in the trace. `window`
    /// has the events from the first one after [`before`](Self::before) on, and at least up to the end of the
    /// window.
    #[must_use]
    pub fn order(&self, window: &[Event]) -> Vec<u64> {
        let number = |at: u32| self.before + u64::from(at);
        let stops = self.meet.iter().map(|&number| (number - self.before) as u32);
        let stops: Vec<(ThreadIx, u32)> = stops.map(|at| (window[at as usize].thread, at)).collect();
        match &self.runs {
            WitnessOrder::TraceOrder(counts) => {
                let mut left = counts.clone();
                let mut all: usize = counts.iter().map(|&count| count as usize).sum();
                let mut order = Vec::with_capacity(all);
                for (event, at) in window.iter().zip(0..) {
                    if all == 0 {
                        break;
                    }
                    let thread = event.thread;
                    let counts = left.get_mut(thread.index()).filter(|left| **left > 0);
                    let Some(left) = counts else { continue };
                    *left -= 1;
                    all -= 1;
                    // Events between the last step and the target are included; the target is not.
                    if !stops.iter().any(|&(stopped, stop)| stopped == thread && at >= stop) {
                        order.push(number(at));
                    }
                }
                order
            }
            WitnessOrder::ThreadByThread(turns) => {
                let lines = Window::of(self.before, window).by_thread;
                let mut done = vec![0; lines.len()];
                let mut order = Vec::new();
                let turns = turns.iter().copied().chain(stops);
                for (thread, until) in turns {
                    let (line, done) = (&lines[thread.index()], &mut done[thread.index()]);
                    while let Some(&at) = line.get(*done).filter(|&&at| at < until) {
                        order.push(number(at));
                        *done += 1;
                    }
                }
                order
            }
        }
    }

    /// Returns the witness as a schedule after the events before the window.
    #[must_use]
    pub fn schedule(&self, window: &[Event]) -> Schedule {
        let mut schedule = Schedule::default();
        for number in self.order(window) {
            schedule.push(window[(number - self.before) as usize].thread);
        }
        schedule
    }

    /// Returns the plan that follows this witness and looks for races. At the end the racing accesses are
    /// executed, one right after the other; a deadlock needs no further steps.
    #[must_use]
    pub fn plan(&self, trace: &Trace, fidelity: Fidelity) -> Plan {
        let accesses = self.meet.iter().filter(|&&number| {
            let op = trace.events[number as usize].op;
            op.is_plain_access() || op.is_atomic()
        });
        let order = self.order(&trace.events[self.before as usize..]);
        let numbers = (0..self.before).chain(order).chain(accesses.copied());
        let events: Vec<Event> = numbers.map(|number| trace.events[number as usize]).collect();
        let prefix = Prefix {
            threads: trace.threads.iter().map(|thread| thread.id.clone()).collect(),
            modules: trace.modules.iter().map(|module| module.path.clone()).collect(),
            segments: Schedule::of(&events).segments,
            actions: events.iter().map(|event| trace.action(event).into()).collect(),
            fidelity,
        };
        Plan { prefix, tail: Policy::Fair, conflicts: true, ..trace.plan.clone() }
    }
}

/// Returns the window's number of the event where the thread's next step begins.
fn end_of(model: &Model, thread: usize, at: u32) -> u32 {
    let event = model.of_thread(thread, at).map_or(NONE, |step| step.event);
    let mut next = at + 1;
    loop {
        match model.of_thread(thread, next) {
            Some(after) if after.event == event => next += 1,
            Some(after) => return after.event,
            None => return NONE,
        }
    }
}

/// The events of a window.
#[derive(Debug)]
pub(crate) struct Window<'a> {
    /// The number of events before it.
    pub(crate) first: u64,
    pub(crate) events: &'a [Event],
    /// By thread: the numbers of its events, up to where it ends the program.
    pub(crate) by_thread: Vec<Vec<u32>>,
}

impl<'a> Window<'a> {
    pub(crate) fn of(first: u64, events: &'a [Event]) -> Self {
        let threads = events.iter().map(|event| event.thread.index() + 1).max().unwrap_or(0);
        let mut by_thread = vec![Vec::new(); threads];
        let mut exited = vec![false; threads];
        for (event, number) in events.iter().zip(0..) {
            let thread = event.thread.index();
            exited[thread] |= event.op == Op::Exit;
            if !exited[thread] {
                by_thread[thread].push(number);
            }
        }
        Self { first, events, by_thread }
    }
}
