//! The closure over read-after-write and control dependences: the paper's figure 2, `Slice_Orig`.
//!
//! The dependence graph is never stored. All dependences point back in time, so one walk from the criterion
//! back to the beginning finds them in the order in which they are needed: pending uses
//! ([`crate::pending_uses`]) are resolved by the latest writer, whose own reads become pending in turn.
//!
//! Control dependence (not described in the paper) is Ferrante's, made dynamic as by Xin and Zhang (ISSTA
//! 2007): an instruction depends on the latest earlier branch, in the same activation of its function, that
//! controls its block; if there is none, on the call that began the activation. Walking backwards, a return
//! enters an activation and a call leaves it.
//!
//! A branch also counts if it prevented a write to a pending register (Gyimóthy's relevant slices, for
//! registers only): optimising compilers turn `if (c) x = 1; else x = 2;` into a move and a branch around
//! another one.

use crate::{
    ByteSpan, Consumer, Control, DataPath, Flow, History, InstructionIx, InstructionStep,
    hash::Hashed,
    pending_uses::PendingUses,
    slice::{Reason, Slice},
};
use std::collections::BTreeMap;
use unsnarl_insn::RegisterPart;

/// The slicing criterion: what to explain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Criterion {
    /// Steps: the values they read, and the fact that they were executed.
    pub steps: Vec<u64>,
    /// Bytes of memory after a step.
    pub bytes: Vec<(u64, ByteSpan)>,
    /// Registers of a thread after a step.
    pub registers: Vec<(u64, RegisterPart)>,
}

impl Criterion {
    /// Returns all steps of the criterion.
    #[must_use]
    pub fn all_steps(&self) -> Vec<u64> {
        let bytes = self.bytes.iter().map(|(step, _)| *step);
        let registers = self.registers.iter().map(|(step, _)| *step);
        self.steps.iter().copied().chain(bytes).chain(registers).collect()
    }

    /// Returns the same criterion for other steps, given in the order of [`all_steps`](Self::all_steps).
    #[must_use]
    pub fn moved_to(&self, steps: &[u64]) -> Self {
        let (own, rest) = steps.split_at(self.steps.len());
        let (bytes, registers) = rest.split_at(self.bytes.len());
        Self {
            steps: own.to_vec(),
            bytes: bytes.iter().zip(&self.bytes).map(|(step, (_, span))| (*step, *span)).collect(),
            registers: registers
                .iter()
                .zip(&self.registers)
                .map(|(step, (_, part))| (*step, *part))
                .collect(),
        }
    }

    /// Returns the latest step of the criterion.
    #[must_use]
    pub fn latest(&self) -> Option<u64> {
        self.all_steps().into_iter().max()
    }
}

/// An activation of a function.
#[derive(Debug, Default)]
struct Activation {
    /// Executed blocks whose controlling branch is still to be found.
    pending_control: Vec<PendingControl>,
    /// The instruction that was executed next.
    next: Option<InstructionIx>,
    /// Functions that did not return: all with a stack below this address.
    unwound: Option<u64>,
}

#[derive(Debug)]
struct PendingControl {
    block: u32,
    function: u32,
    consumer: Consumer,
}

struct BackwardWalk<'a> {
    control: &'a mut dyn Control,
    pending_uses: PendingUses,
    /// By thread, innermost last.
    activations: Hashed<u16, Vec<Activation>>,
    /// Steps that are certainly in the slice, with the reason.
    required: BTreeMap<u64, Vec<Reason>>,
    /// Uses that become pending at a step.
    later: BTreeMap<u64, Vec<PendingLocation>>,
    slice: Slice,
    found: Vec<(Consumer, DataPath)>,
}

#[derive(Clone, Copy)]
enum PendingLocation {
    Bytes(ByteSpan),
    Register(RegisterPart),
}

/// Computes the slice over read-after-write and control dependences.
pub fn closure(history: &dyn History, control: &mut dyn Control, criterion: &Criterion) -> Slice {
    let Some(latest) = criterion.latest() else { return Slice::default() };
    let mut walk = BackwardWalk {
        control,
        pending_uses: PendingUses::default(),
        activations: Hashed::default(),
        required: criterion.steps.iter().map(|&step| (step, vec![Reason::Criterion])).collect(),
        later: BTreeMap::new(),
        slice: Slice::default(),
        found: Vec::new(),
    };
    for &(step, span) in &criterion.bytes {
        walk.later.entry(step).or_default().push(PendingLocation::Bytes(span));
    }
    for &(step, part) in &criterion.registers {
        walk.later.entry(step).or_default().push(PendingLocation::Register(part));
    }
    history.backwards(latest, &mut |step| walk.visit(step));
    walk.slice
}

impl BackwardWalk<'_> {
    /// Visits a step; returns whether anything is still pending.
    fn visit(&mut self, step: &InstructionStep<'_>) -> bool {
        if let Some(locations) = self.later.remove(&step.number) {
            let consumer = Consumer { instruction: step.instruction, thread: step.thread, step: step.number };
            for location in locations {
                match location {
                    PendingLocation::Bytes(span) => self.pending_uses.add_memory(span, consumer),
                    PendingLocation::Register(part) => {
                        self.pending_uses.add_register(step.thread, part, consumer, DataPath::Register);
                    }
                }
            }
        }
        let mut reasons = self.required.remove(&step.number).unwrap_or_default();
        self.control(step, &mut reasons);
        self.data(step, &mut reasons);
        if !reasons.is_empty() {
            self.include(step, reasons);
        }
        !(self.required.is_empty()
            && self.later.is_empty()
            && self.pending_uses.is_empty()
            && self.activations.values().flatten().all(|activation| activation.pending_control.is_empty()))
    }

    /// Tracks activations, and finds the steps that this step controls.
    fn control(&mut self, step: &InstructionStep<'_>, reasons: &mut Vec<Reason>) {
        let activations =
            self.activations.entry(step.thread.0).or_insert_with(|| vec![Activation::default()]);
        match step.flow {
            Flow::Return => activations.push(Activation::default()),
            Flow::Unwound { stack, by } => {
                // Everything that follows depends on the throw, in addition to its other control dependences.
                let pending_control =
                    activations.last().map_or(&[][..], |activation| &activation.pending_control);
                if let Some(by) = by.filter(|_| !pending_control.is_empty()) {
                    let reasons_for_it =
                        pending_control.iter().map(|pending| Reason::Decides(pending.consumer));
                    self.required.entry(by).or_default().extend(reasons_for_it);
                }
                if stack.is_some() {
                    activations.push(Activation { unwound: stack, ..Activation::default() });
                }
                return;
            }
            Flow::Call(stack) => {
                let mut activation = activations.pop().unwrap_or_default();
                if let Some(limit) = activation.unwound {
                    if stack < limit {
                        // A call by one of the functions that did not return.
                        activations.push(Activation { unwound: Some(limit), ..Activation::default() });
                    } else if stack > limit {
                        // The call of the very function that control returned to.
                        activation
                            .pending_control
                            .extend(activations.pop().unwrap_or_default().pending_control);
                    }
                }
                reasons.extend(
                    activation.pending_control.into_iter().map(|pending| Reason::Calls(pending.consumer)),
                );
                if activations.is_empty() {
                    activations.push(Activation::default());
                }
            }
            Flow::Begin(by) => {
                let activation = activations.pop().unwrap_or_default();
                if activations.is_empty() {
                    activations.push(Activation::default());
                }
                if let Some(by) = by.filter(|_| !activation.pending_control.is_empty()) {
                    let reasons_for_it =
                        activation.pending_control.into_iter().map(|pending| Reason::Calls(pending.consumer));
                    self.required.entry(by).or_default().extend(reasons_for_it);
                }
                return;
            }
            Flow::Next | Flow::Branch => {}
        }
        let Some(activation) =
            self.activations.get_mut(&step.thread.0).and_then(|activations| activations.last_mut())
        else {
            return;
        };
        let next = activation.next.replace(step.instruction);
        if step.flow == Flow::Branch
            && let Some(next) = next
        {
            for part in self.control.skipped(step.instruction, next) {
                self.pending_uses.peek_register(step.thread, part, reasons);
            }
        }
        if activation.pending_control.is_empty() || step.copy {
            return;
        }
        let function = self.control.function(step.instruction);
        let control = &mut *self.control;
        activation.pending_control.retain(|pending| {
            // A jump into another function counts as a call of it.
            let decides = if pending.function != function {
                true
            } else {
                step.flow == Flow::Branch
                    && control.controlling_branches(pending.block).contains(&step.instruction)
            };
            if decides {
                reasons.push(Reason::Decides(pending.consumer));
            }
            !decides
        });
    }

    /// Resolves the pending uses that the step writes.
    fn data(&mut self, step: &InstructionStep<'_>, reasons: &mut Vec<Reason>) {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        if self.pending_uses.has_registers(step.thread, step.defs) {
            step.defs.iter().for_each(|&part| self.pending_uses.take_register(step.thread, part, &mut found));
        }
        step.writes.iter().for_each(|&span| self.pending_uses.take_memory(span, &mut found));
        step.may_write.iter().for_each(|&span| self.pending_uses.peek_memory(span, &mut found));
        if step.copy && !found.is_empty() {
            self.pending_uses.forward(&found, step.thread, step.uses, step.reads);
        } else {
            reasons.extend(found.iter().map(|&(consumer, path)| Reason::Writes(consumer, path)));
        }
        self.found = found;
    }

    fn include(&mut self, step: &InstructionStep<'_>, reasons: Vec<Reason>) {
        let consumer = Consumer { instruction: step.instruction, thread: step.thread, step: step.number };
        step.uses.iter().for_each(|&part| {
            self.pending_uses.add_register(step.thread, part, consumer, DataPath::Register)
        });
        step.reads.iter().for_each(|&span| self.pending_uses.add_memory(span, consumer));
        let block = self.control.block(step.instruction);
        let function = self.control.function(step.instruction);
        let activations =
            self.activations.entry(step.thread.0).or_insert_with(|| vec![Activation::default()]);
        if let Some(activation) = activations.last_mut()
            && !activation.pending_control.iter().any(|pending| pending.block == block)
        {
            activation.pending_control.push(PendingControl { block, function, consumer });
        }
        self.slice.add(step, reasons);
    }
}

/// A program without branches.
#[derive(Clone, Copy, Debug, Default)]
pub struct StraightLine;

impl Control for StraightLine {
    fn block(&mut self, _: InstructionIx) -> u32 {
        0
    }

    fn function(&mut self, _: InstructionIx) -> u32 {
        0
    }

    fn controlling_branches(&mut self, _: u32) -> &[InstructionIx] {
        &[]
    }
}
