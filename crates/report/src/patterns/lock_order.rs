//! Lock-order deadlock: each thread of a cycle waits for a lock that the next one holds.

use super::{Fact, Finding, Moment::First, Pattern};
use crate::scene::Scene;
use unsnarl_model::{Op, Wait};
use unsnarl_semantics::Operation;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let story = scene.story;
    let waits = &story.trace.outcome.waits;
    let awaits_lock = |wait: &Wait| matches!(wait.op, Op::Lock | Op::ReadLock | Op::WriteLock);
    let next = |wait: &Wait| {
        let holder = *wait.holders.first().filter(|&&holder| holder != wait.thread)?;
        waits.iter().find(|other| other.thread == holder && awaits_lock(other))
    };
    let cycle = waits.iter().filter(|wait| awaits_lock(wait)).find_map(|first| {
        let mut cycle = vec![first];
        while cycle.len() <= waits.len() {
            let wait = next(cycle[cycle.len() - 1])?;
            if wait.thread == first.thread {
                return Some(cycle);
            }
            cycle.push(wait);
        }
        None
    })?;
    // Each thread's acquisition of the lock that another one waits for.
    let facts = cycle.iter().filter_map(|wait| {
        let holder = *wait.holders.first()?;
        let acquired = story.before(holder, story.end).find(|&at| {
            let event = &story.trace.events[at];
            matches!(event.op, Op::Lock | Op::TryLock | Op::ReadLock | Op::WriteLock)
                && Operation::decode(event).object() == Some(wait.addr)
        })?;
        Some(Fact::new(acquired, First))
    });
    let facts: Vec<Fact> = facts.collect();
    (facts.len() == cycle.len()).then(|| Finding::new(Pattern::LockOrder, facts))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{find, toy::Toy},
        *,
    };

    fn found(waits: &[(u16, u64, u16)]) -> Option<Pattern> {
        let mut toy = Toy::new(3);
        toy.lock(1, 110, 0xa, true).lock(2, 210, 0xb, true);
        for &(thread, lock, holder) in waits {
            toy.waits(thread, Op::Lock, lock, &[holder]);
        }
        let story = toy.story();
        find(&Scene::toy(&story, &[], 0)).map(|finding| finding.pattern)
    }

    #[test]
    fn each_waits_for_the_next() {
        assert_eq!(found(&[(1, 0xb, 2), (2, 0xa, 1)]), Some(Pattern::LockOrder));
        assert_eq!(found(&[(1, 0xb, 2)]), None, "the holder does not wait");
        assert_eq!(found(&[(1, 0xa, 1)]), None, "a thread that waits for itself");
    }
}
