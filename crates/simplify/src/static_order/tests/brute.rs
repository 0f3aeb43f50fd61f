//! The dependence relation by brute force: every pair of events, then the transitive closure.

use std::collections::HashMap;
use unsnarl_model::{Event, ThreadIx};
use unsnarl_semantics::{
    AccessMode, SharedObject, Touch,
    dependence::{Relation, Rules},
};

/// Returns which events precede which: `before[j][i]` if event `i` must come before event `j`.
pub(super) fn closure(events: &[Event], rules: Rules) -> Vec<Vec<bool>> {
    let counted = touches(events, rules);
    let mut before = vec![vec![false; events.len()]; events.len()];
    for j in 0..events.len() {
        for i in (0..j).rev() {
            if before[j][i] {
                continue;
            }
            let direct = events[i].thread == events[j].thread
                || depend((events[i].thread, &counted[i]), (events[j].thread, &counted[j]));
            if direct {
                before[j][i] = true;
                let (earlier, later) = before.split_at_mut(j);
                later[0].iter_mut().zip(&earlier[i]).for_each(|(mine, theirs)| *mine |= theirs);
            }
        }
    }
    before
}

type CountedTouches = Vec<(Touch, u32)>;

/// Returns the touches of each event; objects with the number of times they were forgotten before.
fn touches(events: &[Event], rules: Rules) -> Vec<CountedTouches> {
    let mut relation = Relation::new(rules);
    let mut forgotten: HashMap<SharedObject, u32> = HashMap::new();
    let mut counted = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let mut touches = Vec::new();
        relation.touches(event, &mut touches);
        if rules.end && at + 1 == events.len() {
            touches.push(Touch::Fence);
        }
        let times = |touch: &Touch| match touch {
            Touch::SharedObject(object, _) => forgotten.get(object).copied().unwrap_or(0),
            _ => 0,
        };
        counted.push(touches.iter().map(|touch| (*touch, times(touch))).collect());
        for touch in &touches {
            if let Touch::Forget(object) = touch {
                *forgotten.entry(*object).or_default() += 1;
            }
        }
    }
    counted
}

/// Returns whether the later event depends on the earlier one by their touches.
fn depend(
    (first, earlier): (ThreadIx, &CountedTouches),
    (second, later): (ThreadIx, &CountedTouches),
) -> bool {
    let place = |touch: &Touch, other: ThreadIx, after: bool| match *touch {
        Touch::Fence => true,
        Touch::Pin(thread) => thread == other,
        Touch::After(thread) => after && thread == other,
        Touch::Before(thread) => !after && thread == other,
        _ => false,
    };
    earlier.iter().any(|(touch, _)| place(touch, second, false))
        || later.iter().any(|(touch, _)| place(touch, first, true))
        || earlier.iter().any(|a| later.iter().any(|b| conflict(a, b)))
}

fn conflict((a, a_times): &(Touch, u32), (b, b_times): &(Touch, u32)) -> bool {
    match (*a, *b) {
        (Touch::SharedObject(a, how_a), Touch::SharedObject(b, how_b)) => {
            a == b && a_times == b_times && (how_a == AccessMode::Writes || how_b == AccessMode::Writes)
        }
        (Touch::Bytes(a, how_a), Touch::Bytes(b, how_b)) => {
            a.overlaps(b) && (how_a == AccessMode::Writes || how_b == AccessMode::Writes)
        }
        _ => false,
    }
}

/// Returns the fewest context switches of any order that keeps the relation, by trying all of them.
pub(super) fn least_switches(events: &[Event], rules: Rules) -> u64 {
    let before = closure(events, rules);
    let threads = events.iter().map(|e| e.thread.index() + 1).max().unwrap_or(0);
    let of_thread: Vec<Vec<usize>> = (0..threads)
        .map(|t| (0..events.len()).filter(|&i| events[i].thread.index() == t).collect())
        .collect();
    // States: the progress of each thread and the last thread, with the fewest switches to get there.
    let mut states: HashMap<(Vec<usize>, usize), u64> = HashMap::from([((vec![0; threads], threads), 0)]);
    for _ in 0..events.len() {
        let mut next: HashMap<(Vec<usize>, usize), u64> = HashMap::new();
        for ((done, last), switches) in &states {
            for thread in 0..threads {
                let Some(&event) = of_thread[thread].get(done[thread]) else { continue };
                let is_done = |i: usize| {
                    let t = events[i].thread.index();
                    of_thread[t][..done[t]].contains(&i)
                };
                if (0..events.len()).any(|i| before[event][i] && !is_done(i)) {
                    continue;
                }
                let mut done = done.clone();
                done[thread] += 1;
                let cost = switches + u64::from(*last != thread && *last != threads);
                let known = next.entry((done, thread)).or_insert(u64::MAX);
                *known = cost.min(*known);
            }
        }
        states = next;
    }
    states.values().copied().min().unwrap_or(0)
}
