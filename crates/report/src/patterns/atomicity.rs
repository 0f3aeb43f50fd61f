//! Atomicity violation: a thread changes two variables one after the other, and another thread looks at both in between.
//! If each change is in a critical section of the same lock, the state was meant to be consistent under that lock. Or a
//! thread reads a variable in one critical section, another thread changes it, and the first one goes on with it in its
//! next critical section of the same lock.

use super::{
    Fact, Finding,
    Moment::{First, Meanwhile, NotYet, Then},
    OWN_STEPS, Pattern, is_first_after, is_first_write_after, last_before, written_meanwhile,
};
use crate::{scene::Scene, story::Gap};

pub(super) fn find(scene: &Scene<'_>, gap: &Gap) -> Option<Finding> {
    let story = scene.story;
    let second_half = |second: usize| {
        story.write(second)?;
        if !story.changes(second) || !is_first_write_after(scene, gap, second) {
            return None;
        }
        // The other thread reads what is still to be changed, and before or with it what was changed already.
        let seen = |step: usize| story.meeting(step, story.meanwhile(gap)).into_iter();
        let stale = seen(second).find(|&at| story.read(at).is_some())?;
        let reader = story.thread(stale);
        let (first, fresh) = story.before(gap.thread, gap.at).take(OWN_STEPS).find_map(|first| {
            let belongs = scene.same_function(first, second)
                || scene.lock_of_adjacent_sections(gap, first, second).is_some();
            if story.write(first).is_none() || !belongs || story.meet(first, second) {
                return None;
            }
            let fresh = seen(first).find(|&at| {
                story.thread(at) == reader
                    && story.read(at).is_some()
                    && story.last_write_before(at) == Some(first)
                    && is_same_look(scene, at, stale)
            })?;
            Some((first, fresh))
        })?;
        let lock = scene.lock_of_two_sections(gap, first, second);
        let pattern = if lock.is_some() { Pattern::TwoSections } else { Pattern::Atomicity };
        let (one, two) = (fresh.min(stale), fresh.max(stale));
        let mut facts = vec![Fact::new(first, First), Fact::new(one, Meanwhile)];
        if one != two {
            facts.push(Fact::new(two, Then));
        }
        facts.push(Fact::new(second, if second < story.end { Then } else { NotYet }));
        Some(Finding::new(pattern, facts).with_lock(lock))
    };
    story.after(gap).take(OWN_STEPS).find_map(second_half).or_else(|| changed_between(scene, gap))
}

/// Finds a variable that was read in one critical section and had changed by the next one.
fn changed_between(scene: &Scene<'_>, gap: &Gap) -> Option<Finding> {
    let story = scene.story;
    gap.resumed?;
    let goes_on = |step: usize| {
        let read = is_first_after(scene, gap, step).then(|| last_before(scene, gap, step))??;
        let only_reads = story.read(read).is_some_and(|access| !access.writes);
        // A loop that looks again is no violation.
        if !only_reads || scene.place(read) == scene.place(step) {
            return None;
        }
        // Within a function, a check and a lost update have names of their own.
        let is_update = story.read(step).is_none() || scene.is_condition(read);
        if is_update && scene.same_function(read, step) {
            return None;
        }
        let lock = scene.lock_of_adjacent_sections(gap, read, step)?;
        let other = written_meanwhile(scene, gap, step)?;
        let facts = vec![Fact::new(read, First), Fact::new(other, Meanwhile), Fact::new(step, Then)];
        Some(Finding::new(Pattern::TwoSections, facts).with_lock(Some(lock)))
    };
    story.after(gap).take(OWN_STEPS).find_map(goes_on)
}

/// Returns whether both reads belong together: they are in the same critical section, or in the same function without
/// another thread in between.
fn is_same_look(scene: &Scene<'_>, one: usize, other: usize) -> bool {
    let (held, too) = (scene.held_at(one), scene.held_at(other));
    if !held.is_empty() || !too.is_empty() {
        return held.iter().any(|hold| too.contains(hold));
    }
    scene.same_function(one, other)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Fact, find, toy::Toy},
        *,
    };

    const GUARD: u64 = 0x100;

    /// Thread 1 writes 8 and then 16, in two critical sections or without a lock; thread 0 reads both in between.
    fn toy(locked: bool, resumes: bool) -> Toy {
        let mut toy = Toy::new(2);
        let lock = |toy: &mut Toy, thread, line, held| {
            if locked {
                toy.lock(thread, line, GUARD, held);
            }
        };
        lock(&mut toy, 1, 109, true);
        toy.write(1, 110, 8, (1, 0));
        lock(&mut toy, 1, 111, false);
        toy.preempt();
        lock(&mut toy, 0, 19, true);
        toy.read(0, 20, 8, 0).read(0, 20, 16, 0);
        lock(&mut toy, 0, 21, false);
        if resumes {
            lock(&mut toy, 1, 119, true);
            toy.write(1, 120, 16, (0, 1));
            lock(&mut toy, 1, 121, false);
        } else {
            toy.would_lock(1, 119, GUARD).would_read(1, 120, 16, 0).would_write(1, 120, 16, (0, 1));
        }
        toy.fail(0);
        toy
    }

    #[test]
    fn look_between_two_critical_sections() {
        let story = toy(true, false).story();
        let finding = find(&Scene::toy(&story, &[], 25)).expect("a finding");
        assert_eq!((finding.pattern, finding.lock), (Pattern::TwoSections, Some(GUARD)));
        let whens: Vec<_> = finding.facts.iter().map(|fact: &Fact| fact.when).collect();
        assert_eq!(whens, [First, Meanwhile, Then, NotYet]);
        assert_eq!(story.value_left(finding.facts[3].step), Some(1), "what it would have written");
    }

    #[test]
    fn without_a_lock_the_sections_have_no_name() {
        let story = toy(false, true).story();
        let scene = Scene::toy(&story, &[], 20);
        let finding = story.gaps().iter().find_map(|gap| super::find(&scene, gap)).expect("a finding");
        assert_eq!((finding.pattern, finding.lock), (Pattern::Atomicity, None));
    }

    #[test]
    fn look_after_both_changes_is_none() {
        let mut toy = Toy::new(2);
        toy.write(1, 110, 8, (1, 0)).write(1, 120, 16, (0, 1)).preempt();
        toy.read(0, 20, 8, 0).read(0, 20, 16, 1).write(1, 130, 24, (0, 1));
        let story = toy.story();
        let scene = Scene::toy(&story, &[], 20);
        assert!(story.gaps().iter().all(|gap| super::find(&scene, gap).is_none()));
    }
}
