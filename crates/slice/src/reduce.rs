//! Execution reduction: which threads and segments of a run can have had a part in the failure at all.
//!
//! After section 3.3 of the paper (and the execution reduction that it builds on): a graph of segments, the paper's
//! thread execution intervals, with an edge where one reads memory that another wrote, where one goes on where
//! another of the same thread stopped, and where one started the other's thread. What cannot be reached from the
//! criterion's segment had no part in it.
//!
//! Where this deviates: the graph is taken from the instruction trace itself, not from a lighter one made before.

use crate::{Flow, History, Span, hash::Hashed};
use std::collections::{BTreeMap, BTreeSet};
use unsnarl_model::ThreadIx;

/// How large a run is, or a part of it: a row of the paper's table 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Threads.
    pub threads: u64,
    /// Segments.
    pub segments: u64,
    /// Steps.
    pub steps: u64,
}

/// The whole run, and what of it can have had a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// All of it.
    pub before: Extent,
    /// What is left.
    pub after: Extent,
    /// The threads that are left.
    pub threads: BTreeSet<ThreadIx>,
}

#[derive(Debug)]
struct Segment {
    thread: ThreadIx,
    first: u64,
    steps: u64,
    needs: BTreeSet<u32>,
}

/// What of a run can have had a part in the steps of this criterion.
pub fn reduce(history: &dyn History, criterion: &[u64]) -> Reduction {
    let segments = segments(history);
    let mut wanted: Vec<u32> = Vec::new();
    for step in criterion {
        let at = segments.partition_point(|segment| segment.first <= *step);
        wanted.extend(at.checked_sub(1).map(|at| at as u32));
    }
    let mut left = BTreeSet::new();
    while let Some(segment) = wanted.pop() {
        if left.insert(segment) {
            wanted.extend(&segments[segment as usize].needs);
        }
    }
    let extent = |chosen: &mut dyn Iterator<Item = &Segment>| {
        let mut threads = BTreeSet::new();
        let mut extent = Extent::default();
        for segment in chosen {
            threads.insert(segment.thread);
            extent.segments += 1;
            extent.steps += segment.steps;
        }
        extent.threads = threads.len() as u64;
        (extent, threads)
    };
    let (before, _) = extent(&mut segments.iter());
    let (after, threads) = extent(&mut left.iter().map(|&segment| &segments[segment as usize]));
    Reduction { before, after, threads }
}

/// The segments of a run, each with those that it needs.
fn segments(history: &dyn History) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut latest: BTreeMap<ThreadIx, u32> = BTreeMap::new();
    let mut writers: Hashed<u64, u32> = Hashed::default();
    history.forwards(&mut |step| {
        if segments.last().is_none_or(|segment| segment.thread != step.thread) {
            let number = segments.len() as u32;
            let needs = latest.insert(step.thread, number).into_iter().collect();
            segments.push(Segment { thread: step.thread, first: step.number, steps: 0, needs });
        }
        let number = segments.len() as u32 - 1;
        if let Flow::Begin(Some(by)) = step.flow {
            let at = segments.partition_point(|segment| segment.first <= by) as u32;
            segments[number as usize].needs.extend(at.checked_sub(1).filter(|at| *at != number));
        }
        let segment = &mut segments[number as usize];
        segment.steps += 1;
        let small = |span: &&Span| span.len <= 1 << 16;
        for (granule, _) in step.reads.iter().filter(small).flat_map(|span| span.granules()) {
            segment.needs.extend(writers.get(&granule).filter(|writer| **writer != number));
        }
        let writes = step.writes.iter().chain(step.may_write).filter(small);
        for (granule, _) in writes.flat_map(|span| span.granules()) {
            writers.insert(granule, number);
        }
    });
    segments
}
