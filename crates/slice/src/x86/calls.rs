//! Calls of untraced code: the values passed through them, described by summaries and pseudo-cells.

use super::{Recording, SummaryQuality, summaries::TouchedBytes};
use crate::{ByteSpan, CELLS, Flow, InstructionIx, InstructionStep};
use unsnarl_insn::{RegisterPart, gpr};
use unsnarl_model::ThreadIx;

/// A call of untraced code.
#[derive(Clone, Debug)]
pub struct Call {
    pub step: u64,
    /// The calling thread.
    pub thread: ThreadIx,
    /// The calling instruction.
    pub instruction: InstructionIx,
    /// The first six arguments, as far as they exist.
    pub arguments: [u64; 6],
    /// The result, if the call returned.
    pub result: Option<u64>,
    /// The thread that it created.
    pub created: Option<ThreadIx>,
    /// The thread that it joined.
    pub joined: Option<ThreadIx>,
    pub(super) name: u32,
    pub(super) stack: u64,
    pub(super) returns_to: u64,
    /// Control left by a jump, so the call returns to the caller's caller.
    pub(super) tail: bool,
    /// The number of calls in progress.
    pub(super) depth: u16,
    /// The argument registers that were set for the call.
    pub(super) arguments_set: u8,
    /// The number of vector registers with arguments.
    pub(super) vectors: u8,
    /// The cell for the result, if the caller itself was called from untraced code and left by a jump.
    pub(super) result_cell: Option<u64>,
}

/// The kind of call by which control left the traced code.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExitRecord {
    Call(u32),
    /// A function called from untraced code returned; its result goes to this cell.
    Return(u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct EntryRecord {
    pub(super) pc: u64,
    pub(super) flow: Flow,
    /// The call that returns here.
    pub(super) resumes: Option<u32>,
    /// The cell that the arguments come from.
    pub(super) arguments: Option<u64>,
}

/// rdi, rsi, rdx, rcx, r8, r9.
pub(super) const ARGUMENTS: [RegisterPart; 6] = [gpr(7), gpr(6), gpr(2), gpr(1), gpr(8), gpr(9)];

/// rax, rdx and the first vector register: the result of a function.
pub(super) static RESULT: [RegisterPart; 4] =
    [gpr(0), gpr(2), RegisterPart { granule: 16, mask: 0xff }, RegisterPart { granule: 17, mask: 0xff }];

/// All registers that may hold arguments.
static ALL_ARGUMENTS: [RegisterPart; 8] = [
    gpr(7),
    gpr(6),
    gpr(2),
    gpr(1),
    gpr(8),
    gpr(9),
    RegisterPart { granule: 16, mask: 0xff },
    RegisterPart { granule: 24, mask: 0xff },
];

pub(super) const fn cell(kind: u64, thread: ThreadIx, depth: u16) -> u64 {
    CELLS | kind << 56 | (thread.0 as u64) << 32 | (depth as u64) << 4
}
/// The arguments of a call.
pub(super) const CALL_ARGUMENTS: u64 = 1;
/// The arguments of a callback.
pub(super) const CALLBACK_ARGUMENTS: u64 = 2;
/// The argument of a new thread.
pub(super) const THREAD_ARGUMENT: u64 = 3;
/// The result of a thread.
pub(super) const THREAD_RESULT: u64 = 4;
/// The result of a callback.
pub(super) const CALLBACK_RESULT: u64 = 5;

/// Reusable buffers for the locations that a step touches.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) touched: TouchedBytes,
    pub(super) parts: Vec<RegisterPart>,
}

impl Recording<'_> {
    /// Describes a call of untraced code. Its effects on memory take place when it returns, because it may
    /// have waited for other threads before.
    pub(super) fn call(&self, call: &Call, step: &mut InstructionStep<'_>, scratch: &mut Scratch) {
        step.instruction = call.instruction;
        let summary = &self.names[call.name as usize].1;
        scratch.parts.clear();
        for (n, &part) in ARGUMENTS.iter().enumerate() {
            let given = n < usize::from(summary.arguments);
            if given || summary.variadic && call.arguments_set >> n & 1 == 1 {
                scratch.parts.push(part);
            }
        }
        let vectors = if summary.variadic { call.vectors } else { summary.vectors };
        for vector in 0..u16::from(vectors.min(8)) {
            scratch.parts.push(RegisterPart { granule: 16 + vector * 8, mask: 0xff });
        }
        if call.result.is_some() {
            step.copy = true;
        } else {
            self.effects(call, scratch);
        }
        scratch.touched.writes.push(ByteSpan::new(cell(CALL_ARGUMENTS, call.thread, call.depth), 8));
        scratch.touched.writes.push(ByteSpan::new(cell(CALLBACK_ARGUMENTS, call.thread, call.depth), 8));
        if let Some(created) = call.created {
            scratch.touched.writes.push(ByteSpan::new(cell(THREAD_ARGUMENT, created, 0), 8));
        }
        scratch.touched.writes.extend(call.result_cell.map(|cell| ByteSpan::new(cell, 8)));
        if self.callee(call) == "pthread_exit" {
            scratch.touched.writes.push(ByteSpan::new(cell(THREAD_RESULT, call.thread, 0), 8));
        }
    }

    /// Computes the effects of a call on memory.
    fn effects(&self, call: &Call, scratch: &mut Scratch) {
        let summary = &self.names[call.name as usize].1;
        scratch.touched = summary.touched(call.arguments, call.result);
        scratch.touched.guessed = summary.quality == SummaryQuality::Unknown;
        if scratch.touched.guessed {
            // It may write through its pointer arguments.
            for n in (0..6).filter(|n| call.arguments_set >> n & 1 == 1) {
                // A pointer to the runtime's own memory is a leftover from there.
                let own = 0x6000_0000_0000..0x7000_0000_0000;
                if (0x1_0000..1 << 47).contains(&call.arguments[n]) && !own.contains(&call.arguments[n]) {
                    scratch.touched.may_write.push(ByteSpan::new(call.arguments[n], 64));
                }
            }
        }
    }

    /// Describes how control enters the traced code: values arrive in registers.
    pub(super) fn enter(&self, entered: &EntryRecord, step: &mut InstructionStep<'_>, scratch: &mut Scratch) {
        step.flow = entered.flow;
        step.instruction = self.instruction_at(entered.pc).unwrap_or(InstructionIx(0));
        step.copy = true;
        if let Some(call) = entered.resumes {
            let call = &self.calls[call as usize];
            step.instruction = call.instruction;
            step.copy = false;
            step.defs = &RESULT;
            self.effects(call, scratch);
            scratch.touched.reads.push(ByteSpan::new(cell(CALL_ARGUMENTS, call.thread, call.depth), 8));
            scratch.touched.reads.push(ByteSpan::new(cell(CALLBACK_RESULT, call.thread, call.depth), 8));
            // The thread's result is passed only if the caller asked for it.
            if let Some(joined) = call.joined.filter(|_| call.arguments[1] >= 4096) {
                scratch.touched.reads.push(ByteSpan::new(cell(THREAD_RESULT, joined, 0), 8));
                if self.callee(call).starts_with("pthread_") {
                    scratch.touched.writes.push(ByteSpan::new(call.arguments[1], 8));
                }
            }
        } else if let Some(from) = entered.arguments {
            step.defs = &ALL_ARGUMENTS;
            scratch.touched.reads.push(ByteSpan::new(from, 8));
        }
    }
}
