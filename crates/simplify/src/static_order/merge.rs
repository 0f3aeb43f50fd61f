//! Merging nodes, in any order of evaluation.
//!
//! After SimTrace, section 3.3, algorithm 2: two adjacent nodes of a thread are merged if the edge between
//! them is the only path from one to the other. The paper takes the local edges in an arbitrary order, and
//! its result depends on it (figure 1). The paper searches the graph for each edge; here vector clocks answer
//! the question. A merge puts everything that precedes the second node before everything that follows the
//! first one, so the clocks of those nodes are updated where necessary.
//!
//! An existing path never disappears, so each local edge is examined once, and no two nodes of the result
//! could be merged.

use super::{Graph, cells::NodeIx, node_order::NodeSegment};
use std::collections::{BinaryHeap, VecDeque};
use unsnarl_sched::Rng;

/// The graph while its nodes are being merged. A merged node is identified by its first part, the leader.
struct NodeMerger<'g> {
    graph: &'g Graph,
    /// By node: the leader of the merged node that contains it.
    leader: Vec<NodeIx>,
    /// By leader: the number of its parts.
    parts: Vec<u32>,
    /// By leader: for each thread, the latest preceding node, plus one.
    clocks: Vec<u32>,
    after: Vec<NodeIx>,
    after_start: Vec<u32>,
}

/// Returns an order of the nodes after all possible merges, with the local edges shuffled by the seed.
pub(super) fn order(graph: &Graph, seed: u64) -> Vec<NodeSegment> {
    let mut edges: Vec<NodeIx> =
        (0..graph.len() as NodeIx).filter(|&n| graph.nodes[n as usize].rank > 0).collect();
    let mut rng = Rng::new(seed);
    for at in (1..edges.len()).rev() {
        edges.swap(at, (rng.next_u64() % (at as u64 + 1)) as usize);
    }
    let mut merger = NodeMerger::new(graph);
    for node in edges {
        merger.try_merge(node);
    }
    merger.sorted()
}

impl<'g> NodeMerger<'g> {
    fn new(graph: &'g Graph) -> Self {
        let nodes = graph.len();
        let (after_start, after) = successors(graph);
        let mut merger = Self {
            graph,
            leader: (0..nodes as NodeIx).collect(),
            parts: vec![1; nodes],
            clocks: vec![0; nodes * graph.threads.len()],
            after,
            after_start,
        };
        // Preceding nodes have lower numbers.
        for node in 0..nodes as NodeIx {
            if let Some(previous) = merger.previous(node) {
                merger.join(node, previous);
            }
            for &before in graph.before(node) {
                merger.join(node, before);
            }
        }
        merger
    }

    fn width(&self) -> usize {
        self.graph.threads.len()
    }

    /// Returns the previous node of the same thread.
    fn previous(&self, node: NodeIx) -> Option<NodeIx> {
        let node = &self.graph.nodes[node as usize];
        Some(self.graph.threads[node.thread.index()][node.rank.checked_sub(1)? as usize])
    }

    fn clock(&self, node: NodeIx, thread: usize) -> u32 {
        self.clocks[self.leader[node as usize] as usize * self.width() + thread]
    }

    /// Puts `before` and everything that precedes it before a node; returns whether that changed anything.
    fn join(&mut self, node: NodeIx, before: NodeIx) -> bool {
        let width = self.width();
        let (to, from) = (self.leader[node as usize] as usize, self.leader[before as usize] as usize);
        let mut news = false;
        for thread in 0..width {
            let known = self.clocks[from * width + thread];
            let mine = &mut self.clocks[to * width + thread];
            news |= known > *mine;
            *mine = known.max(*mine);
        }
        let thread = self.graph.nodes[before as usize].thread.index();
        let mine = &mut self.clocks[to * width + thread];
        news |= before >= *mine;
        *mine = (*mine).max(before + 1);
        news
    }

    /// Merges the node's merged node with the previous one of its thread, if no path but the edge connects
    /// them.
    fn try_merge(&mut self, node: NodeIx) {
        let Some(previous) = self.previous(node) else { return };
        let first = self.leader[previous as usize];
        let own = self.graph.nodes[node as usize].thread.index();
        let around = (0..self.width()).filter(|&thread| thread != own).any(|thread| {
            let latest = self.clock(node, thread);
            latest > 0 && self.clock(latest - 1, own) > first
        });
        if around {
            return;
        }
        let second = self.leader[node as usize];
        let parts = self.parts[second as usize];
        let news = self.join(first, second);
        self.parts[first as usize] += parts;
        let rank = self.graph.nodes[node as usize].rank;
        for rank in rank..rank + parts {
            let part = self.graph.threads[own][rank as usize];
            self.leader[part as usize] = first;
        }
        if news {
            self.propagate(first);
        }
    }

    /// Propagates the updated clock of a merged node to everything after it.
    fn propagate(&mut self, leader: NodeIx) {
        let mut queue = VecDeque::from([leader]);
        while let Some(leader) = queue.pop_front() {
            let node = self.graph.nodes[leader as usize];
            let nodes = &self.graph.threads[node.thread.index()];
            let end = node.rank + self.parts[leader as usize];
            if let Some(&next) = nodes.get(end as usize)
                && self.join(next, leader)
            {
                queue.push_back(self.leader[next as usize]);
            }
            for rank in node.rank..end {
                let part = nodes[rank as usize] as usize;
                for at in self.after_start[part]..self.after_start[part + 1] {
                    let after = self.after[at as usize];
                    if self.join(after, part as NodeIx) {
                        queue.push_back(self.leader[after as usize]);
                    }
                }
            }
        }
    }

    /// Returns the merged nodes in a topological order.
    fn sorted(&self) -> Vec<NodeSegment> {
        let mut missing = vec![0u32; self.graph.len()];
        for node in 0..self.graph.len() as NodeIx {
            let leader = self.leader[node as usize] as usize;
            missing[leader] += self.graph.before(node).len() as u32;
            missing[leader] += u32::from(leader == node as usize && self.graph.nodes[leader].rank > 0);
        }
        let leaders = (0..self.graph.len() as NodeIx).filter(|&n| self.leader[n as usize] == n);
        let free = |missing: &[u32], node: NodeIx| missing[node as usize] == 0;
        let mut ready: BinaryHeap<_> =
            leaders.filter(|&n| free(&missing, n)).map(std::cmp::Reverse).collect();
        let mut segments = Vec::new();
        while let Some(std::cmp::Reverse(leader)) = ready.pop() {
            let node = self.graph.nodes[leader as usize];
            let nodes = &self.graph.threads[node.thread.index()];
            let to = node.rank + self.parts[leader as usize];
            segments.push(NodeSegment { thread: node.thread, from: node.rank, to });
            let mut satisfied = Vec::from_iter(nodes.get(to as usize).copied());
            for rank in node.rank..to {
                let part = nodes[rank as usize] as usize;
                let range = self.after_start[part] as usize..self.after_start[part + 1] as usize;
                satisfied.extend_from_slice(&self.after[range]);
            }
            for node in satisfied {
                let leader = self.leader[node as usize];
                missing[leader as usize] -= 1;
                if free(&missing, leader) {
                    ready.push(std::cmp::Reverse(leader));
                }
            }
        }
        segments
    }
}

/// Returns the reversed edges: where each node's begin, and their targets.
fn successors(graph: &Graph) -> (Vec<u32>, Vec<NodeIx>) {
    let mut start = vec![0u32; graph.len() + 1];
    for node in 0..graph.len() as NodeIx {
        for &before in graph.before(node) {
            start[before as usize + 1] += 1;
        }
    }
    for at in 1..start.len() {
        start[at] += start[at - 1];
    }
    let mut next = start.clone();
    let mut after = vec![0; graph.edges()];
    for node in 0..graph.len() as NodeIx {
        for &before in graph.before(node) {
            after[next[before as usize] as usize] = node;
            next[before as usize] += 1;
        }
    }
    (start, after)
}
