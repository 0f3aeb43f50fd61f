//! What a slice consists of.

use crate::{Consumer, DataPath, InstructionIx, Step, StepSet};
use std::collections::{BTreeMap, BTreeSet};
use unsnarl_model::ThreadIx;

/// Why a step is in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It is what is to be explained.
    Criterion,
    /// It wrote what this one read (RAW).
    Writes(Consumer, DataPath),
    /// It decided that this one was executed.
    Decides(Consumer),
    /// It called the function that this one is in, or started its thread.
    Calls(Consumer),
    /// It wrote before this one of another thread did, and nothing orders them (WAW); at this address.
    WroteBefore(Consumer, u64),
    /// It wrote after this one of another thread had read, and nothing orders them (WAR); at this address.
    WroteAfter(Consumer, u64),
}

impl Reason {
    /// The step that it is about.
    #[must_use]
    pub const fn about(&self) -> Option<Consumer> {
        match self {
            Self::Criterion => None,
            Self::Writes(consumer, _)
            | Self::Decides(consumer)
            | Self::Calls(consumer)
            | Self::WroteBefore(consumer, _)
            | Self::WroteAfter(consumer, _) => Some(*consumer),
        }
    }

    /// The same reason for another step of the same instruction.
    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.about().map(|consumer| (consumer.place, consumer.thread))
                == other.about().map(|w| (w.place, w.thread))
    }
}

/// An instruction in a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceNode {
    /// Who executed it.
    pub threads: BTreeSet<ThreadIx>,
    /// How many of its executions are in.
    pub instances: u64,
    /// The latest of them.
    pub newest: u64,
    /// Why: one reason of each kind for each instruction that it is about.
    pub reasons: Vec<Reason>,
}

/// A part of the dynamic dependence graph, gathered by instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The instructions.
    pub nodes: BTreeMap<InstructionIx, SliceNode>,
    /// All steps of the closure.
    pub steps: StepSet,
    /// Edges between threads at places that nothing orders.
    pub races: BTreeSet<RaceEdge>,
}

/// In which way two accesses of different threads depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RaceKind {
    /// A write after a write.
    WriteAfterWrite,
    /// A write after a read.
    WriteAfterRead,
}

/// Two accesses of different threads that nothing orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RaceEdge {
    /// In which way.
    pub kind: RaceKind,
    /// The earlier one.
    pub from: (InstructionIx, ThreadIx),
    /// The later one.
    pub to: (InstructionIx, ThreadIx),
    /// Where in memory, the first time.
    pub addr: u64,
    /// Whether only a lock orders them, whose critical sections could come in another order.
    pub by_lock: bool,
}

impl Slice {
    /// Adds a step of the closure.
    pub(crate) fn add(&mut self, step: &Step<'_>, reasons: Vec<Reason>) {
        self.steps.insert(step.number);
        self.add_node(step.place, step.thread, step.number, reasons);
    }

    /// Adds an instruction that is not followed further.
    pub(crate) fn add_node(
        &mut self,
        place: InstructionIx,
        thread: ThreadIx,
        step: u64,
        reasons: Vec<Reason>,
    ) {
        let node = self.nodes.entry(place).or_default();
        node.threads.insert(thread);
        node.instances += 1;
        node.newest = node.newest.max(step);
        for reason in reasons {
            if !node.reasons.iter().any(|known| known.is_like(&reason)) {
                node.reasons.push(reason);
            }
        }
    }
}
