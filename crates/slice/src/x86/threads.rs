//! What is known of a thread: its stack, and the calls that are under way in it.

use super::Call;

/// What is known of a thread.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadRecord {
    pub(super) open: Vec<OpenFrame>,
    pub(super) arguments_set: u8,
    pub(super) last: Option<u32>,
    /// What stubs have pushed since: the loader looks a function up when it is first called.
    pub(super) pushed: u64,
    pub(super) last_step: u64,
    pub(super) instructions: u64,
    pub(super) stack: Option<(u64, u64)>,
    pub(super) creator: Option<u32>,
    /// The stack pointers with which functions were entered from outside.
    pub(super) begins: Vec<u64>,
    /// Where it was last entered from code that nobody traced had called.
    pub(super) begun: u64,
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

    /// Calls whose stack is gone are no longer under way.
    pub(super) fn unwind(&mut self, stack: u64, calls: &[Call]) {
        while let Some(&OpenFrame::Call(call)) = self.open.last()
            && calls[call as usize].stack < stack
        {
            self.open.pop();
        }
        while self.begins.last().is_some_and(|&begun| begun < stack) {
            self.begins.pop();
        }
    }
}
