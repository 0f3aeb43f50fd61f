//! Compares the writes that the reads of two runs saw.

use std::collections::{HashMap, HashSet};
use unsnarl_model::{Event, ThreadIx, Trace};
use unsnarl_semantics::{Access, ByteRange, MemoryOp, Operation};

/// The bytes of one cell. Accesses are compared by cell.
const CELL: u64 = 8;

/// A read of shared memory that did not see in the other run what it saw in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadDifference {
    /// The other run has no such read.
    Missing(usize),
    /// It saw another write.
    OtherSource(usize),
}

/// Returns the first read of the recording that did not see the same write in the other run, among the reads
/// of memory that one thread writes and another one accesses. What follows the recorded failure does not count.
pub(crate) fn read_difference(old: &Trace, new: &Trace, matched: &[Option<usize>]) -> Option<ReadDifference> {
    let shared = shared_cells(old);
    let (old_sources, new_sources) = (sources(old), sources(new));
    for (number, source) in old_sources.iter().enumerate() {
        let Some(access) = access(&old.events[number]).filter(|access| access.reads) else { continue };
        if !cells(access.range).any(|cell| shared.contains(&cell)) {
            continue;
        }
        let Some(counterpart) = matched[number] else { return Some(ReadDifference::Missing(number)) };
        let expected = match source {
            Some(write) => match matched[*write] {
                Some(write) => Some(write),
                None => return Some(ReadDifference::OtherSource(number)),
            },
            None => None,
        };
        let actual = new_sources[counterpart];
        // A write that the recording does not have may well be the initialisation that was no event in it.
        let is_unknown = |write: usize| !matched.contains(&Some(write));
        let same = match (expected, actual) {
            (None, Some(write)) => is_unknown(write),
            (expected, actual) => expected == actual,
        };
        if !same {
            return Some(ReadDifference::OtherSource(number));
        }
    }
    None
}

fn access(event: &Event) -> Option<Access> {
    match Operation::decode(event) {
        Operation::Memory(MemoryOp::Access(access)) => Some(access),
        _ => None,
    }
}

fn cells(range: ByteRange) -> impl Iterator<Item = u64> {
    range.first / CELL..=(range.end() - 1) / CELL
}

/// Returns the cells that one thread writes and another one accesses.
fn shared_cells(trace: &Trace) -> HashSet<u64> {
    let mut users: HashMap<u64, (ThreadIx, bool, bool)> = HashMap::new();
    for event in &trace.events {
        let Some(access) = access(event) else { continue };
        for cell in cells(access.range) {
            let (first, written, several) = users.entry(cell).or_insert((event.thread, false, false));
            *written |= access.writes;
            *several |= *first != event.thread;
        }
    }
    users
        .into_iter()
        .filter(|(_, (_, written, several))| *written && *several)
        .map(|(cell, _)| cell)
        .collect()
}

/// Returns, for each event, the last write before it to the memory that it reads.
fn sources(trace: &Trace) -> Vec<Option<usize>> {
    let mut last_writes: HashMap<u64, usize> = HashMap::new();
    let mut sources = Vec::with_capacity(trace.events.len());
    for (number, event) in trace.events.iter().enumerate() {
        let Some(access) = access(event) else {
            sources.push(None);
            continue;
        };
        let source = cells(access.range).filter_map(|cell| last_writes.get(&cell).copied()).max();
        sources.push(source.filter(|_| access.reads));
        if access.writes {
            last_writes.extend(cells(access.range).map(|cell| (cell, number)));
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::{Flags, Op, Order, SiteIx, Thread, ThreadId};

    /// Builds a trace of (thread, operation, address).
    fn trace(steps: &[(u16, Op, u64)]) -> Trace {
        let threads = (0..3).map(|n| Thread { id: ThreadId::from_path(vec![n]), ..Thread::default() });
        let event = |&(thread, op, addr): &(u16, Op, u64)| Event {
            thread: ThreadIx(thread),
            op,
            flags: Flags::NONE,
            order: Order::SeqCst,
            site: SiteIx(0),
            context: 0,
            size: 4,
            addr,
            value: 0,
        };
        Trace { threads: threads.collect(), events: steps.iter().map(event).collect(), ..Trace::default() }
    }

    const LOST_UPDATE: [(u16, Op, u64); 4] =
        [(0, Op::Read, 64), (1, Op::Read, 64), (1, Op::Write, 64), (0, Op::Write, 64)];

    #[test]
    fn same_writes_are_no_difference() {
        let run = trace(&LOST_UPDATE);
        assert_eq!(read_difference(&run, &run, &[Some(0), Some(1), Some(2), Some(3)]), None);
    }

    #[test]
    fn read_of_another_write_is_a_difference() {
        let (old, new) = (trace(&LOST_UPDATE), trace(&[LOST_UPDATE[1], LOST_UPDATE[2], LOST_UPDATE[0]]));
        let found = read_difference(&old, &new, &[Some(2), Some(0), Some(1), None]);
        assert_eq!(found, Some(ReadDifference::OtherSource(0)));
    }

    #[test]
    fn missing_read_of_shared_memory_is_a_difference() {
        let old = trace(&[(0, Op::Write, 64), (1, Op::Read, 64), (1, Op::Read, 128)]);
        let new = trace(&[(0, Op::Write, 64)]);
        assert_eq!(read_difference(&old, &new, &[Some(0), None, None]), Some(ReadDifference::Missing(1)));
        let unshared = trace(&[(0, Op::Write, 64), (1, Op::Read, 128)]);
        assert_eq!(read_difference(&unshared, &new, &[Some(0), None]), None);
    }

    #[test]
    fn initialisation_that_is_new_is_no_difference() {
        let old = trace(&LOST_UPDATE);
        let mut steps = vec![(2, Op::Write, 64)];
        steps.extend(LOST_UPDATE);
        assert_eq!(read_difference(&old, &trace(&steps), &[Some(1), Some(2), Some(3), Some(4)]), None);
    }
}
