//! Handwritten histories, and their slices by brute force.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::{BTreeMap, BTreeSet};
use unsnarl_model::{Event, Flags, Op, Order, SiteIx, ThreadIx};
use unsnarl_slice::{ByteSpan, Control, Flow, History, InstructionIx, InstructionStep, Slice};

/// A step of a toy history.
#[derive(Clone, Debug)]
pub(crate) struct ToyStep {
    pub(crate) thread: u16,
    pub(crate) instruction: u32,
    pub(crate) reads: Vec<ByteSpan>,
    pub(crate) writes: Vec<ByteSpan>,
    pub(crate) atomic: bool,
    pub(crate) flow: Flow,
    /// The number of earlier events.
    pub(crate) events: u64,
    /// The step that controls it, as known by the toy's own interpreter.
    pub(crate) parent: Option<u64>,
}

impl ToyStep {
    pub(crate) fn new(thread: u16, instruction: u32, reads: &[u64], writes: &[u64]) -> Self {
        let spans = |list: &[u64]| list.iter().map(|&addr| ByteSpan::new(addr * 8, 8)).collect();
        Self {
            thread,
            instruction,
            reads: spans(reads),
            writes: spans(writes),
            atomic: false,
            flow: Flow::Next,
            events: 0,
            parent: None,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Toy {
    pub(crate) steps: Vec<ToyStep>,
    pub(crate) events: Vec<Event>,
}

impl Toy {
    /// Appends a step and returns its number.
    pub(crate) fn step(&mut self, thread: u16, instruction: u32, reads: &[u64], writes: &[u64]) -> u64 {
        let mut step = ToyStep::new(thread, instruction, reads, writes);
        step.events = self.events.len() as u64;
        self.steps.push(step);
        self.steps.len() as u64 - 1
    }

    /// Appends the acquisition or release of a lock.
    pub(crate) fn event(&mut self, thread: u16, op: Op) {
        self.events.push(Event {
            thread: ThreadIx(thread),
            op,
            flags: Flags::NONE,
            order: Order::Relaxed,
            site: SiteIx(0),
            context: 0,
            size: 0,
            addr: 0x9000,
            value: 1,
        });
    }

    fn visit<R>(&self, number: usize, visit: impl FnOnce(&InstructionStep<'_>) -> R) -> R {
        let toy = &self.steps[number];
        let mut step =
            InstructionStep::new(number as u64, ThreadIx(toy.thread), InstructionIx(toy.instruction));
        step.reads = &toy.reads;
        step.writes = &toy.writes;
        step.atomic = toy.atomic;
        step.flow = toy.flow;
        step.events = toy.events;
        visit(&step)
    }

    /// Computes the slice of a step by brute force: forwards, each byte carries all steps that it was
    /// computed from.
    pub(crate) fn brute(&self, criterion: u64) -> BTreeSet<u64> {
        let mut bytes: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        let mut slices: Vec<BTreeSet<u64>> = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            let mut slice = BTreeSet::from([number as u64]);
            for addr in step.reads.iter().flat_map(|span| span.addr..span.addr + span.len) {
                slice.extend(bytes.get(&addr).into_iter().flatten());
            }
            if let Some(parent) = step.parent {
                slice.extend(&slices[parent as usize]);
            }
            for addr in step.writes.iter().flat_map(|span| span.addr..span.addr + span.len) {
                bytes.insert(addr, slice.clone());
            }
            slices.push(slice);
        }
        slices[criterion as usize].clone()
    }
}

impl History for Toy {
    fn len(&self) -> u64 {
        self.steps.len() as u64
    }

    fn threads(&self) -> u64 {
        let threads: std::collections::BTreeSet<_> = self.steps.iter().map(|step| step.thread).collect();
        threads.len() as u64
    }

    fn forwards(&self, visit: &mut dyn FnMut(&InstructionStep<'_>)) {
        (0..self.steps.len()).for_each(|number| self.visit(number, &mut *visit));
    }

    fn backwards(&self, from: u64, visit: &mut dyn FnMut(&InstructionStep<'_>) -> bool) {
        for number in (0..=from as usize).rev() {
            if !self.visit(number, &mut *visit) {
                return;
            }
        }
    }
}

/// Control dependence as a table: for each place its function and its controlling branches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) functions: Vec<u32>,
    pub(crate) controlling_branches: Vec<Vec<InstructionIx>>,
}

impl Control for Table {
    fn block(&mut self, instruction: InstructionIx) -> u32 {
        instruction.0
    }

    fn function(&mut self, instruction: InstructionIx) -> u32 {
        self.functions[instruction.0 as usize]
    }

    fn controlling_branches(&mut self, block: u32) -> &[InstructionIx] {
        &self.controlling_branches[block as usize]
    }
}

/// Returns the places of a slice.
pub(crate) fn instructions(slice: &Slice) -> Vec<u32> {
    slice.nodes.keys().map(|instruction| instruction.0).collect()
}
