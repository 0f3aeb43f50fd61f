//! Calls of code that is not traced: what passes through them, told by summaries and by cells of our own.

use super::{Recording, SummaryQuality, summaries::TouchedBytes};
use crate::{ByteSpan, CELLS, Flow, InstructionIx, Step};
use unsnarl_insn::{RegisterPart, gpr};
use unsnarl_model::ThreadIx;

/// A call of code that is not traced.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its step.
    pub step: u64,
    /// Who called.
    pub thread: ThreadIx,
    /// The instruction that called.
    pub place: InstructionIx,
    /// The first six arguments, of as many as there are.
    pub arguments: [u64; 6],
    /// What it returned, if it did.
    pub result: Option<u64>,
    /// The thread that it created.
    pub created: Option<ThreadIx>,
    /// The thread that it joined.
    pub joined: Option<ThreadIx>,
    pub(super) name: u32,
    pub(super) stack: u64,
    pub(super) returns_to: u64,
    /// Control left by a jump: the caller's caller is returned to.
    pub(super) tail: bool,
    /// How many calls were under way.
    pub(super) depth: u16,
    /// Which argument registers were set for it.
    pub(super) set: u8,
    /// Vector registers with arguments.
    pub(super) vectors: u8,
    /// The caller was itself called from outside and left by a jump: the result goes there.
    pub(super) ends: Option<u64>,
}

/// How control left.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExitRecord {
    Call(u32),
    /// A function that was called from outside returned: what it returned goes there.
    Return(u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct EntryRecord {
    pub(super) pc: u64,
    pub(super) flow: Flow,
    /// The call that it is the return of.
    pub(super) resumes: Option<u32>,
    /// Where the arguments come from.
    pub(super) arguments: Option<u64>,
}

/// rdi, rsi, rdx, rcx, r8, r9.
pub(super) const ARGUMENTS: [RegisterPart; 6] = [gpr(7), gpr(6), gpr(2), gpr(1), gpr(8), gpr(9)];

/// rax, rdx and the first vector register: what a function returns.
pub(super) static RESULT: [RegisterPart; 4] =
    [gpr(0), gpr(2), RegisterPart { granule: 16, mask: 0xff }, RegisterPart { granule: 17, mask: 0xff }];

/// All that may hold arguments.
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
/// What a call is given.
pub(super) const CALL_ARGUMENTS: u64 = 1;
/// What is passed to a callback.
pub(super) const CALLBACK_ARGUMENTS: u64 = 2;
/// What a thread is started with.
pub(super) const THREAD_ARGUMENT: u64 = 3;
/// What a thread returned.
pub(super) const THREAD_RESULT: u64 = 4;
/// What a callback returned.
pub(super) const CALLBACK_RESULT: u64 = 5;

/// Room for what a step touches, used again and again.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) touched: TouchedBytes,
    pub(super) parts: Vec<RegisterPart>,
}

impl Recording<'_> {
    /// A call of code that is not traced. What it does to memory it does when it is about to return: it may have had to
    /// wait for other threads before.
    pub(super) fn call(&self, call: &Call, step: &mut Step<'_>, scratch: &mut Scratch) {
        step.place = call.place;
        let summary = &self.names[call.name as usize].1;
        scratch.parts.clear();
        for (n, &part) in ARGUMENTS.iter().enumerate() {
            let given = n < usize::from(summary.arguments);
            if given || summary.variadic && call.set >> n & 1 == 1 {
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
        scratch.touched.writes.extend(call.ends.map(|cell| ByteSpan::new(cell, 8)));
        if self.callee(call) == "pthread_exit" {
            scratch.touched.writes.push(ByteSpan::new(cell(THREAD_RESULT, call.thread, 0), 8));
        }
    }

    /// What a call did to memory.
    fn effects(&self, call: &Call, scratch: &mut Scratch) {
        let summary = &self.names[call.name as usize].1;
        scratch.touched = summary.touched(call.arguments, call.result);
        scratch.touched.guessed = summary.quality == SummaryQuality::Unknown;
        if scratch.touched.guessed {
            // It may write where it was pointed to.
            for n in (0..6).filter(|n| call.set >> n & 1 == 1) {
                // What points to the runtime's own memory is left over from there.
                let own = 0x6000_0000_0000..0x7000_0000_0000;
                if (0x1_0000..1 << 47).contains(&call.arguments[n]) && !own.contains(&call.arguments[n]) {
                    scratch.touched.may_write.push(ByteSpan::new(call.arguments[n], 64));
                }
            }
        }
    }

    /// Control came back, or came from elsewhere: values arrive in registers.
    pub(super) fn enter(&self, entered: &EntryRecord, step: &mut Step<'_>, scratch: &mut Scratch) {
        step.flow = entered.flow;
        step.place = self.place(entered.pc).unwrap_or(InstructionIx(0));
        step.copy = true;
        if let Some(call) = entered.resumes {
            let call = &self.calls[call as usize];
            step.place = call.place;
            step.copy = false;
            step.defs = &RESULT;
            self.effects(call, scratch);
            scratch.touched.reads.push(ByteSpan::new(cell(CALL_ARGUMENTS, call.thread, call.depth), 8));
            scratch.touched.reads.push(ByteSpan::new(cell(CALLBACK_RESULT, call.thread, call.depth), 8));
            // Who does not ask for it does not get what the thread returned.
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
