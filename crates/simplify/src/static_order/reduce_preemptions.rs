//! Searches among orders with the same number of context switches for one with fewer preemptions.
//!
//! Whether a switch is a preemption depends on what the other threads did before: a thread that requests a
//! held lock has to wait anyway. So the order of independent segments matters after all. Segments are swapped
//! with independent neighbours as long as that is an improvement; a segment that becomes adjacent to one of
//! its own thread even saves a switch.

use super::{Rules, graph::Builder, reorder::moved_events};
use crate::Cost;
use unsnarl_model::{ThreadIx, Trace};

/// Larger orders are left alone: the work is quadratic in the number of segments.
const MAX_SEGMENTS: usize = 64;
const MAX_EVENTS: usize = 20_000;

/// Returns a better order of the trace's events than this one.
pub(super) fn reduce_preemptions(trace: &Trace, order: &[usize], rules: Rules) -> Option<Vec<usize>> {
    if order.len() > MAX_EVENTS {
        return None;
    }
    let mut segments = Segments::of(trace, order, rules);
    if segments.all.len() > MAX_SEGMENTS {
        return None;
    }
    let cost_of = |segments: &Segments| Cost::of(&moved_events(trace, &segments.order()));
    let start = cost_of(&segments);
    let mut cost = start;
    while cost.preemptions > 0 {
        let Some((better, lower)) = segments.neighbours().find_map(|next| {
            let lower = cost_of(&next);
            (lower < cost).then_some((next, lower))
        }) else {
            break;
        };
        (segments, cost) = (better, lower);
    }
    (cost < start).then(|| segments.order())
}

/// The segments of a trace in some order.
#[derive(Clone)]
struct Segments {
    /// The thread and the events.
    all: Vec<(ThreadIx, Vec<usize>)>,
    /// By the original numbers of the segments: whether one directly depends on another.
    depends: Vec<Vec<bool>>,
    /// The original numbers of the segments.
    names: Vec<usize>,
}

impl Segments {
    fn of(trace: &Trace, order: &[usize], rules: Rules) -> Self {
        let mut all: Vec<(ThreadIx, Vec<usize>)> = Vec::new();
        let mut segment_of = Vec::with_capacity(order.len());
        for &at in order {
            let thread = trace.events[at].thread;
            match all.last_mut() {
                Some((last, events)) if *last == thread => events.push(at),
                _ => all.push((thread, vec![at])),
            }
            segment_of.push(all.len() - 1);
        }
        let mut depends = vec![vec![false; all.len()]; all.len()];
        if all.len() <= MAX_SEGMENTS {
            let mut builder = Builder::apart(rules);
            order.iter().for_each(|&at| builder.push(trace.events[at]));
            let graph = builder.finish();
            for at in 0..order.len() {
                for &before in graph.before(at as u32) {
                    depends[segment_of[at]][segment_of[before as usize]] = true;
                }
            }
        }
        let names = (0..all.len()).collect();
        Self { all, depends, names }
    }

    fn order(&self) -> Vec<usize> {
        self.all.iter().flat_map(|(_, events)| events).copied().collect()
    }

    /// Iterates over all orders in which one segment is at another position.
    fn neighbours(&self) -> impl Iterator<Item = Self> + '_ {
        (0..self.all.len()).flat_map(move |at| {
            let up = (0..at).rev().take_while(move |&other| self.may_pass(other, at));
            let down = (at + 1..self.all.len()).take_while(move |&other| self.may_pass(at, other));
            up.chain(down).map(move |to| {
                let mut next = self.clone();
                let (segment, name) = (next.all.remove(at), next.names.remove(at));
                next.all.insert(to, segment);
                next.names.insert(to, name);
                next
            })
        })
    }

    /// Returns whether two segments, the first of which precedes the second, may be swapped.
    fn may_pass(&self, first: usize, second: usize) -> bool {
        self.all[first].0 != self.all[second].0 && !self.depends[self.names[second]][self.names[first]]
    }
}
