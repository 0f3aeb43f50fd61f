//! Loops that only wait, and loops that depend on nothing but registers and memory.

use alloc::{vec, vec::Vec};
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess};

/// The maximum number of instructions of a loop; most have a handful.
const MAX_LOOP_LENGTH: usize = 64;

/// Returns the start of the wait loop at an address: control can return there by instructions that change
/// only general registers and flags, write no memory, and make no calls or system calls; at least one of them
/// reads memory. If the registers are the same each time, such a loop runs until another thread writes what
/// it reads.
pub fn wait_loop_at(pc: u64, decode: impl FnMut(u64) -> Option<Instruction>) -> Option<u64> {
    let (start, reads) = loop_at(pc, decode, changes_registers_only)?;
    reads.then_some(start)
}

/// Returns the start of the loop at an address: control can return there by instructions whose effect depends only
/// on registers and memory, without calls and system calls.
pub fn closed_loop_at(pc: u64, decode: impl FnMut(u64) -> Option<Instruction>) -> Option<u64> {
    loop_at(pc, decode, |instruction, _| depends_on_state_only(instruction)).map(|(start, _)| start)
}

/// Returns the start of the loop at an address, and whether it reads memory. Only paths of acceptable instructions
/// are followed, and no calls.
fn loop_at(
    pc: u64,
    mut decode: impl FnMut(u64) -> Option<Instruction>,
    accepts: impl Fn(&Instruction, &mut InstructionInfoFactory) -> bool,
) -> Option<(u64, bool)> {
    let mut factory = InstructionInfoFactory::new();
    // Instructions, whether they read memory, and the predecessor by which each was reached.
    let mut seen: Vec<(u64, bool, usize)> = Vec::new();
    let mut ahead = vec![(pc, 0)];
    while let Some((at, before)) = ahead.pop() {
        if seen.iter().any(|&(met, ..)| met == at) {
            continue;
        }
        let Some(instruction) = decode(at).filter(|_| seen.len() < MAX_LOOP_LENGTH) else { continue };
        if !accepts(&instruction, &mut factory) {
            continue;
        }
        let this = seen.len();
        seen.push((at, !factory.info(&instruction).used_memory().is_empty(), before));
        let (next, target) = (instruction.next_ip(), instruction.near_branch_target());
        let (successors, count) = match instruction.flow_control() {
            FlowControl::Next => ([next, 0], 1),
            FlowControl::UnconditionalBranch => ([target, 0], 1),
            FlowControl::ConditionalBranch => ([next, target], 2),
            _ => continue,
        };
        if successors[..count].contains(&pc) {
            return Some(loop_start(&seen, this));
        }
        ahead.extend(successors[..count].iter().map(|&successor| (successor, this)));
    }
    None
}

/// Returns the lowest address of the loop that ends with this instruction, and whether it reads memory.
fn loop_start(seen: &[(u64, bool, usize)], last: usize) -> (u64, bool) {
    let (mut lowest, mut reads, mut at) = (u64::MAX, false, last);
    loop {
        let (pc, reads_here, before) = seen[at];
        lowest = lowest.min(pc);
        reads |= reads_here;
        if at == 0 {
            return (lowest, reads);
        }
        at = before;
    }
}

fn depends_on_state_only(instruction: &Instruction) -> bool {
    !instruction.is_invalid()
        && !matches!(
            instruction.mnemonic(),
            Mnemonic::Rdtsc | Mnemonic::Rdtscp | Mnemonic::Rdrand | Mnemonic::Rdseed | Mnemonic::Rdpid
        )
}

fn changes_registers_only(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> bool {
    let reads = |access| {
        matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
    };
    let info = factory.info(instruction);
    !instruction.is_invalid()
        && info.used_memory().iter().all(|memory| reads(memory.access()))
        && info.used_registers().iter().all(|used| reads(used.access()) || used.register().is_gpr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    /// Returns whether there is a wait loop at the beginning of this code.
    fn wait_loops(code: &[u8]) -> bool {
        begins(code, 0x1000).is_some()
    }

    fn begins(code: &[u8], at: u64) -> Option<u64> {
        wait_loop_at(at, |pc| {
            let rest = code.get(usize::try_from(pc.checked_sub(0x1000)?).ok()?..)?;
            (!rest.is_empty()).then(|| Decoder::with_ip(64, rest, pc, DecoderOptions::NONE).decode())
        })
    }

    fn closed_loops(code: &[u8]) -> bool {
        closed_loop_at(0x1000, |pc| {
            let rest = code.get(usize::try_from(pc.checked_sub(0x1000)?).ok()?..)?;
            (!rest.is_empty()).then(|| Decoder::with_ip(64, rest, pc, DecoderOptions::NONE).decode())
        })
        .is_some()
    }

    #[test]
    fn closed_loop_may_write_but_not_call() {
        assert!(closed_loops(&[0xeb, 0xfe]), "jmp $");
        assert!(
            closed_loops(&[0x83, 0x45, 0xfc, 0x01, 0x83, 0x7d, 0xfc, 0x63, 0x7e, 0xf6, 0xc3]),
            "add; jle"
        );
        assert!(!closed_loops(&[0xe8, 0, 0, 0, 0, 0x85, 0xc0, 0x74, 0xf7]), "call; test; je");
        assert!(!closed_loops(&[0x0f, 0x05, 0xeb, 0xfc]), "syscall; jmp");
        assert!(!closed_loops(&[0x0f, 0x31, 0xeb, 0xfc]), "rdtsc; jmp");
        assert!(!closed_loops(&[0x90, 0xc3]), "nop; ret");
    }

    #[test]
    fn loop_that_reads_a_flag_is_a_wait_loop() {
        assert!(
            wait_loops(&[0x8b, 0x05, 0, 0, 0, 0, 0x85, 0xc0, 0x74, 0xf6, 0xc3]),
            "mov eax, [flag]; test eax, eax; je"
        );
        assert!(
            wait_loops(&[0xf3, 0x90, 0x8b, 0x07, 0x85, 0xc0, 0x75, 0x02, 0xeb, 0xf6, 0xc3]),
            "pause; …; jne out; jmp"
        );
    }

    #[test]
    fn wait_loop_start_is_independent_of_entry_point() {
        let code = [0x8b, 0x05, 0, 0, 0, 0, 0x85, 0xc0, 0x74, 0xf6, 0xc3];
        for at in [0x1000, 0x1006, 0x1008] {
            assert_eq!(begins(&code, at), Some(0x1000));
        }
    }

    #[test]
    fn computing_loop_is_not_a_wait_loop() {
        assert!(
            !wait_loops(&[0x83, 0x45, 0xfc, 0x01, 0x83, 0x7d, 0xfc, 0x63, 0x7e, 0xf6, 0xc3]),
            "add [rbp-4], 1; cmp …; jle"
        );
        assert!(
            !wait_loops(&[0xf2, 0x0f, 0x58, 0xc1, 0x66, 0x0f, 0x2e, 0xc2, 0x76, 0xf6, 0xc3]),
            "addsd; ucomisd; jbe"
        );
        assert!(!wait_loops(&[0xe8, 0, 0, 0, 0, 0x85, 0xc0, 0x74, 0xf7]), "call; test; je");
        assert!(!wait_loops(&[0x0f, 0x05, 0xeb, 0xfc]), "syscall; jmp");
        assert!(!wait_loops(&[0xf0, 0x0f, 0xb1, 0x0f, 0x75, 0xfa]), "lock cmpxchg [rdi], ecx; jne");
        assert!(!wait_loops(&[0x90, 0xc3]), "nop; ret");
        assert!(!wait_loops(&[0xeb, 0xfe]), "jmp $ reads nothing that could change");
    }
}
