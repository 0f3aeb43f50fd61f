//! The state of a thread: its stack and the calls in progress.

use super::Call;

#[derive(Clone, Debug, Default)]
pub(super) struct ThreadRecord {
    pub(super) open: Vec<OpenFrame>,
    pub(super) arguments_set: u8,
    pub(super) last: Option<u32>,
    /// Bytes pushed by stubs since: the loader resolves a function on its first call.
    pub(super) pushed: u64,
    pub(super) last_step: u64,
    pub(super) instructions: u64,
    pub(super) stack: Option<(u64, u64)>,
    pub(super) creator: Option<u32>,
    /// The stack pointers with which functions were entered from untraced code.
    pub(super) entry_stacks: Vec<u64>,
    /// The function by which it was last entered from code that no traced code had called.
    pub(super) entry_function: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum OpenFrame {
    Call(u32),
    Signal { pc: u64, stack: u64, begun: bool },
}

impl ThreadRecord {
    pub(super) fn note_stack(&mut self, stack: u64) {
        let (low, high) = self.stack.unwrap_or((stack, stack));
        // A handler may have a stack of its own, far away.
        if stack.abs_diff(high) < 64 << 20 {
            self.stack = Some((low.min(stack), high.max(stack)));
        }
    }

    /// Removes calls whose stack is gone.
    pub(super) fn unwind(&mut self, stack: u64, calls: &[Call]) {
        while let Some(&OpenFrame::Call(call)) = self.open.last()
            && calls[call as usize].stack < stack
        {
            self.open.pop();
        }
        while self.entry_stacks.last().is_some_and(|&entry| entry < stack) {
            self.entry_stacks.pop();
        }
    }
}
