//! Check-then-act: a thread tests a variable, another thread changes it, and the first one goes on as if it had not. When
//! it uses the variable again, it finds the changed value.

use super::{
    Fact, Finding,
    Moment::{First, Meanwhile, Then},
    OWN_STEPS, Pattern, is_first_after, last_before, written_meanwhile,
};
use crate::{scene::Scene, story::Gap};

pub(super) fn find(scene: &Scene<'_>, gap: &Gap) -> Option<Finding> {
    let story = scene.story;
    gap.resumed?;
    let acts = |act: usize| {
        story.read(act)?;
        let check = is_first_after(scene, gap, act).then(|| last_before(scene, gap, act))??;
        let is_check = scene.is_condition(check) && story.read(check).is_some_and(|access| !access.writes);
        // A loop that tests the same condition again is no act.
        let is_same_test = scene.place(check) == scene.place(act);
        if !is_check || is_same_test || !scene.same_function(check, act) {
            return None;
        }
        let other = written_meanwhile(scene, gap, act)?;
        let differ = story.value_found(check).zip(story.value_found(act)).is_none_or(|(one, two)| one != two);
        let facts = vec![Fact::new(check, First), Fact::new(other, Meanwhile), Fact::new(act, Then)];
        let lock = scene.lock_of_two_sections(gap, check, act);
        differ.then(|| Finding::new(Pattern::CheckThenAct, facts).with_lock(lock))
    };
    story.after(gap).take(OWN_STEPS).find_map(acts)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Pattern, find, toy::Toy},
        *,
    };

    /// Thread 1 tests at line 110 and uses at another line; thread 2 writes in between.
    fn found(conditions: &[u64], used_at: u64) -> Option<Pattern> {
        let mut toy = Toy::new(3);
        toy.read(1, 110, 8, 0x5000).preempt();
        toy.write(2, 211, 8, (0x5000, 0)).read(1, used_at, 8, 0).fail(1);
        let story = toy.story();
        find(&Scene::toy(&story, conditions, used_at)).map(|finding| finding.pattern)
    }

    #[test]
    fn use_of_a_value_that_changed_after_its_test() {
        assert_eq!(found(&[110], 112), Some(Pattern::CheckThenAct));
        assert_ne!(found(&[], 112), Some(Pattern::CheckThenAct), "nothing was tested");
        assert_ne!(found(&[110], 110), Some(Pattern::CheckThenAct), "a loop that tests again");
    }
}
