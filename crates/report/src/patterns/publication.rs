//! Publication before construction: a thread stores a pointer to an object, or sets a flag, before it has written what
//! they announce, and another thread follows it in between. What it reads there was never written before.

use super::{
    Fact, Finding,
    Moment::{First, Meanwhile, NotYet, Then},
    OWN_STEPS, Pattern, is_first_write_after,
};
use crate::{scene::Scene, story::Gap};

/// Objects are smaller than this.
const OBJECT: u64 = 1 << 12;

pub(super) fn find(scene: &Scene<'_>, gap: &Gap) -> Option<Finding> {
    let story = scene.story;
    let constructs = |part: usize| {
        story.write(part)?;
        if !story.changes(part) || !is_first_write_after(scene, gap, part) {
            return None;
        }
        let seen = |step: usize| story.meeting(step, story.meanwhile(gap)).into_iter().rev();
        let followed = seen(part).find(|&at| story.read(at).is_some() && story.is_unwritten(at))?;
        let reader = story.thread(followed);
        let (published, seen) = story.before(gap.thread, gap.at).take(OWN_STEPS).find_map(|published| {
            story.write(published)?;
            let value = story.value_left(published).filter(|&value| value != 0)?;
            let announces =
                story.value_found(published) != Some(value) && announces(scene, value, published, part);
            let seen = seen(published).take_while(|&at| at < followed).find(|&at| {
                story.thread(at) == reader
                    && story.read(at).is_some()
                    && story.last_write_before(at) == Some(published)
            })?;
            (announces && scene.lock_of_two_sections(gap, published, part).is_none())
                .then_some((published, seen))
        })?;
        let facts = vec![
            Fact::new(published, First),
            Fact::new(seen, Meanwhile),
            Fact::new(followed, Then),
            Fact::new(part, if part < story.end { Then } else { NotYet }),
        ];
        Some(Finding::new(Pattern::Publication, facts))
    };
    story.after(gap).take(OWN_STEPS).find_map(constructs)
}

/// Returns whether a published value is a pointer to the object of which this is a part, or a flag beside it.
fn announces(scene: &Scene<'_>, value: u64, published: usize, part: usize) -> bool {
    const FLAG: u64 = 1;
    let Some(part_address) = scene.story.access(part).map(|access| access.range.first) else { return false };
    (value..value.saturating_add(OBJECT)).contains(&part_address)
        || value == FLAG && scene.same_function(published, part)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{find, toy::Toy},
        *,
    };

    fn found(published: u64, initialised: bool) -> Option<Pattern> {
        let mut toy = Toy::new(3);
        if initialised {
            toy.write(1, 105, 0x5010, (0, 7));
        }
        toy.write(1, 110, 8, (0, published)).preempt();
        toy.read(2, 210, 8, published).read(2, 211, 0x5010, if initialised { 7 } else { 0 });
        toy.would_write(1, 111, 0x5010, (0, 42)).fail(2);
        let story = toy.story();
        find(&Scene::toy(&story, &[], 211)).map(|finding| finding.pattern)
    }

    #[test]
    fn pointer_or_flag_comes_before_what_it_announces() {
        assert_eq!(found(0x5000, false), Some(Pattern::Publication));
        assert_eq!(found(1, false), Some(Pattern::Publication));
        assert_ne!(found(0x9000, false), Some(Pattern::Publication), "it points elsewhere");
        assert_ne!(found(0x5000, true), Some(Pattern::Publication), "it was constructed before");
    }
}
