//! Lost update: a thread reads a variable and writes it back, and another thread's write in between is lost. The first
//! access of the thread after the gap is a plain write, so it has not seen the other's value.

use super::{
    Fact, Finding,
    Moment::{First, Meanwhile, Then},
    OWN_STEPS, Pattern, is_first_after, last_before, written_meanwhile,
};
use crate::{scene::Scene, story::Gap};

pub(super) fn find(scene: &Scene<'_>, gap: &Gap) -> Option<Finding> {
    let story = scene.story;
    gap.resumed?;
    let overwrites = |own: usize| {
        let write = story.write(own)?;
        if write.reads || !is_first_after(scene, gap, own) {
            return None;
        }
        let read = last_before(scene, gap, own)?;
        let only_reads = story.read(read).is_some_and(|access| !access.writes);
        if !only_reads || !scene.same_function(read, own) {
            return None;
        }
        let other = written_meanwhile(scene, gap, own)?;
        let pattern = if scene.is_condition(read) { Pattern::CheckThenAct } else { Pattern::LostUpdate };
        let lock = scene.lock_of_two_sections(gap, read, own);
        let facts =
            vec![Fact::new(read, First), Fact::new(other, Meanwhile), Fact::new(own, Then).with(" over it")];
        Some(Finding::new(pattern, facts).with_lock(lock))
    };
    story.after(gap).take(OWN_STEPS).find_map(overwrites)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Pattern, find, toy::Toy},
        *,
    };

    fn increments(conditions: &[u64], reads_again: bool) -> Option<Pattern> {
        let mut toy = Toy::new(3);
        toy.read(1, 110, 8, 0).preempt();
        toy.read(2, 110, 8, 0).write(2, 111, 8, (0, 1));
        if reads_again {
            toy.read(1, 112, 8, 1);
        }
        toy.write(1, 111, 8, (1, 1)).read(0, 20, 8, 1);
        let story = toy.story();
        find(&Scene::toy(&story, conditions, 20)).map(|finding| finding.pattern)
    }

    #[test]
    fn write_over_an_unseen_write_is_a_lost_update() {
        assert_eq!(increments(&[], false), Some(Pattern::LostUpdate));
        assert_eq!(increments(&[110], false), Some(Pattern::CheckThenAct));
        assert_ne!(increments(&[], true), Some(Pattern::LostUpdate), "it has seen the other's value");
    }

    #[test]
    fn read_in_another_function_is_not_the_start_of_an_update() {
        let mut toy = Toy::new(3);
        toy.read(1, 310, 8, 0).preempt();
        toy.write(2, 111, 8, (0, 1)).write(1, 111, 8, (1, 5));
        let story = toy.story();
        let scene = Scene::toy(&story, &[], 20);
        assert!(story.gaps().iter().all(|gap| super::find(&scene, gap).is_none()));
    }
}
