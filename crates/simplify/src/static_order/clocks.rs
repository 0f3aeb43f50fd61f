//! Vector clocks over nodes: for each thread, the latest preceding node.
//!
//! The nodes of a thread form a chain, so one number for each thread describes everything that precedes a
//! node, and reachability is one comparison. SimTrace searches the graph for each local edge instead, which
//! makes it quadratic.

use super::cells::NodeIx;
use unsnarl_model::ThreadIx;

/// The maximum number of clock entries kept for past nodes. Beyond that, a join adds only the node itself and
/// not its past: redundant edges are kept, and none is lost.
const MAX_CLOCK_ENTRIES: usize = 1 << 26;

/// The clock of each thread's latest node, and of each past node.
///
/// Entries are node numbers plus one: 0 stands for none.
#[derive(Debug, Default)]
pub(super) struct NodeClocks {
    /// Indexed by thread.
    now: Vec<Vec<u32>>,
    /// The concatenated clocks of past nodes.
    saved: Vec<u32>,
    /// The start of each node's clock; one more entry than there are nodes.
    starts: Vec<u32>,
}

impl NodeClocks {
    /// Returns whether this node of another thread precedes the thread's latest node.
    pub(super) fn includes(&self, thread: ThreadIx, other: ThreadIx, node: NodeIx) -> bool {
        let known = self.now.get(thread.index()).and_then(|clock| clock.get(other.index()));
        known.is_some_and(|&known| known > node)
    }

    /// Returns the latest node of a thread that precedes a past node, plus one; 0 if none or unknown.
    pub(super) fn of(&self, node: NodeIx, thread: ThreadIx) -> u32 {
        self.saved[range(&self.starts, node)].get(thread.index()).copied().unwrap_or(0)
    }

    /// Puts a node of another thread, and everything that precedes it, before the thread's latest node.
    pub(super) fn join(&mut self, thread: ThreadIx, other: ThreadIx, node: NodeIx) {
        let Self { now, saved, starts } = self;
        if now.len() <= thread.index() {
            now.resize_with(thread.index() + 1, Vec::new);
        }
        let clock = &mut now[thread.index()];
        let row = &saved[range(starts, node)];
        let needed = row.len().max(other.index() + 1);
        if clock.len() < needed {
            clock.resize(needed, 0);
        }
        clock.iter_mut().zip(row).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
        clock[other.index()] = clock[other.index()].max(node + 1);
    }

    /// Saves the thread's clock as that of its latest node, which is the latest of all nodes.
    pub(super) fn keep(&mut self, thread: ThreadIx, node: NodeIx) {
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        let at = node as usize;
        self.starts.truncate(at + 1);
        self.saved.truncate(self.starts[at] as usize);
        if let Some(clock) = self.now.get(thread.index())
            && self.saved.len() + clock.len() <= MAX_CLOCK_ENTRIES
        {
            self.saved.extend_from_slice(clock);
        }
        self.starts.push(self.saved.len() as u32);
    }
}

fn range(starts: &[u32], node: NodeIx) -> std::ops::Range<usize> {
    starts[node as usize] as usize..starts[node as usize + 1] as usize
}
