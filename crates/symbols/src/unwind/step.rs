//! One unwinding step, from a frame to its caller.

use super::{Registers, StackCopy};
use gimli::{Register, X86_64};

/// The result of one step.
pub(super) enum UnwindStep {
    /// The caller, about to continue after its call.
    Caller(FrameRegisters),
    /// The code that a signal interrupted, exactly at that instruction.
    Interrupted(FrameRegisters),
    /// This frame has no caller.
    End,
}

/// The registers of one frame, by DWARF number; `None` if a value was lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRegisters([Option<u64>; 17]);

impl FrameRegisters {
    pub(super) fn new(regs: &Registers) -> Self {
        let mut registers = Self([None; 17]);
        for (register, value) in [
            (X86_64::RA, regs.rip),
            (X86_64::RSP, regs.rsp),
            (X86_64::RBP, regs.rbp),
            (X86_64::RBX, regs.rbx),
            (X86_64::R12, regs.r12),
            (X86_64::R13, regs.r13),
            (X86_64::R14, regs.r14),
            (X86_64::R15, regs.r15),
        ] {
            registers.set(register, Some(value));
        }
        registers
    }

    /// Iterates over all register numbers.
    pub(super) fn registers() -> impl Iterator<Item = Register> {
        (0..17).map(Register)
    }

    pub(super) fn get(&self, register: Register) -> Option<u64> {
        self.0.get(usize::from(register.0)).copied().flatten()
    }

    pub(super) fn set(&mut self, register: Register, value: Option<u64>) {
        if let Some(slot) = self.0.get_mut(usize::from(register.0)) {
            *slot = value;
        }
    }

    /// Returns the instruction pointer in this frame; 0 if it is unknown.
    pub(super) fn rip(&self) -> u64 {
        self.get(X86_64::RA).unwrap_or(0)
    }

    /// Returns the caller of code that has pushed nothing: the return address is on top of the stack.
    pub(super) fn pop(&self, stack: &StackCopy) -> Option<Self> {
        let rsp = self.get(X86_64::RSP)?;
        let mut caller = *self;
        caller.set(X86_64::RA, Some(stack.word(rsp)?));
        caller.set(X86_64::RSP, Some(rsp.wrapping_add(8)));
        Some(caller)
    }

    /// Returns the caller of code that has set up a frame pointer.
    pub(super) fn by_frame_pointer(&self, stack: &StackCopy) -> Option<Self> {
        let rbp = self.get(X86_64::RBP)?;
        // The stack grows down, so a caller's frame is above. Anything else is no frame pointer.
        if rbp < self.get(X86_64::RSP)? || rbp % 8 != 0 {
            return None;
        }
        let mut caller = *self;
        caller.set(X86_64::RA, Some(stack.word(rbp.wrapping_add(8))?));
        caller.set(X86_64::RBP, Some(stack.word(rbp)?));
        caller.set(X86_64::RSP, Some(rbp.wrapping_add(16)));
        Some(caller)
    }

    /// Returns the code that a signal interrupted, if this is the kernel's frame: a `ucontext` on top of the
    /// stack, with its registers in the order of `<sys/ucontext.h>`.
    pub(super) fn by_signal_frame(&self, stack: &StackCopy) -> Option<Self> {
        const GREGS: u64 = 40;
        const SAVED: [Register; 17] = [
            X86_64::R8,
            X86_64::R9,
            X86_64::R10,
            X86_64::R11,
            X86_64::R12,
            X86_64::R13,
            X86_64::R14,
            X86_64::R15,
            X86_64::RDI,
            X86_64::RSI,
            X86_64::RBP,
            X86_64::RBX,
            X86_64::RDX,
            X86_64::RAX,
            X86_64::RCX,
            X86_64::RSP,
            X86_64::RA,
        ];
        let gregs = self.get(X86_64::RSP)?.wrapping_add(GREGS);
        let mut before = Self([None; 17]);
        for (nth, register) in (0..).zip(SAVED) {
            before.set(register, Some(stack.word(gregs.wrapping_add(8 * nth))?));
        }
        Some(before)
    }
}
