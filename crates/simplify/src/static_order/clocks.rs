//! Clocks over nodes: of each thread, the latest node that comes before.
//!
//! The nodes of a thread are a chain, so what comes before a node is told by one number for each thread, and
//! whether one node reaches another is one comparison. SimTrace searches the graph for each local edge instead,
//! which makes it quadratic.

use super::cells::NodeIx;
use unsnarl_model::ThreadIx;

/// So many numbers are kept of past nodes. Beyond that, threads learn of a node only itself and no longer what
/// it comes after: more edges are kept than needed, and none is lost.
const MAX_CLOCK_ENTRIES: usize = 1 << 26;

/// What each thread's latest node comes after, and what each node came after.
///
/// Numbers are those of nodes plus one: 0 stands for none.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// By thread.
    now: Vec<Vec<u32>>,
    /// The clocks of past nodes, one behind the other.
    saved: Vec<u32>,
    /// Where each node's begins; one more than there are nodes.
    starts: Vec<u32>,
}

impl Clocks {
    /// Whether the thread's latest node comes after this one of another thread.
    pub(super) fn includes(&self, thread: ThreadIx, other: ThreadIx, node: NodeIx) -> bool {
        let known = self.now.get(thread.index()).and_then(|clock| clock.get(other.index()));
        known.is_some_and(|&known| known > node)
    }

    /// The latest node of a thread that a past node came after, plus one; 0 if none or not known.
    pub(super) fn of(&self, node: NodeIx, thread: ThreadIx) -> u32 {
        self.saved[range(&self.starts, node)].get(thread.index()).copied().unwrap_or(0)
    }

    /// The thread's latest node comes after that node of another thread, and all that one came after.
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

    /// Keeps the thread's clock as that of its latest node, which is the latest of all.
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
