//! Selects the events of a long trace that get a row.

use std::collections::HashSet;
use unsnarl_model::{Event, ThreadIx};

/// Events on either side of a context switch that are always shown.
const EDGE: usize = 3;
/// Events before the end that are always shown.
const LAST: usize = 8;

/// A row, or a gap of omitted rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Event(usize),
    LeftOut {
        /// The first omitted event.
        from: usize,
        events: usize,
        /// Context switches in the gap.
        switches: usize,
        /// The thread of the omitted events, if all belong to one.
        thread: Option<ThreadIx>,
    },
}

/// Selects the most informative of the candidates (indexes into `events`): those next to switches and towards the end.
/// Of more than `rows`, only the beginning and the end remain, and those that are named.
pub(super) fn abridge(
    events: &[Event],
    candidates: &[usize],
    named: &HashSet<usize>,
    rows: usize,
) -> Vec<Item> {
    let mut shown = mark(events, candidates, rows);
    for (shown, candidate) in shown.iter_mut().zip(candidates) {
        *shown |= named.contains(candidate);
    }
    let mut items = Vec::new();
    let mut at = 0;
    for run in shown.chunk_by(|a, b| a == b) {
        let numbers = &candidates[at..at + run.len()];
        at += run.len();
        // The line that announces a gap takes room as well.
        if run[0] || run.len() < 3 {
            items.extend(numbers.iter().map(|&number| Item::Event(number)));
        } else {
            let thread = |number: &usize| events[*number].thread;
            let switches = numbers.windows(2).filter(|pair| thread(&pair[0]) != thread(&pair[1])).count();
            let thread = (switches == 0).then_some(thread(&numbers[0]));
            items.push(Item::LeftOut { from: numbers[0], events: run.len(), switches, thread });
        }
    }
    items
}

fn mark(events: &[Event], candidates: &[usize], most: usize) -> Vec<bool> {
    let mut shown = vec![false; candidates.len()];
    let mut at = 0;
    for segment in candidates.chunk_by(|&a, &b| events[a].thread == events[b].thread) {
        let end = at + segment.len();
        shown[at..end.min(at + EDGE)].fill(true);
        shown[end.saturating_sub(EDGE).max(at)..end].fill(true);
        at = end;
    }
    shown[candidates.len().saturating_sub(LAST)..].fill(true);

    let rows: Vec<usize> = (0..shown.len()).filter(|&nth| shown[nth]).collect();
    if rows.len() > most {
        let (first, last) = (rows[most / 4], rows[rows.len() - most / 4 * 3]);
        shown[first..last].fill(false);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::Op;

    fn events(threads: impl IntoIterator<Item = u16>) -> Vec<Event> {
        let event = |thread| Event::new(ThreadIx(thread), Op::Yield);
        threads.into_iter().map(event).collect()
    }

    fn left_out(items: &[Item]) -> Vec<(usize, usize)> {
        let gap = |item: &Item| match *item {
            Item::LeftOut { events, switches, .. } => Some((events, switches)),
            Item::Event(_) => None,
        };
        items.iter().filter_map(gap).collect()
    }

    #[test]
    fn events_near_switches_and_end_are_shown() {
        let events = events([vec![0; 20], vec![1; 7], vec![0; 30]].concat());
        let all: Vec<usize> = (0..events.len()).collect();
        let items = abridge(&events, &all, &HashSet::new(), 400);
        assert_eq!(left_out(&items), [(14, 0), (19, 0)]);
        assert_eq!(items[..4], [Item::Event(0), Item::Event(1), Item::Event(2), items[3]]);
    }

    #[test]
    fn middle_of_many_switches_is_omitted() {
        let events = events((0..1000).map(|n| n % 2));
        let all: Vec<usize> = (0..events.len()).collect();
        let items = abridge(&events, &all, &HashSet::new(), 400);
        assert_eq!(items.len(), 401);
        assert_eq!(left_out(&items), [(600, 599)]);
        assert_eq!(items.last(), Some(&Item::Event(999)));
    }

    #[test]
    fn named_events_are_never_omitted() {
        let events = events((0..1000).map(|n| n % 2));
        let all: Vec<usize> = (0..events.len()).collect();
        let items = abridge(&events, &all, &HashSet::from([500]), 400);
        assert!(items.contains(&Item::Event(500)));
        assert_eq!(left_out(&items).len(), 2);
    }
}
