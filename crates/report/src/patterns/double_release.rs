//! Double release: a block is freed a second time without having been allocated again, and nothing happens in the thread
//! after that.

use super::{
    Fact, Finding,
    Moment::{First, Then},
    Pattern,
};
use crate::scene::Scene;
use unsnarl_semantics::{MemoryOp, Operation};

/// Number of the failed thread's last steps that are looked at.
const LAST: usize = 4;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let story = scene.story;
    let operation = |at: usize| Operation::decode(&story.trace.events[at]);
    let freed_again = |at: usize| {
        let Operation::Memory(MemoryOp::Free(block)) = operation(at) else { return None };
        let last = (0..at).rev().find_map(|before| match operation(before) {
            Operation::Memory(MemoryOp::Free(other)) if other.first == block.first => Some(Some(before)),
            Operation::Memory(MemoryOp::Alloc(other)) if other.overlaps(block) => Some(None),
            _ => None,
        });
        let facts = vec![Fact::new(last.flatten()?, First), Fact::new(at, Then).with(", a second time")];
        Some(Finding::new(Pattern::DoubleRelease, facts))
    };
    scene.failed.iter().find_map(|&thread| story.before(thread, story.end).take(LAST).find_map(freed_again))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{find, toy::Toy},
        *,
    };
    use unsnarl_model::Op;

    fn found(allocated_again: bool) -> Option<Pattern> {
        let mut toy = Toy::new(2);
        toy.block(0, 10, Op::Alloc, 0x5000, 32).block(1, 110, Op::Free, 0x5000, 32);
        if allocated_again {
            toy.block(0, 11, Op::Alloc, 0x5000, 32);
        }
        toy.block(0, 20, Op::Free, 0x5000, 32).fail(0);
        let story = toy.story();
        find(&Scene::toy(&story, &[], 20)).map(|finding| finding.pattern)
    }

    #[test]
    fn block_is_freed_twice() {
        assert_eq!(found(false), Some(Pattern::DoubleRelease));
        assert_eq!(found(true), None);
    }
}
