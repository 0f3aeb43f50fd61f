//! A lock is not held at an access, though it is held at most other accesses of several threads to the same memory.

use crate::scene::Scene;
use std::collections::HashMap;

/// A lock that is missing at an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotHeld {
    pub(crate) lock: u64,
    /// The number of other accesses at which it is held, of how many.
    pub(crate) at: usize,
    pub(crate) of: usize,
}

pub(super) fn find(scene: &Scene<'_>, step: usize) -> Option<NotHeld> {
    let story = scene.story;
    let own = scene.held_at(step);
    // Before there are several threads, nobody needs a lock.
    let concurrent = story.executed().iter().position(|event| {
        event.op == unsnarl_model::Op::Start && event.thread != unsnarl_model::ThreadIx::MAIN
    })?;
    let mut others = story.meeting(step, concurrent..story.end);
    others.retain(|&at| at != step);
    let mut held: HashMap<u64, usize> = HashMap::new();
    for &at in &others {
        for (lock, _) in scene.held_at(at) {
            *held.entry(lock).or_default() += 1;
        }
    }
    held.retain(|lock, _| own.iter().all(|(held, _)| held != lock));
    let (lock, at) = held.into_iter().max_by_key(|&(lock, count)| (count, lock))?;
    let of = others.len();
    (at >= 2 && 3 * at >= 2 * of).then_some(NotHeld { lock, at, of })
}

#[cfg(test)]
mod tests {
    use super::{super::toy::Toy, *};

    fn found(locked: usize, of: usize) -> Option<NotHeld> {
        const LOCK: u64 = 0x100;
        let mut toy = Toy::new(3);
        toy.start(1).start(2);
        for nth in 0..of {
            if nth < locked {
                toy.lock(1, 110, LOCK, true).write(1, 111, 8, (0, 1)).lock(1, 112, LOCK, false);
            } else {
                toy.write(1, 120, 8, (0, 1));
            }
        }
        toy.write(2, 210, 8, (1, 2));
        let story = toy.story();
        find(&Scene::toy(&story, &[], 0), story.end - 1)
    }

    #[test]
    fn most_others_hold_the_lock() {
        assert_eq!(found(3, 4), Some(NotHeld { lock: 0x100, at: 3, of: 4 }));
        assert_eq!(found(1, 1), None, "one other access is no rule");
        assert_eq!(found(2, 4), None, "half of them are no rule");
    }
}
