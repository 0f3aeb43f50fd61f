//! The extent of a block of instructions.

use iced_x86::{FlowControl, Instruction, Mnemonic};

/// Returns the successor of an instruction if the code alone determines it: the next one, or the target of a
/// jump or call. A block may continue there; it ends where there is a choice.
#[must_use]
pub fn static_successor(instruction: &Instruction) -> Option<u64> {
    match instruction.flow_control() {
        FlowControl::Next
        | FlowControl::Interrupt
        | FlowControl::Exception
        | FlowControl::XbeginXabortXend => Some(instruction.next_ip()),
        // The decoder classifies `syscall` as a call.
        FlowControl::Call if instruction.mnemonic() != Mnemonic::Call => Some(instruction.next_ip()),
        FlowControl::Call | FlowControl::UnconditionalBranch => {
            Some(instruction.near_branch_target()).filter(|target| *target != 0)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn of(code: &[u8]) -> Option<u64> {
        static_successor(&Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).decode())
    }

    #[test]
    fn direct_jumps_and_calls_have_static_successors() {
        assert_eq!(of(&[0x90]), Some(0x1001));
        assert_eq!(of(&[0x0f, 0x05]), Some(0x1002), "syscall");
        assert_eq!(of(&[0xeb, 0x10]), Some(0x1012), "jmp");
        assert_eq!(of(&[0xe8, 0, 1, 0, 0]), Some(0x1105), "call");
        assert_eq!(of(&[0x74, 0x10]), None, "je");
        assert_eq!(of(&[0xff, 0xe0]), None, "jmp rax");
        assert_eq!(of(&[0xff, 0xd0]), None, "call rax");
        assert_eq!(of(&[0xc3]), None, "ret");
    }
}
