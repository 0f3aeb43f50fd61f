//! Signal consumed by another waiter. Either a thread that was woken goes on without testing its condition again (`if`
//! instead of `while`) although another thread has made it false; or the signal woke a thread whose condition is still
//! false, and the one that it was meant for sleeps on.

use super::{
    Fact, Finding,
    Moment::{First, Meanwhile, Then},
    OWN_STEPS, Pattern,
};
use crate::scene::Scene;
use unsnarl_semantics::{CondOp, Operation};

/// Number of reads before a wait that can be its condition.
const CONDITION: usize = 4;

/// Finds a thread that failed after it went on with a false condition.
pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let story = scene.story;
    let operation = |at: usize| Operation::decode(&story.trace.events[at]);
    scene.failed.iter().find_map(|&thread| {
        let mut own = story.before(thread, story.end);
        let (woken, signal) = own.find_map(|at| match operation(at) {
            Operation::Cond(CondOp::Wake { waker, .. }) => Some((at, waker? as usize)),
            _ => None,
        })?;
        let began = story
            .before(thread, woken)
            .find(|&at| matches!(operation(at), Operation::Cond(CondOp::Wait { .. })))?;
        let tests = story.before(thread, began).take(OWN_STEPS).filter(|&at| story.read(at).is_some());
        tests.take(CONDITION).find_map(|test| {
            let site = |at: usize| story.trace.events[at].site;
            let uses = || (woken..story.end).filter(|&at| story.thread(at) == thread);
            let tests_again = uses().any(|at| site(at) == site(test));
            let used = uses().find(|&at| story.meet(at, test))?;
            let taken = (signal..woken).rev().find(|&at| {
                ![thread, story.thread(signal)].contains(&story.thread(at))
                    && story.write(at).is_some()
                    && story.meet(at, test)
                    && story.value_left(at).is_some()
                    && story.value_left(at) == story.value_found(test)
            })?;
            let facts = vec![
                Fact::new(signal, First).with(&format!(", which woke thread {}", id(scene, thread))),
                Fact::new(taken, Meanwhile),
                Fact::new(used, Then).with(" without testing the condition again"),
            ];
            (!tests_again).then(|| Finding::new(Pattern::ConsumedSignal, facts))
        })
    })
}

/// Finds a signal that woke a thread which waits again, while others wait for the same condition variable.
pub(super) fn not_woken(scene: &Scene<'_>) -> Option<Finding> {
    let story = scene.story;
    let operation = |at: usize| Operation::decode(&story.trace.events[at]);
    story.trace.outcome.waits.iter().find_map(|wait| {
        let waited_since = |at: usize| matches!(operation(at), Operation::Cond(CondOp::Wait { cond, .. }) if cond == wait.addr);
        let began = story.before(wait.thread, story.end).find(|&at| waited_since(at))?;
        let woken_other = |at: usize| match operation(at) {
            Operation::Cond(CondOp::Wake { cond, waker, .. }) if cond == wait.addr => {
                Some((at, waker? as usize)).filter(|&(_, signal)| signal > began)
            }
            _ => None,
        };
        let (woken, signal) = (began..story.end).rev().find_map(woken_other)?;
        let is_single = matches!(operation(signal), Operation::Cond(CondOp::Signal { broadcast: false, .. }));
        let other = story.thread(woken);
        let again = (woken..story.end).find(|&at| story.thread(at) == other && waited_since(at))?;
        let facts = vec![
            Fact::new(began, First),
            Fact::new(signal, Then).with(&format!(", which woke thread {}", id(scene, other))),
            Fact::new(again, Then).with(" again"),
        ];
        (is_single && other != wait.thread).then(|| Finding::new(Pattern::ConsumedSignal, facts))
    })
}

fn id(scene: &Scene<'_>, thread: unsnarl_model::ThreadIx) -> String {
    crate::describe::id(&scene.story.trace, thread)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{find, toy::Toy},
        *,
    };
    use unsnarl_model::Op;

    const COUNT: u64 = 8;
    const COND: u64 = 0x200;

    fn taken(tests_again: bool) -> Option<Pattern> {
        let mut toy = Toy::new(4);
        toy.read(1, 110, COUNT, 0).cond_wait(1, 111, COND);
        toy.write(3, 310, COUNT, (0, 1)).signal(3, 311, COND, 1);
        let signal = toy.last();
        toy.read(2, 110, COUNT, 1).write(2, 112, COUNT, (1, 0)).cond_wake(1, 111, COND, signal);
        if tests_again {
            toy.read(1, 110, COUNT, 0);
        }
        toy.write(1, 112, COUNT, (0, u64::MAX)).fail(1);
        let story = toy.story();
        find(&Scene::toy(&story, &[], 0)).map(|finding| finding.pattern)
    }

    #[test]
    fn if_instead_of_while() {
        assert_eq!(taken(false), Some(Pattern::ConsumedSignal));
        assert_ne!(taken(true), Some(Pattern::ConsumedSignal));
    }

    #[test]
    fn signal_wakes_a_thread_that_waits_again() {
        let found = |waits_again: bool| {
            let mut toy = Toy::new(4);
            toy.cond_wait(1, 111, COND).cond_wait(2, 211, COND).signal(3, 311, COND, 1);
            let signal = toy.last();
            toy.cond_wake(2, 211, COND, signal);
            if waits_again {
                toy.cond_wait(2, 211, COND);
            }
            toy.waits(1, Op::CondWait, COND, &[]);
            let story = toy.story();
            find(&Scene::toy(&story, &[], 0)).map(|finding| finding.pattern)
        };
        assert_eq!((found(true), found(false)), (Some(Pattern::ConsumedSignal), None));
    }
}
