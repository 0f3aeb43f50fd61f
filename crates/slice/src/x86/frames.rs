//! Frames and registers as named by debug information.

use super::{Recording, words::WordWindow};
use crate::{Flow, History};
use unsnarl_insn::{RegisterPart, gpr, part};

/// Returns the register with a DWARF number; `None` for registers that are not followed.
#[must_use]
pub fn register(number: u16) -> Option<RegisterPart> {
    /// In DWARF order: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp.
    const FIRST: [u16; 8] = [0, 2, 1, 3, 6, 7, 5, 4];
    const XMM0: u16 = 17;
    const XMM15: u16 = XMM0 + 15;
    match number {
        0..=6 => Some(gpr(FIRST[usize::from(number)])),
        8..=15 => Some(gpr(number)),
        XMM0..=XMM15 => {
            use unsnarl_insn::iced::Register;
            part(Register::XMM0 + u32::from(number - XMM0), true).next()
        }
        _ => None,
    }
}

impl Recording<'_> {
    /// Returns the frame address of a step: the stack pointer before the call.
    #[must_use]
    pub fn frame(&self, step: u64) -> Option<u64> {
        let mut thread = None;
        // Functions that were called since and have returned.
        let mut depth = 0_u32;
        // Functions with a stack below this were called since and never returned.
        let mut unwound = 0;
        let (mut frame, mut begun) = (None, None);
        self.backwards(step, &mut |at| {
            if *thread.get_or_insert(at.thread) != at.thread {
                return true;
            }
            match at.flow {
                Flow::Return if at.number < step => depth += 1,
                Flow::Unwound { stack: Some(stack), .. } if depth == 0 => unwound = stack,
                Flow::Call(stack) if at.number < step => {
                    if depth > 0 {
                        depth -= 1;
                    } else if stack > unwound {
                        frame = Some(stack);
                    }
                }
                Flow::Begin(_) if depth == 0 => begun = Some(at.number),
                Flow::Begin(_) => depth -= 1,
                _ => {}
            }
            frame.is_none() && begun.is_none()
        });
        frame.or_else(|| self.entry_stack(begun?)?.checked_add(8))
    }

    /// Returns the stack pointer with which the traced code was entered at a step.
    fn entry_stack(&self, step: u64) -> Option<u64> {
        let (mut window, mut records) = (WordWindow::default(), Vec::new());
        let chunk = self.chunks.partition_point(|chunk| chunk.step <= step).checked_sub(1)?;
        self.records(chunk, &mut window, &mut records);
        let record = records.iter().find(|record| record.at.step == step)?;
        window.from(record.at.word).get(1).copied()
    }
}
