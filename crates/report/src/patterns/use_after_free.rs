//! Use after free: the thread that failed accesses a block that was freed and not allocated again.

use super::{
    Fact, Finding,
    Moment::{First, Then},
    Pattern,
};
use crate::{scene::Scene, story::Gap};
use unsnarl_semantics::{MemoryOp, Operation};

/// Number of the failed thread's last steps that are looked at.
const LAST: usize = 64;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let story = scene.story;
    let gaps = story.gaps();
    let used = |at: usize| {
        let range = story.access(at)?.range;
        let last = (0..at).rev().find_map(|before| match Operation::decode(&story.trace.events[before]) {
            Operation::Memory(MemoryOp::Free(block)) if block.overlaps(range) => Some(Some(before)),
            Operation::Memory(MemoryOp::Alloc(block)) if block.overlaps(range) => Some(None),
            _ => None,
        });
        let free = last.flatten()?;
        let facts = vec![Fact::new(free, First), Fact::new(at, Then).with(", in the freed block")];
        let finding = Finding::new(Pattern::UseAfterFree, facts);
        let during = |gap: &&Gap| gap.thread == story.thread(at) && story.meanwhile(gap).contains(&free);
        Some(match gaps.iter().find(during) {
            Some(gap) if gap.preemptive => finding.in_gap(gap),
            _ => finding,
        })
    };
    scene.failed.iter().find_map(|&thread| {
        let found: Vec<Finding> = story.before(thread, story.end).take(LAST).filter_map(used).collect();
        found.into_iter().next_back()
    })
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
        toy.block(1, 110, Op::Free, 0x5000, 32);
        if allocated_again {
            toy.block(1, 111, Op::Alloc, 0x5000, 32);
        }
        toy.read(0, 20, 0x5008, 0).fail(0);
        let story = toy.story();
        find(&Scene::toy(&story, &[], 20)).map(|finding| finding.pattern)
    }

    #[test]
    fn freed_block_is_accessed() {
        assert_eq!(found(false), Some(Pattern::UseAfterFree));
        assert_eq!(found(true), None, "it is another block");
    }
}
