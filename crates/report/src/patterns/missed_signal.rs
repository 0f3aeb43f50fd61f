//! Missed signal: a thread finds its condition false and is about to wait; another thread makes the condition true and
//! signals, but nobody waits yet; then the first one waits for ever.

use super::{
    Fact, Finding,
    Moment::{First, Meanwhile, Then},
    OWN_STEPS, Pattern,
};
use crate::scene::Scene;
use unsnarl_semantics::{CondOp, Operation};

/// Number of reads before a wait that can be its condition.
const CONDITION: usize = 4;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let story = scene.story;
    let operation = |at: usize| Operation::decode(&story.trace.events[at]);
    story.trace.outcome.waits.iter().find_map(|wait| {
        let began = story.before(wait.thread, story.end).find(
            |&at| matches!(operation(at), Operation::Cond(CondOp::Wait { cond, .. }) if cond == wait.addr),
        )?;
        let lost = (0..began).rev().find(
            |&at| matches!(operation(at), Operation::Cond(CondOp::Signal { cond, woken: 0, .. }) if cond == wait.addr),
        )?;
        let tests = story.before(wait.thread, began).take(OWN_STEPS).filter(|&at| story.read(at).is_some());
        tests.take(CONDITION).filter(|&test| test < lost).find_map(|test| {
            let change = (test..lost).rev().find(|&at| {
                story.thread(at) == story.thread(lost)
                    && story.write(at).is_some()
                    && story.changes(at)
                    && story.meet(at, test)
            })?;
            let facts = vec![
                Fact::new(test, First),
                Fact::new(change, Meanwhile),
                Fact::new(lost, Then).with(", when no thread was waiting"),
                Fact::new(began, Then),
            ];
            let finding = Finding::new(Pattern::MissedSignal, facts);
            let gaps = story.gaps();
            let gap = gaps.iter().find(|gap| gap.thread == wait.thread && (test + 1..=change).contains(&gap.at));
            Some(match gap {
                Some(gap) => finding.in_gap(gap),
                None => finding,
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::{find, toy::Toy},
        *,
    };
    use unsnarl_model::Op;

    const READY: u64 = 8;
    const COND: u64 = 0x200;

    fn found(tested_late: bool) -> Option<Pattern> {
        let mut toy = Toy::new(3);
        if !tested_late {
            toy.read(1, 110, READY, 0).preempt();
        }
        toy.write(2, 210, READY, (0, 1)).signal(2, 211, COND, 0);
        if tested_late {
            toy.read(1, 110, READY, 1);
        }
        toy.cond_wait(1, 111, COND).waits(1, Op::CondWait, COND, &[]);
        let story = toy.story();
        find(&Scene::toy(&story, &[], 0)).map(|finding| finding.pattern)
    }

    #[test]
    fn signal_comes_between_test_and_wait() {
        assert_eq!(found(false), Some(Pattern::MissedSignal));
        assert_eq!(found(true), None, "it had seen the change and waits for something else");
    }
}
