//! The dependence graph: events that can stay together are one node.
//!
//! After SimTrace, section 3.3, algorithm 1. A node is a sequence of consecutive events of one thread. An
//! event without new dependences on other threads joins the node of the thread's previous event: in any
//! schedule, it can be moved up to there without adding a context switch. So nothing is lost.
//!
//! As printed, algorithm 1 loses edges: a thread's first action gets none from other threads, and neither
//! does an action that directly follows one of its own thread. Here the only edges omitted are those implied
//! by others.
//!
//! A thread *knows* a node if that node precedes its own current node: see `clocks.rs`. This keeps edges few,
//! and shows at once which breaks between two nodes of a thread are *forced*: another path leads from one to
//! the other, so some other thread must run in between.
//!
//! Nodes are numbered so that edges lead from lower to higher numbers. With [`Granularity::Event`] that is
//! obvious: a node gets its edges with its first event, and they come from earlier events. With
//! [`Granularity::Segment`] it also gets edges during the rest of the trace's segment in which it began;
//! segments do not overlap, so the edges come from nodes that began in earlier ones.

use super::{
    cells::{NONE, NodeIx},
    clocks::NodeClocks,
    direct_dependences::DirectDependences,
};
use unsnarl_model::{Event, ObjectKind, Schedule, ThreadIx};
use unsnarl_semantics::{
    AccessMode, Touch,
    dependence::{Relation, Rules},
};

/// The granularity at which a trace is split into nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Granularity {
    /// At every event with a new dependence. This is the finest split that matters: no schedule is excluded.
    #[default]
    Event,
    /// At the first such event of each segment, so that there are no more nodes than segments.
    Segment,
}

/// Consecutive events of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) thread: ThreadIx,
    /// True if some other thread must run between the thread's previous node and this one.
    pub(super) forced: bool,
    /// The number of preceding nodes of its thread.
    pub(super) rank: u32,
    /// The number of events.
    pub(super) events: u32,
    first_edge: u32,
}

/// The dependence graph of a trace.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub(super) nodes: Vec<Node>,
    /// The sources of edges, ordered by their targets.
    edges: Vec<NodeIx>,
    /// The nodes of each thread.
    pub(super) threads: Vec<Vec<NodeIx>>,
    /// The schedule of the original trace.
    schedule: Schedule,
    switches: u64,
    events: u64,
}

impl Graph {
    /// Builds the graph of these events.
    pub fn of(events: impl IntoIterator<Item = Event>, rules: Rules, grain: Granularity) -> Self {
        let mut builder = Builder::new(rules, grain);
        events.into_iter().for_each(|event| builder.push(event));
        builder.finish()
    }

    /// Builds the graph of a whole trace. If the environment matters it has more dependences than
    /// [`Graph::of`]: a thread's event right before a futex wait or wake-up belongs to library code, whose
    /// accesses are no events.
    #[must_use]
    pub fn of_trace(events: &[Event], rules: Rules, grain: Granularity) -> Self {
        if !rules.environment {
            return Self::of(events.iter().copied(), rules, grain);
        }
        let mut unseen = vec![false; events.len()];
        let mut upcoming: Vec<bool> = Vec::new();
        for (at, event) in events.iter().enumerate().rev() {
            let thread = event.thread.index();
            if upcoming.len() <= thread {
                upcoming.resize(thread + 1, false);
            }
            unseen[at] = std::mem::replace(&mut upcoming[thread], on_futex(event)) || on_futex(event);
        }
        let mut builder = Builder::new(rules, grain);
        events.iter().zip(unseen).for_each(|(&event, unseen)| builder.push_in_place(event, unseen));
        builder.finish()
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether the graph is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of edges between nodes of different threads.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.edges.len()
    }

    /// Returns the number of events.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Returns the schedule of the original trace.
    #[must_use]
    pub const fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns the number of context switches of the original trace.
    #[must_use]
    pub const fn switches(&self) -> u64 {
        self.switches
    }

    /// Returns a lower bound on the context switches of any schedule that keeps the dependences: each thread
    /// runs at least once, and once more for each forced break.
    #[must_use]
    pub fn least_switches(&self) -> u64 {
        let running = self.threads.iter().filter(|nodes| !nodes.is_empty()).count();
        let forced = self.nodes.iter().filter(|node| node.forced).count();
        (running + forced).saturating_sub(1) as u64
    }

    /// Returns, for each thread, the number of events in the causal past of the last events of these threads,
    /// inclusive.
    pub(super) fn events_before(&self, threads: &[ThreadIx]) -> Vec<u64> {
        let mut needed = vec![false; self.len()];
        for thread in threads {
            if let Some(&last) = self.threads.get(thread.index()).and_then(|nodes| nodes.last()) {
                needed[last as usize] = true;
            }
        }
        let mut events = vec![0; self.threads.len()];
        for node in (0..self.len()).rev() {
            if !needed[node] {
                continue;
            }
            let Node { thread, rank, events: own, .. } = self.nodes[node];
            events[thread.index()] += u64::from(own);
            let previous = rank.checked_sub(1).map(|rank| self.threads[thread.index()][rank as usize]);
            for &before in self.before(node as NodeIx).iter().chain(&previous) {
                needed[before as usize] = true;
            }
        }
        events
    }

    /// Returns the nodes of other threads that a node directly depends on.
    pub(super) fn before(&self, node: NodeIx) -> &[NodeIx] {
        let from = self.nodes[node as usize].first_edge as usize;
        let to = self.nodes.get(node as usize + 1).map_or(self.edges.len(), |next| next.first_edge as usize);
        &self.edges[from..to]
    }
}

/// Returns the direct dependences between events of different threads, the earlier event first. All others follow
/// from these and from the order of each thread.
pub(crate) fn direct_pairs(events: &[Event], rules: Rules) -> Vec<(usize, usize)> {
    let mut builder = Builder::apart(Rules { end: false, ..rules });
    events.iter().for_each(|&event| builder.push(event));
    let graph = builder.finish();
    let before = |at: usize| graph.before(at as NodeIx).iter().map(move |&first| (first as usize, at));
    (0..graph.len()).flat_map(before).collect()
}

fn on_futex(event: &Event) -> bool {
    event.op.object_kind() == Some(ObjectKind::Futex)
}

/// Builds the graph event by event, without keeping the events.
#[derive(Debug)]
pub struct Builder {
    graph: Graph,
    grain: Granularity,
    end: bool,
    /// True if every event is a node of its own.
    apart: bool,
    relation: Relation,
    direct_dependences: DirectDependences,
    clocks: NodeClocks,
    cursors: Vec<ThreadCursor>,
    /// The latest node that precedes everything later.
    fence: NodeIx,
    /// The latest event. The last one of a trace is treated differently, so each is processed when the next one arrives.
    held_back: Option<(Event, bool)>,
    /// The number of the trace's current segment.
    segment: u64,
    current: Option<ThreadIx>,
    touches: Vec<Touch>,
    deps: Vec<NodeIx>,
}

/// The current position of a thread.
#[derive(Debug)]
struct ThreadCursor {
    node: NodeIx,
    /// The segment of the trace in which the node began.
    began: u64,
    /// Nodes that precede its next event.
    after: Vec<NodeIx>,
}

impl Builder {
    /// Creates a builder with these rules.
    #[must_use]
    pub fn new(rules: Rules, grain: Granularity) -> Self {
        Self {
            graph: Graph::default(),
            grain,
            end: rules.end,
            apart: false,
            relation: Relation::new(rules),
            direct_dependences: DirectDependences::default(),
            clocks: NodeClocks::default(),
            cursors: Vec::new(),
            fence: NONE,
            held_back: None,
            segment: 0,
            current: None,
            touches: Vec::new(),
            deps: Vec::new(),
        }
    }

    /// Creates a builder with a node for each event.
    pub(super) fn apart(rules: Rules) -> Self {
        Self { apart: true, ..Self::new(rules, Granularity::Event) }
    }

    /// Adds one more event.
    pub fn push(&mut self, event: Event) {
        self.push_in_place(event, false);
    }

    /// Adds one more event; `stays` if it keeps its position among all events.
    fn push_in_place(&mut self, event: Event, stays: bool) {
        if let Some((earlier, stays)) = self.held_back.replace((event, stays)) {
            self.add(&earlier, stays);
        }
    }

    /// Returns the graph when there are no more events. The outcome follows the last event, so that event
    /// stays last.
    #[must_use]
    pub fn finish(mut self) -> Graph {
        if let Some((last, stays)) = self.held_back.take() {
            self.add(&last, stays || self.end);
        }
        self.graph
    }

    fn add(&mut self, event: &Event, stays: bool) {
        let thread = event.thread;
        self.cursor(thread);
        self.graph.events += 1;
        self.graph.schedule.push(thread);
        if self.current != Some(thread) {
            self.graph.switches += u64::from(self.current.is_some());
            self.segment += 1;
            self.current = Some(thread);
        }
        self.touches.clear();
        self.relation.touches(event, &mut self.touches);
        // For bytes that an event both reads and writes, the direct dependences need the reads first.
        if self.touches.len() > 1 {
            self.touches.sort_by_key(|touch| matches!(touch, Touch::Bytes(_, AccessMode::Writes)));
        }
        if stays {
            self.touches.push(Touch::Fence);
        }
        let separate = self.apart || self.touches.contains(&Touch::Fence);
        self.find_dependences(thread);
        let node = self.place(thread, separate);
        self.graph.nodes[node as usize].events += 1;
        let nodes = &self.graph.nodes;
        self.direct_dependences.record(node, |other| nodes[other as usize].thread == thread);
        self.order_later_events(thread, node);
    }

    fn cursor(&mut self, thread: ThreadIx) -> &mut ThreadCursor {
        while self.cursors.len() <= thread.index() {
            self.cursors.push(ThreadCursor { node: NONE, began: 0, after: vec![self.fence] });
            self.graph.threads.push(Vec::new());
        }
        &mut self.cursors[thread.index()]
    }

    /// Collects the dependences of the current event that its thread does not know yet, the latest first.
    fn find_dependences(&mut self, thread: ThreadIx) {
        self.deps.clear();
        for at in 0..self.touches.len() {
            match self.touches[at] {
                Touch::After(other) | Touch::Pin(other) => {
                    let node = self.cursor(other).node;
                    self.deps.push(node);
                }
                Touch::Fence => self.deps.extend(self.cursors.iter().map(|cursor| cursor.node)),
                touch => self.direct_dependences.find(touch, &mut self.deps),
            }
        }
        self.deps.append(&mut self.cursors[thread.index()].after);
        let (nodes, clocks) = (&self.graph.nodes, &mut self.clocks);
        self.deps.retain(|&dep| {
            dep != NONE && {
                let other = nodes[dep as usize].thread;
                other != thread && !clocks.includes(thread, other, dep)
            }
        });
        self.deps.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Returns the node of the current event, with its edges.
    fn place(&mut self, thread: ThreadIx, separate: bool) -> NodeIx {
        let ThreadCursor { node: previous, began, .. } = self.cursors[thread.index()];
        let first = previous == NONE;
        if !first && !separate && self.deps.is_empty() {
            return previous;
        }
        let goes_on = !first && !separate && self.grain == Granularity::Segment && began == self.segment;
        let node = if goes_on { previous } else { self.new_node(thread) };
        let rank = self.graph.nodes[node as usize].rank;
        let before = rank.checked_sub(1).map(|rank| self.graph.threads[thread.index()][rank as usize]);
        for at in 0..self.deps.len() {
            let dep = self.deps[at];
            let other = self.graph.nodes[dep as usize].thread;
            // An earlier dependence may be implied by a later one.
            if self.clocks.includes(thread, other, dep) {
                continue;
            }
            let forced = before.is_some_and(|before| self.clocks.of(dep, thread) > before);
            self.graph.nodes[node as usize].forced |= forced;
            self.graph.edges.push(dep);
            self.clocks.join(thread, other, dep);
        }
        self.clocks.keep(thread, node);
        node
    }

    fn new_node(&mut self, thread: ThreadIx) -> NodeIx {
        let node = self.graph.nodes.len() as NodeIx;
        let nodes = &mut self.graph.threads[thread.index()];
        self.graph.nodes.push(Node {
            thread,
            forced: false,
            rank: nodes.len() as u32,
            events: 0,
            first_edge: self.graph.edges.len() as u32,
        });
        nodes.push(node);
        let segment = self.segment;
        let cursor = self.cursor(thread);
        (cursor.node, cursor.began) = (node, segment);
        node
    }

    /// Orders later events of other threads after the current event where necessary.
    fn order_later_events(&mut self, thread: ThreadIx, node: NodeIx) {
        for at in 0..self.touches.len() {
            match self.touches[at] {
                Touch::Before(other) | Touch::Pin(other) => self.cursor(other).after.push(node),
                Touch::Fence => {
                    self.fence = node;
                    let others = self.cursors.iter_mut().enumerate().filter(|(ix, _)| *ix != thread.index());
                    others.for_each(|(_, cursor)| cursor.after.push(node));
                }
                Touch::Forget(object) => self.direct_dependences.forget(object),
                _ => {}
            }
        }
    }
}
