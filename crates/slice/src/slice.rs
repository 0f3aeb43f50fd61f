//! The contents of a slice.

use crate::{Consumer, DataPath, InstructionIx, InstructionStep, StepSet};
use std::collections::{BTreeMap, BTreeSet};
use unsnarl_model::ThreadIx;

/// The reason why a step is in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It is the criterion.
    Criterion,
    /// It wrote a value that this one read (RAW).
    Writes(Consumer, DataPath),
    /// It is a branch that controls this one.
    Decides(Consumer),
    /// It called the function of this one, or started its thread.
    Calls(Consumer),
    /// It wrote before this one of another thread did, unordered (WAW); at this address.
    WroteBefore(Consumer, u64),
    /// It wrote after this one of another thread had read, unordered (WAR); at this address.
    WroteAfter(Consumer, u64),
    /// Like `WroteBefore`, but both are atomic operations, which do not race.
    AtomicBefore(Consumer, u64),
    /// Like `WroteAfter`, but both are atomic operations.
    AtomicAfter(Consumer, u64),
}

impl Reason {
    /// Returns the consumer that the reason refers to.
    #[must_use]
    pub const fn about(&self) -> Option<Consumer> {
        match self {
            Self::Criterion => None,
            Self::Writes(consumer, _)
            | Self::Decides(consumer)
            | Self::Calls(consumer)
            | Self::WroteBefore(consumer, _)
            | Self::WroteAfter(consumer, _)
            | Self::AtomicBefore(consumer, _)
            | Self::AtomicAfter(consumer, _) => Some(*consumer),
        }
    }

    /// Returns whether this is the same reason for another step of the same instruction.
    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.about().map(|consumer| (consumer.instruction, consumer.thread))
                == other.about().map(|w| (w.instruction, w.thread))
    }
}

/// An instruction in a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceNode {
    /// The threads that executed it.
    pub threads: BTreeSet<ThreadIx>,
    /// The number of its executions in the slice.
    pub instances: u64,
    /// The latest of them.
    pub newest: u64,
    /// One reason of each kind for each instruction that it refers to.
    pub reasons: Vec<Reason>,
}

/// A part of the dynamic dependence graph, grouped by instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The instructions.
    pub nodes: BTreeMap<InstructionIx, SliceNode>,
    /// All steps of the closure.
    pub steps: StepSet,
    /// Unordered dependences between threads.
    pub races: BTreeSet<RaceEdge>,
}

/// The kind of dependence between two accesses of different threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RaceKind {
    /// A write after a write.
    WriteAfterWrite,
    /// A write after a read.
    WriteAfterRead,
}

/// Two unordered accesses of different threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RaceEdge {
    pub kind: RaceKind,
    /// The earlier access.
    pub from: (InstructionIx, ThreadIx),
    /// The later access.
    pub to: (InstructionIx, ThreadIx),
    /// The address of the first occurrence.
    pub addr: u64,
    /// True if only a lock orders them, whose critical sections could occur in another order.
    pub by_lock: bool,
    /// True if both are atomic operations: their order matters, but they are no data race.
    pub atomic: bool,
}

impl Slice {
    /// Adds a step of the closure.
    pub(crate) fn add(&mut self, step: &InstructionStep<'_>, reasons: Vec<Reason>) {
        self.steps.insert(step.number);
        self.add_node(step.instruction, step.thread, step.number, reasons);
    }

    /// Adds an instruction whose own dependences are not followed.
    pub(crate) fn add_node(
        &mut self,
        instruction: InstructionIx,
        thread: ThreadIx,
        step: u64,
        reasons: Vec<Reason>,
    ) {
        let node = self.nodes.entry(instruction).or_default();
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
