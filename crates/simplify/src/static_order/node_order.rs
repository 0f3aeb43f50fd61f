//! An order of the nodes in few segments: which thread continues, and how far.
//!
//! SimTrace merges nodes in an arbitrary order and sorts the result (see [`super::merge`]). Here the order is
//! built from front to back instead, and three facts make that fast and often exact:
//!
//! - A thread should always run as far as it can. Everything that is enabled now can be moved up from later
//!   on to the end of this segment, without adding a context switch. So the only choice is which thread runs
//!   next.
//! - A segment that ends at a forced break, or with its thread, is *perfect*: every schedule has a segment
//!   that ends there, and executing it now disables nothing. So it should always be taken. Segments that end
//!   elsewhere are *wasted*: the number of context switches is [`Graph::least_switches`] and one more for each
//!   wasted segment.
//! - Of two states after the same number of wasted segments, one in which every thread is at least as far is
//!   at least as good.
//!
//! What remains is a search for few wasted segments, level by level. If no state has to be dropped, the result
//! is a minimum, which is certain for two threads. Otherwise the states that got farthest are kept: a beam
//! search, whose work is linear in the number of nodes.
//!
//! Ties are broken by thread numbers, never by the order of the trace: the result depends only on the
//! dependences, so simplifying again changes nothing.

use super::{Graph, cells::NodeIx, hash::HashMap};
use unsnarl_model::ThreadIx;

/// The search effort: the number of states kept on each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort(pub usize);

impl Effort {
    /// Keeps all states: the result is a minimum. Only for small graphs.
    pub const EXACT: Self = Self(usize::MAX);

    /// Returns the appropriate effort for a trace of this many events.
    #[must_use]
    pub const fn for_events(events: u64) -> Self {
        match events {
            0..=20_000 => Self(256),
            20_001..=200_000 => Self(32),
            200_001..=2_000_000 => Self(8),
            _ => Self(4),
        }
    }
}

/// Consecutive nodes of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeSegment {
    pub(super) thread: ThreadIx,
    /// The ranks of its nodes: the first, and one past the last.
    pub(super) from: u32,
    pub(super) to: u32,
}

/// An order of all nodes.
#[derive(Clone, Debug)]
pub(super) struct NodeOrder {
    pub(super) segments: Vec<NodeSegment>,
    /// True if no order has fewer segments.
    pub(super) minimal: bool,
}

/// The progress of each thread.
#[derive(Clone, Debug)]
struct OrderState {
    /// By thread: the number of completed nodes.
    done: Vec<u32>,
    /// By thread: the number that would be completed if it ran now.
    reach: Vec<u32>,
    /// By thread: the thread that blocks further progress.
    blocker: Vec<u16>,
    /// The number of completed events.
    events: u64,
    /// The last segment, by its index in the history.
    last: u32,
}

struct OrderSearch<'g> {
    graph: &'g Graph,
    /// Segments, each with the index of its predecessor.
    history: Vec<(NodeSegment, u32)>,
    /// The history length at which it is pruned.
    prune_at: usize,
}

const NO_BLOCKER: u16 = u16::MAX;
const START: u32 = u32::MAX;

/// The minimum number of segments remembered before dead ends are pruned.
const MIN_HISTORY: usize = 1 << 20;

/// Returns an order of the graph's nodes in few segments.
pub(super) fn order(graph: &Graph, effort: Effort) -> NodeOrder {
    let mut search = OrderSearch { graph, history: Vec::new(), prune_at: MIN_HISTORY };
    let mut start = search.start();
    search.take_perfect_segments(&mut start);
    let mut level = vec![start];
    let mut minimal = true;
    loop {
        if let Some(end) = level.iter().find(|state| state.events == graph.events()) {
            return NodeOrder { segments: search.path(end.last), minimal };
        }
        let mut next = Vec::new();
        for state in &level {
            for thread in state.ready() {
                let mut state = state.clone();
                search.run(&mut state, thread);
                search.take_perfect_segments(&mut state);
                next.push(state);
            }
        }
        level = best(next, effort.0.max(1), &mut minimal);
        search.prune(&mut level);
    }
}

/// Returns the states worth continuing from.
fn best(mut states: Vec<OrderState>, width: usize, minimal: &mut bool) -> Vec<OrderState> {
    states.sort_by(|a, b| b.events.cmp(&a.events).then_with(|| b.done.cmp(&a.done)));
    let mut survivors: Vec<OrderState> = Vec::new();
    let mut known: HashMap<Vec<u32>, ()> = HashMap::default();
    for state in states {
        if known.insert(state.done.clone(), ()).is_some() {
            continue;
        }
        let dominated = |by: &OrderState| by.done.iter().zip(&state.done).all(|(by, it)| by >= it);
        if survivors.iter().any(dominated) {
            continue;
        }
        if survivors.len() >= width {
            *minimal = false;
            break;
        }
        survivors.push(state);
    }
    survivors
}

impl OrderState {
    /// Returns the enabled threads.
    fn ready(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.done.len()).filter(|&t| self.reach[t] > self.done[t])
    }
}

impl OrderSearch<'_> {
    fn start(&self) -> OrderState {
        let threads = self.graph.threads.len();
        let mut state = OrderState {
            done: vec![0; threads],
            reach: vec![0; threads],
            blocker: vec![NO_BLOCKER; threads],
            events: 0,
            last: START,
        };
        (0..threads).for_each(|thread| self.advance_reach(&mut state, thread));
        state
    }

    /// Computes how far the thread could run now.
    fn advance_reach(&self, state: &mut OrderState, thread: usize) {
        let nodes = &self.graph.threads[thread];
        while let Some(&node) = nodes.get(state.reach[thread] as usize) {
            if let Some(blocker) = self.blocker(state, node) {
                state.blocker[thread] = blocker;
                return;
            }
            state.reach[thread] += 1;
        }
        state.blocker[thread] = NO_BLOCKER;
    }

    /// Returns a thread that must run before the node can.
    fn blocker(&self, state: &OrderState, node: NodeIx) -> Option<u16> {
        self.graph.before(node).iter().find_map(|&before| {
            let before = &self.graph.nodes[before as usize];
            (state.done[before.thread.index()] <= before.rank).then_some(before.thread.0)
        })
    }

    /// Runs the thread as far as it can.
    fn run(&mut self, state: &mut OrderState, thread: usize) {
        let (from, to) = (state.done[thread], state.reach[thread]);
        let nodes = &self.graph.threads[thread][from as usize..to as usize];
        state.events += nodes.iter().map(|&n| u64::from(self.graph.nodes[n as usize].events)).sum::<u64>();
        state.done[thread] = to;
        self.history.push((NodeSegment { thread: ThreadIx(thread as u16), from, to }, state.last));
        state.last = self.history.len() as u32 - 1;
        for other in 0..state.blocker.len() {
            if state.blocker[other] == thread as u16 {
                self.advance_reach(state, other);
            }
        }
    }

    /// Returns whether the thread's segment would end where some segment must end.
    fn is_perfect(&self, state: &OrderState, thread: usize) -> bool {
        let end = self.graph.threads[thread].get(state.reach[thread] as usize);
        state.reach[thread] > state.done[thread]
            && end.is_none_or(|&node| self.graph.nodes[node as usize].forced)
    }

    fn take_perfect_segments(&mut self, state: &mut OrderState) {
        while let Some(thread) = (0..state.done.len()).find(|&thread| self.is_perfect(state, thread)) {
            self.run(state, thread);
        }
    }

    /// Removes segments that led to none of these states.
    fn prune(&mut self, level: &mut [OrderState]) {
        if self.history.len() < self.prune_at {
            return;
        }
        let mut place = vec![START; self.history.len()];
        for state in level.iter() {
            let mut at = state.last;
            while at != START && place[at as usize] == START {
                place[at as usize] = 0;
                at = self.history[at as usize].1;
            }
        }
        let mut kept_count = 0;
        for at in 0..self.history.len() {
            if place[at] != START {
                let (segment, before) = self.history[at];
                let before = if before == START { START } else { place[before as usize] };
                self.history[kept_count as usize] = (segment, before);
                place[at] = kept_count;
                kept_count += 1;
            }
        }
        self.history.truncate(kept_count as usize);
        self.prune_at = 2 * self.history.len() + MIN_HISTORY;
        for state in level.iter_mut().filter(|state| state.last != START) {
            state.last = place[state.last as usize];
        }
    }

    /// Returns the segments that led to this one.
    fn path(&self, last: u32) -> Vec<NodeSegment> {
        let mut segments = Vec::new();
        let mut at = last;
        while at != START {
            let (segment, before) = self.history[at as usize];
            segments.push(segment);
            at = before;
        }
        segments.reverse();
        segments
    }
}
