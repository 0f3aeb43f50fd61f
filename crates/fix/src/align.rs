//! Aligns the events of two runs of different builds.

use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::collections::{HashMap, VecDeque};
use unsnarl_model::{ThreadId, Trace};

/// The maximum number of differing events, of both runs together, for which the best alignment is computed.
const MAX_DIFFERING_EVENTS: usize = 20_000;

/// Which of several equivalent events of a thread is chosen: the new build may execute an operation more often
/// than the recording, or have more accesses that look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// The first ones.
    First,
    /// The last ones.
    Last,
}

/// Returns, for each event of `old`, the equivalent event of `new`: a longest common subsequence of each
/// thread's events. Threads are identified by how they were created.
#[must_use]
pub fn align(
    old: &Trace,
    old_labels: &[u64],
    new: &Trace,
    new_labels: &[u64],
    preference: Preference,
) -> Vec<Option<usize>> {
    let mut matched = vec![None; old.events.len()];
    let new = by_thread(new);
    for (thread, numbers) in by_thread(old) {
        let Some(others) = new.get(&thread) else { continue };
        let labels = |numbers: &[usize], labels: &[u64]| -> Vec<u64> {
            numbers.iter().map(|&number| labels[number]).collect()
        };
        let (mut a, mut b) = (labels(&numbers, old_labels), labels(others, new_labels));
        let pairs = match preference {
            Preference::First => common(&a, &b),
            Preference::Last => {
                a.reverse();
                b.reverse();
                let from_end = |(x, y): (usize, usize)| (a.len() - 1 - x, b.len() - 1 - y);
                common(&a, &b).into_iter().map(from_end).collect()
            }
        };
        for (a, b) in pairs {
            matched[numbers[a]] = Some(others[b]);
        }
    }
    matched
}

/// Returns the numbers of each thread's events.
fn by_thread(trace: &Trace) -> HashMap<ThreadId, Vec<usize>> {
    let mut numbers: HashMap<ThreadId, Vec<usize>> = HashMap::new();
    for (number, event) in trace.events.iter().enumerate() {
        numbers.entry(trace.thread_id(event.thread).clone()).or_default().push(number);
    }
    numbers
}

/// Returns pairs of indices with the same label, in order.
fn common(a: &[u64], b: &[u64]) -> Vec<(usize, usize)> {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let end = a[start..].iter().rev().zip(b[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (middle_a, middle_b) = (&a[start..a.len() - end], &b[start..b.len() - end]);
    let mut pairs: Vec<(usize, usize)> = (0..start).map(|at| (at, at)).collect();
    let middle = if middle_a.len() + middle_b.len() <= MAX_DIFFERING_EVENTS {
        longest(middle_a, middle_b)
    } else {
        greedy(middle_a, middle_b)
    };
    pairs.extend(middle.into_iter().map(|(x, y)| (start + x, start + y)));
    pairs.extend((0..end).map(|at| (a.len() - end + at, b.len() - end + at)));
    pairs
}

fn longest(a: &[u64], b: &[u64]) -> Vec<(usize, usize)> {
    let equal = |op: DiffOp| match op {
        DiffOp::Equal { old_index, new_index, len } => Some((old_index, new_index, len)),
        _ => None,
    };
    let stretches = capture_diff_slices(Algorithm::Myers, a, b).into_iter().filter_map(equal);
    stretches.flat_map(|(x, y, len)| (0..len).map(move |at| (x + at, y + at))).collect()
}

/// Takes the first match greedily, which costs little.
fn greedy(a: &[u64], b: &[u64]) -> Vec<(usize, usize)> {
    let mut places: HashMap<u64, VecDeque<usize>> = HashMap::new();
    b.iter().enumerate().for_each(|(at, label)| places.entry(*label).or_default().push_back(at));
    let mut from = 0;
    let mut pairs = Vec::new();
    for (at, label) in a.iter().enumerate() {
        let Some(places) = places.get_mut(label) else { continue };
        while places.front().is_some_and(|&place| place < from) {
            places.pop_front();
        }
        if let Some(place) = places.pop_front() {
            pairs.push((at, place));
            from = place + 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the length of a longest common subsequence, by the definition.
    fn brute_force_length(a: &[u64], b: &[u64]) -> usize {
        match (a, b) {
            ([x, a @ ..], [y, b @ ..]) if x == y => 1 + brute_force_length(a, b),
            ([_, rest_a @ ..], [_, rest_b @ ..]) => {
                brute_force_length(rest_a, b).max(brute_force_length(a, rest_b))
            }
            _ => 0,
        }
    }

    fn increases(pairs: &[(usize, usize)]) -> bool {
        pairs.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1)
    }

    proptest! {
        #[test]
        fn alignment_is_a_longest_common_subsequence(
            a in prop::collection::vec(0_u64..4, 0..9), b in prop::collection::vec(0_u64..4, 0..9),
        ) {
            let pairs = common(&a, &b);
            prop_assert!(increases(&pairs) && pairs.iter().all(|&(x, y)| a[x] == b[y]));
            prop_assert_eq!(pairs.len(), brute_force_length(&a, &b));
            let quick = greedy(&a, &b);
            prop_assert!(increases(&quick) && quick.iter().all(|&(x, y)| a[x] == b[y]));
        }
    }
}
