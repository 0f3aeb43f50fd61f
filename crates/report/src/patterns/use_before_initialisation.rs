//! Use before initialisation: a thread reads a variable that no thread has written yet, finds zero, and fails; another
//! thread would have written it.

use super::{
    Fact, Finding,
    Moment::{First, NotYet, Then},
    OWN_STEPS, Pattern, is_first_write_after,
};
use crate::{scene::Scene, story::Gap};

pub(super) fn find(scene: &Scene<'_>, gap: &Gap) -> Option<Finding> {
    let story = scene.story;
    let initialises = |write: usize| {
        story.write(write)?;
        if !story.changes(write) || !is_first_write_after(scene, gap, write) {
            return None;
        }
        let use_ = story.meeting(write, story.meanwhile(gap)).into_iter().find(|&at| {
            scene.failed.contains(&story.thread(at))
                && story.read(at).is_some_and(|access| !access.writes)
                && story.value_found(at) == Some(0)
                && story.is_unwritten(at)
        })?;
        let when = if write < story.end { Then } else { NotYet };
        Some(Finding::new(
            Pattern::UseBeforeInitialisation,
            vec![Fact::new(use_, First), Fact::new(write, when)],
        ))
    };
    story.after(gap).take(OWN_STEPS).find_map(initialises)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{find, toy::Toy},
        *,
    };

    fn found(written_before: bool, value: u64) -> Option<Pattern> {
        let mut toy = Toy::new(2);
        if written_before {
            toy.write(0, 10, 8, (0, value));
        }
        toy.read(1, 110, 24, 0).preempt();
        toy.read(0, 20, 8, value);
        toy.would_write(1, 111, 8, (value, 9)).fail(0);
        let story = toy.story();
        find(&Scene::toy(&story, &[], 20)).map(|finding| finding.pattern)
    }

    #[test]
    fn zero_that_nobody_has_written() {
        assert_eq!(found(false, 0), Some(Pattern::UseBeforeInitialisation));
        assert_ne!(found(true, 0), Some(Pattern::UseBeforeInitialisation), "the zero was written");
        assert_ne!(found(false, 5), Some(Pattern::UseBeforeInitialisation), "it has an initial value");
    }
}
