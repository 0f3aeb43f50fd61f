//! Stores of a part of a word: of a bit-field.

use alloc::vec::Vec;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory};

/// The maximum number of instructions before the store.
const MAX_DISTANCE: usize = 24;

/// Returns whether the first store after an address keeps a part of what it overwrites: the code there loads
/// the same place, changes some bits, and stores it again. `size` is the size of the whole access in bytes.
pub fn is_partial_store(pc: u64, size: usize, mut decode: impl FnMut(u64) -> Option<Instruction>) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let mut read: Vec<UsedMemory> = Vec::new();
    let mut at = pc;
    for _ in 0..MAX_DISTANCE {
        let Some(instruction) = decode(at).filter(|i| !i.is_invalid()) else { return false };
        if instruction.flow_control() != FlowControl::Next {
            return false;
        }
        for memory in factory.info(&instruction).used_memory() {
            let loads = matches!(memory.access(), OpAccess::ReadWrite | OpAccess::ReadCondWrite);
            let is_load = matches!(memory.access(), OpAccess::Read | OpAccess::CondRead);
            let is_spill = memory.base() == Register::RSP;
            if is_load {
                read.push(*memory);
            } else if memory.access() != OpAccess::NoMemAccess && !is_spill {
                let width = memory.memory_size().size();
                return width <= size && (loads || read.iter().any(|earlier| is_same_place(earlier, memory)));
            }
        }
        at = instruction.next_ip();
    }
    false
}

fn is_same_place(a: &UsedMemory, b: &UsedMemory) -> bool {
    (a.segment(), a.base(), a.index(), a.scale(), a.displacement(), a.memory_size().size())
        == (b.segment(), b.base(), b.index(), b.scale(), b.displacement(), b.memory_size().size())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn is_partial(code: &[u8], size: usize) -> bool {
        is_partial_store(0x1000, size, |pc| {
            let rest = code.get(usize::try_from(pc.checked_sub(0x1000)?).ok()?..)?;
            (!rest.is_empty()).then(|| Decoder::with_ip(64, rest, pc, DecoderOptions::NONE).decode())
        })
    }

    #[test]
    fn store_of_a_bit_field_is_partial() {
        assert!(is_partial(&[0x80, 0x0b, 0x01, 0xc3], 1), "or byte [rbx], 1");
        assert!(
            is_partial(&[0x8a, 0x03, 0x83, 0xe0, 0xf8, 0x83, 0xc8, 0x05, 0x88, 0x03, 0xc3], 1),
            "mov al, [rbx]; and eax, -8; or eax, 5; mov [rbx], al"
        );
        assert!(
            is_partial(&[0x48, 0x8b, 0x45, 0xf8, 0x0f, 0xb6, 0x10, 0x83, 0xca, 0x01, 0x88, 0x10, 0xc3], 1),
            "mov rax, [rbp-8]; movzx edx, byte [rax]; or edx, 1; mov [rax], dl"
        );
        assert!(is_partial(&[0x80, 0x4b, 0x01, 0x01, 0xc3], 4), "a part of a wider word");
    }

    #[test]
    fn store_of_a_whole_variable_is_not_partial() {
        assert!(!is_partial(&[0x89, 0x2b, 0xc3], 4), "mov [rbx], ebp");
        assert!(
            !is_partial(&[0x48, 0x8b, 0x45, 0xf8, 0xc7, 0x00, 1, 0, 0, 0, 0xc3], 4),
            "mov rax, [rbp-8]; mov dword [rax], 1"
        );
        assert!(!is_partial(&[0xc6, 0x03, 0x01, 0x83, 0x45, 0xfc, 0x01, 0xc3], 1), "another place later");
        assert!(!is_partial(&[0xe8, 0, 0, 0, 0, 0x80, 0x0b, 0x01], 1), "after another call");
        assert!(!is_partial(&[0x01, 0x2b, 0xc3], 2), "a wider store than was announced");
    }
}
