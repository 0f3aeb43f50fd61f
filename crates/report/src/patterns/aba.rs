//! ABA: a thread reads a variable and later replaces it by a compare-and-exchange that succeeds, although other threads
//! changed the variable to something else and back in between.

use super::{
    Fact, Finding,
    Moment::{First, Meanwhile, Then},
    OWN_STEPS, Pattern,
};
use crate::scene::Scene;
use unsnarl_semantics::AccessKind;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let story = scene.story;
    let exchanges = (0..story.end)
        .rev()
        .filter(|&at| story.write(at).is_some_and(|access| access.kind == AccessKind::CompareExchange));
    let was_fooled = |exchange: usize| {
        let thread = story.thread(exchange);
        let expected = story.value_found(exchange)?;
        let read = story.before(thread, exchange).take(OWN_STEPS).find(|&at| story.meet(at, exchange))?;
        if story.write(read).is_some() || story.value_found(read) != Some(expected) {
            return None;
        }
        let mut others = (read..exchange).filter(|&at| {
            story.thread(at) != thread && story.write(at).is_some() && story.meet(at, exchange)
        });
        let away = others.find(|&at| story.value_left(at).is_some_and(|value| value != expected))?;
        let back = others.rfind(|&at| story.value_left(at) == Some(expected))?;
        let facts = vec![
            Fact::new(read, First),
            Fact::new(away, Meanwhile),
            Fact::new(back, Then).with(" again"),
            Fact::new(exchange, Then).with(", because the value is the same"),
        ];
        let gaps = story.gaps();
        let gap = gaps.iter().find(|gap| gap.thread == thread && (read..exchange).contains(&gap.at))?;
        Some(Finding::new(Pattern::Aba, facts).in_gap(gap))
    };
    exchanges.take(OWN_STEPS).find_map(was_fooled)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{find, toy::Toy},
        *,
    };
    use unsnarl_model::Op;

    fn found(back: u64) -> Option<Pattern> {
        let mut toy = Toy::new(3);
        toy.atomic(1, 110, Op::AtomicLoad, 8, 0xa0).preempt();
        toy.atomic(2, 210, Op::AtomicStore, 8, 0xb0).atomic(2, 211, Op::AtomicStore, 8, back);
        toy.atomic(1, 111, Op::AtomicCas, 8, 0xc0).fail(1);
        let story = toy.story();
        find(&Scene::toy(&story, &[], 111)).map(|finding| finding.pattern)
    }

    #[test]
    fn value_was_another_in_between() {
        assert_eq!(found(0xa0), Some(Pattern::Aba));
        assert_ne!(found(0xb0), Some(Pattern::Aba), "no value came back");
    }
}
