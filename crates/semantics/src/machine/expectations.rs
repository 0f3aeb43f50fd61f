//! Facts about a whole run that its first events do not show.

use crate::{BarrierOp, OnceOp, Operation, Step, ThreadOp};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use unsnarl_model::{Event, ThreadIx};

/// What a run started with and what it will do: the first counts of semaphores, the threads that it creates,
/// the number of events of each thread, and of arrivals at each round of a barrier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectations {
    counts: BTreeMap<u64, u64>,
    created: BTreeSet<ThreadIx>,
    ended: BTreeSet<ThreadIx>,
    joined: BTreeSet<ThreadIx>,
    events: Vec<u64>,
    arrivals: BTreeMap<(u64, u64), u64>,
    /// The number of times that a once routine began, less the times it ended.
    unfinished: BTreeMap<u64, i64>,
}

impl Expectations {
    /// Collects the facts from all events of a run.
    #[must_use]
    pub fn of(events: &[Event]) -> Self {
        let mut expectations = Self::default();
        events.iter().for_each(|event| expectations.note(event));
        expectations
    }

    /// Processes one more event.
    pub fn note(&mut self, event: &Event) {
        let step = Step::decode(event, 0);
        if self.events.len() <= step.thread.index() {
            self.events.resize(step.thread.index() + 1, 0);
        }
        self.events[step.thread.index()] += 1;
        match step.operation {
            Operation::Semaphore(op) => {
                if let Some(count) = op.count_before(step.result) {
                    self.counts.entry(op.semaphore()).or_insert(count);
                }
            }
            Operation::Thread(ThreadOp::Create { thread }) if step.succeeded() => {
                self.created.extend(thread.known());
            }
            Operation::Thread(ThreadOp::Join { thread }) if step.succeeded() => {
                self.joined.extend(thread.known());
            }
            Operation::Thread(ThreadOp::End { .. }) => {
                self.ended.insert(step.thread);
            }
            Operation::Once(OnceOp::Begin { once }) => *self.unfinished.entry(once).or_default() += 1,
            Operation::Once(OnceOp::End { once }) => *self.unfinished.entry(once).or_default() -= 1,
            Operation::Barrier(BarrierOp::Arrive { barrier, round }) => {
                *self.arrivals.entry((barrier, round)).or_default() += 1;
            }
            _ => {}
        }
    }

    /// Returns the number of events after which a thread has ended, if it ends without an event for that: in
    /// traces of other tools, a thread that is joined ends with its last event.
    pub(crate) fn silent_end(&self, thread: ThreadIx) -> Option<u64> {
        let is_silent = self.joined.contains(&thread) && !self.ended.contains(&thread);
        is_silent.then(|| self.events.get(thread.index()).copied().unwrap_or(0))
    }

    /// Returns the number of events of each thread.
    #[must_use]
    pub fn events(&self) -> &[u64] {
        &self.events
    }

    pub(crate) fn counts(&self) -> &BTreeMap<u64, u64> {
        &self.counts
    }

    pub(crate) fn is_created_by_event(&self, thread: ThreadIx) -> bool {
        self.created.contains(&thread)
    }

    /// Returns whether an exception may have left a once routine: that is no event.
    pub(crate) fn may_throw(&self, once: u64) -> bool {
        self.unfinished.get(&once).is_none_or(|&unfinished| unfinished > 0)
    }

    pub(crate) fn arrivals(&self, barrier: u64, round: u64) -> Option<u64> {
        self.arrivals.get(&(barrier, round)).copied()
    }
}
