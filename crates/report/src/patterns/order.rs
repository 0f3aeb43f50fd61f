//! Order violation: the thread that failed read a variable before another thread wrote it, and would have found another
//! value after that. Or it read the variable too late: another thread had reset it to zero.

use super::{
    Fact, Finding,
    Moment::{First, Meanwhile, NotYet, Then},
    OWN_STEPS, Pattern, is_first_after, is_first_write_after, last_before, written_meanwhile,
};
use crate::{scene::Scene, story::Gap};

pub(super) fn find(scene: &Scene<'_>, gap: &Gap) -> Option<Finding> {
    let story = scene.story;
    let comes_late = |write: usize| {
        story.write(write)?;
        let left = story.value_left(write)?;
        if !is_first_write_after(scene, gap, write) {
            return None;
        }
        let read = story.meeting(write, story.meanwhile(gap)).into_iter().find(|&at| {
            scene.failing.contains(&at) && story.value_found(at).is_some_and(|found| found != left)
        })?;
        let when = if write < story.end { Then } else { NotYet };
        Some(Finding::new(Pattern::Order, vec![Fact::new(read, First), Fact::new(write, when)]))
    };
    story.after(gap).take(OWN_STEPS).find_map(comes_late).or_else(|| too_late(scene, gap))
}

/// Finds a failing read of a zero by which another thread had replaced a value.
pub(super) fn find_reset(scene: &Scene<'_>) -> Option<Finding> {
    let story = scene.story;
    let of_zero = scene.failing.iter().filter(|&&read| story.value_found(read) == Some(0));
    of_zero.copied().find_map(|read| {
        let reset = story.last_write_before(read)?;
        let is_reset = story.thread(reset) != story.thread(read)
            && story.value_left(reset) == Some(0)
            && story.value_found(reset).is_some_and(|value| value != 0);
        is_reset.then(|| Finding::new(Pattern::Order, vec![Fact::new(reset, First), Fact::new(read, Then)]))
    })
}

/// Finds a failing read of a value that another thread reset to zero while the reader was preempted.
fn too_late(scene: &Scene<'_>, gap: &Gap) -> Option<Finding> {
    let story = scene.story;
    gap.resumed.filter(|_| gap.preemptive)?;
    let reads = |read: usize| {
        if !scene.failing.contains(&read) || !is_first_after(scene, gap, read) {
            return None;
        }
        let other = written_meanwhile(scene, gap, read)
            .filter(|&other| story.value_left(other) == Some(0) && story.value_found(other) != Some(0))?;
        let before = last_before(scene, gap, read).filter(|&before| {
            story.value_found(before).is_some_and(|found| Some(found) != story.value_found(read))
        });
        let mut facts: Vec<Fact> = before.map(|before| Fact::new(before, First)).into_iter().collect();
        facts.extend([Fact::new(other, Meanwhile), Fact::new(read, Then)]);
        (story.last_write_before(read) == Some(other)).then(|| Finding::new(Pattern::Order, facts))
    };
    story.after(gap).take(OWN_STEPS).find_map(reads)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{find, toy::Toy},
        *,
    };

    fn found(late_value: u64) -> Option<Pattern> {
        let mut toy = Toy::new(2);
        toy.write(0, 10, 8, (0, 3)).read(1, 110, 24, 0).preempt();
        toy.read(0, 20, 8, 3);
        toy.would_write(1, 111, 8, (3, late_value)).fail(0);
        let story = toy.story();
        find(&Scene::toy(&story, &[], 20)).map(|finding| finding.pattern)
    }

    #[test]
    fn crash_by_a_pointer_that_was_reset() {
        let found = |by: u16| {
            let mut toy = Toy::new(2);
            toy.write(0, 10, 8, (0, 0x5000)).write(by, 11, 8, (0x5000, 0)).read(1, 110, 8, 0).crash(1);
            let story = toy.story();
            find(&Scene::toy(&story, &[], 110)).map(|finding| finding.pattern)
        };
        assert_eq!((found(0), found(1)), (Some(Pattern::Order), None));
    }

    #[test]
    fn read_that_came_after_the_value_was_replaced() {
        let found = |preempted: bool| {
            let mut toy = Toy::new(2);
            toy.read(1, 110, 8, 7);
            if preempted {
                toy.preempt();
            }
            toy.write(0, 10, 8, (7, 0)).read(1, 210, 8, 0).fail(1);
            let story = toy.story();
            find(&Scene::toy(&story, &[], 210)).map(|finding| finding.pattern)
        };
        assert_eq!((found(true), found(false)), (Some(Pattern::Order), None));
    }

    #[test]
    fn read_that_came_before_the_write() {
        assert_eq!(found(4), Some(Pattern::Order));
        assert_eq!(found(3), None, "the write changes nothing");
    }
}
