//! SimTrace as the paper prints it: algorithms 1 and 2, to compare with.
//!
//! Two things are corrected. Algorithm 1 loses edges: as printed, a thread's first action gets none from
//! other threads, and an action that directly follows one of its own thread gets none either. Theorem 1 needs
//! them, so here each action with a remote incoming dependence begins a node and has its edges. And the
//! relation is that of [`unsnarl_semantics::dependence`], which covers more operations than the paper.
//!
//! Everything else is taken literally: all events and their dependences in memory, a graph search for each
//! local edge, the edges in the order of the trace.

use super::{Reordering, Rules};
use std::collections::{HashMap, VecDeque};
use unsnarl_model::{Event, Schedule, Stats};
use unsnarl_semantics::{AccessMode, ByteRange, SharedObject, Touch, dependence::Relation};

/// Simplifies a trace by the paper's algorithms.
#[must_use]
pub fn simplify(events: &[Event], rules: Rules) -> Reordering {
    let dependences = dependences(events, rules);
    let mut graph = construct(events, &dependences);
    graph.simplify();
    let order = graph.sorted();
    let mut schedule = Schedule::default();
    for event in order {
        schedule.push(events[event].thread);
    }
    let (before, after) =
        (Stats::of(events).context_switches, schedule.segments.len().saturating_sub(1) as u64);
    if after > before {
        return Reordering {
            schedule: Schedule::of(events),
            before,
            after: before,
            least: 0,
            minimal: false,
        };
    }
    Reordering { schedule, before, after, least: 0, minimal: false }
}

/// The last accesses to a variable.
#[derive(Default)]
struct VariableAccesses {
    write: Option<usize>,
    reads: Vec<usize>,
}

#[derive(PartialEq, Eq, Hash)]
enum VariableName {
    SharedObject(SharedObject),
    Byte(u64),
}

/// Returns, for each event, the events of other threads that it directly depends on.
fn dependences(events: &[Event], rules: Rules) -> Vec<Vec<usize>> {
    let mut relation = Relation::new(rules);
    let mut variables: HashMap<VariableName, VariableAccesses> = HashMap::new();
    let mut latest: HashMap<u16, usize> = HashMap::new();
    let mut follows: HashMap<u16, Vec<usize>> = HashMap::new();
    let mut fence = None;
    let mut all = Vec::with_capacity(events.len());
    let mut touches = Vec::new();
    for (at, event) in events.iter().enumerate() {
        touches.clear();
        relation.touches(event, &mut touches);
        if rules.end && at + 1 == events.len() {
            touches.push(Touch::Fence);
        }
        let mut before: Vec<usize> = follows.remove(&event.thread.0).unwrap_or_default();
        before.extend(fence);
        for touch in &touches {
            match *touch {
                Touch::SharedObject(object, how) => {
                    touch_variable(
                        variables.entry(VariableName::SharedObject(object)).or_default(),
                        how,
                        at,
                        &mut before,
                    );
                }
                Touch::Bytes(ByteRange { first, len }, how) => {
                    for byte in first..first.saturating_add(len) {
                        touch_variable(
                            variables.entry(VariableName::Byte(byte)).or_default(),
                            how,
                            at,
                            &mut before,
                        );
                    }
                }
                Touch::After(thread) => before.extend(latest.get(&thread.0)),
                Touch::Before(thread) => follows.entry(thread.0).or_default().push(at),
                Touch::Pin(thread) => {
                    before.extend(latest.get(&thread.0));
                    follows.entry(thread.0).or_default().push(at);
                }
                Touch::Fence => {
                    before.extend(latest.values());
                    fence = Some(at);
                }
                Touch::Forget(object) => drop(variables.remove(&VariableName::SharedObject(object))),
            }
        }
        before.retain(|&other| other != at && events[other].thread != event.thread);
        before.sort_unstable();
        before.dedup();
        all.push(before);
        latest.insert(event.thread.0, at);
    }
    all
}

fn touch_variable(variable: &mut VariableAccesses, how: AccessMode, at: usize, before: &mut Vec<usize>) {
    before.extend(variable.write);
    match how {
        AccessMode::Reads => variable.reads.push(at),
        AccessMode::Writes => {
            before.append(&mut variable.reads);
            variable.write = Some(at);
        }
    }
}

/// The paper's graph; a merged node is identified by its first part.
struct MergeGraph {
    /// The events of each node.
    nodes: Vec<Vec<usize>>,
    /// The successors of each node, including local edges.
    edges: Vec<Vec<usize>>,
    /// Local edges, in the order of the trace.
    local: Vec<(usize, usize)>,
    merged_into: Vec<usize>,
}

/// Algorithm 1, with all edges.
fn construct(events: &[Event], dependences: &[Vec<usize>]) -> MergeGraph {
    let mut graph =
        MergeGraph { nodes: Vec::new(), edges: Vec::new(), local: Vec::new(), merged_into: Vec::new() };
    let mut current: HashMap<u16, usize> = HashMap::new();
    let mut node_of: Vec<usize> = Vec::with_capacity(events.len());
    for (at, event) in events.iter().enumerate() {
        let old = current.get(&event.thread.0).copied();
        let node = match old {
            Some(node) if dependences[at].is_empty() => node,
            _ => {
                let new = graph.nodes.len();
                graph.nodes.push(Vec::new());
                graph.edges.push(Vec::new());
                graph.merged_into.push(new);
                if let Some(old) = old {
                    graph.edges[old].push(new);
                    graph.local.push((old, new));
                }
                for &before in &dependences[at] {
                    graph.edges[node_of[before]].push(new);
                }
                current.insert(event.thread.0, new);
                new
            }
        };
        graph.nodes[node].push(at);
        node_of.push(node);
    }
    graph
}

impl MergeGraph {
    /// Algorithm 2.
    fn simplify(&mut self) {
        for (a, b) in std::mem::take(&mut self.local) {
            let a = self.whole(a);
            if !self.has_other_path(a, b) {
                self.merged_into[b] = a;
                let events = std::mem::take(&mut self.nodes[b]);
                self.nodes[a].extend(events);
                let edges = std::mem::take(&mut self.edges[b]);
                self.edges[a].extend(edges);
            }
        }
    }

    /// Returns the merged node that contains a node.
    fn whole(&self, mut node: usize) -> usize {
        while self.merged_into[node] != node {
            node = self.merged_into[node];
        }
        node
    }

    fn has_other_path(&self, a: usize, b: usize) -> bool {
        let mut seen = vec![false; self.nodes.len()];
        let mut queue: VecDeque<usize> = self.edges[a]
            .iter()
            .map(|&next| self.whole(next))
            .filter(|&next| next != b && next != a)
            .collect();
        while let Some(node) = queue.pop_front() {
            if node == b {
                return true;
            }
            if !std::mem::replace(&mut seen[node], true) {
                queue.extend(self.edges[node].iter().map(|&next| self.whole(next)));
            }
        }
        false
    }

    /// Returns the events in a topological order.
    fn sorted(&self) -> Vec<usize> {
        let wholes: Vec<usize> = (0..self.nodes.len()).filter(|&n| self.merged_into[n] == n).collect();
        let leads = |node: usize| {
            self.edges[node].iter().map(|&next| self.whole(next)).filter(move |&next| next != node)
        };
        let mut missing = vec![0u32; self.nodes.len()];
        for &node in &wholes {
            leads(node).for_each(|next| missing[next] += 1);
        }
        let mut ready: VecDeque<usize> = wholes.iter().copied().filter(|&node| missing[node] == 0).collect();
        let mut order = Vec::new();
        while let Some(node) = ready.pop_front() {
            order.extend_from_slice(&self.nodes[node]);
            for next in leads(node) {
                missing[next] -= 1;
                if missing[next] == 0 {
                    ready.push_back(next);
                }
            }
        }
        order
    }
}
