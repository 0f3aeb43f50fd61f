//! Semaphores: treated as locks if they are used as such, and otherwise by tokens.

use crate::model::state::SyncState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use unsnarl_model::{Event, ThreadIx};
use unsnarl_semantics::{Operation, SemaphoreOp, Step};

/// Returns the semaphores that are mutexes in this window: there is one token, and its taker puts it back.
pub(super) fn used_as_mutexes(events: &[Event], start: &SyncState) -> BTreeSet<u64> {
    let taken_before: BTreeMap<u64, ThreadIx> = start.machine().token_takers().collect();
    let mut holders: BTreeMap<u64, Option<ThreadIx>> = BTreeMap::new();
    let mut others: BTreeSet<u64> = BTreeSet::new();
    for (event, number) in events.iter().zip(start.events()..) {
        let step = Step::decode(event, number);
        let Operation::Semaphore(op) = step.operation else { continue };
        let is_of_mutex = match op {
            SemaphoreOp::Wait { semaphore, left, .. } if step.succeeded() => {
                let holder = holders.entry(semaphore).or_default();
                holder.replace(step.thread).is_none() && left == 0
            }
            SemaphoreOp::Post { semaphore, count } if step.succeeded() => {
                let holder =
                    holders.entry(semaphore).or_insert_with(|| taken_before.get(&semaphore).copied());
                holder.take() == Some(step.thread) && count == 1
            }
            SemaphoreOp::Init { semaphore, count } => {
                holders.insert(semaphore, None);
                count == 1
            }
            _ => true,
        };
        if !is_of_mutex {
            others.insert(op.semaphore());
        }
    }
    holders.into_keys().filter(|semaphore| !others.contains(semaphore)).collect()
}

/// The tokens of a semaphore that is no mutex, by the steps that posted them. A wait needs the post whose
/// token it takes: with one post for each wait the count is never negative, in any order.
#[derive(Debug, Default)]
pub(super) struct Tokens(VecDeque<(ThreadIx, u32)>);

impl Tokens {
    pub(super) fn post(&mut self, thread: ThreadIx, step: u32) {
        self.0.push_back((thread, step));
    }

    /// Returns the post whose token is taken: one of the thread's own, because that adds no constraint, or
    /// the oldest. `None` if the token was there from the start.
    pub(super) fn take(&mut self, thread: ThreadIx, left: u64) -> Option<u32> {
        // As long as more are left than were posted, this one was there before.
        if left >= self.0.len() as u64 {
            return None;
        }
        let own = self.0.iter().rposition(|&(by, _)| by == thread);
        self.0.remove(own.unwrap_or(0)).map(|(_, step)| step)
    }
}
