//! The proof that a thread waits: it is stepped through its code until it is in the same state again.
//!
//! The state is the general and vector registers and all memory that the thread writes on the way. If all of it is as it
//! was, and no system call and no instruction with another effect was executed, the thread repeats itself until another
//! thread writes what it reads. Values that it writes again and again, such as return addresses, do not matter.

use crate::sys;
use core::cell::UnsafeCell;
use unsnarl_insn::iced::{Code, Instruction, InstructionInfoFactory, OpAccess, Register};

const TRAP_FLAG: i64 = 1 << 8;
/// The processor's flag for the end of a trap, which is no state of the program.
const RESUME_FLAG: i64 = 1 << 16;
/// The general registers, the instruction pointer and the flags.
const REGISTERS: usize = libc::REG_EFL as usize + 1;
/// The words of the legacy floating-point and vector state that hold registers.
const VECTOR_WORDS: usize = 416 / 4;

/// The maximum number of steps to the program's code, and of a loop.
const MAX_STEPS: u32 = 20_000;
/// The maximum number of different words that a loop writes.
const MAX_WRITES: usize = 64;
/// The maximum size of one write in bytes.
const MAX_WRITE: usize = 64;

/// The state of the proof after one more instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Continue,
    /// The thread does something that does not repeat itself, or not soon.
    Refuted,
    /// The thread waits, in a loop of the program that begins at this address.
    Waits {
        start: u64,
    },
}

/// A proof in progress.
struct Proof {
    is_running: bool,
    steps: u32,
    /// The state at which the loop is entered; `None` until the thread is in the program's code.
    start: Option<State>,
    /// The lowest address of the program's code in the outermost frame of the loop, and that frame's stack pointer.
    lowest: u64,
    frame: i64,
    writes: [(usize, u64); MAX_WRITES],
    write_count: usize,
    factory: Option<InstructionInfoFactory>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct State {
    registers: [i64; REGISTERS],
    vectors: [u32; VECTOR_WORDS],
}

struct ProofCell(UnsafeCell<Proof>);

// SAFETY: reached only by handlers on the running thread that do not interrupt each other.
unsafe impl Sync for ProofCell {}

static PROOF: ProofCell = ProofCell(UnsafeCell::new(Proof {
    is_running: false,
    steps: 0,
    start: None,
    lowest: u64::MAX,
    frame: 0,
    writes: [(0, 0); MAX_WRITES],
    write_count: 0,
    factory: None,
}));

fn proof() -> &'static mut Proof {
    // SAFETY: see above; callers do not keep the reference.
    unsafe { &mut *PROOF.0.get() }
}

/// Returns whether the thread is being stepped.
pub(crate) fn is_running() -> bool {
    proof().is_running
}

/// Begins: the interrupted code traps after its next instruction.
pub(crate) fn begin(registers: &mut libc::mcontext_t) {
    let proof = proof();
    (proof.is_running, proof.steps, proof.start, proof.write_count) = (true, 0, None, 0);
    (proof.lowest, proof.frame) = (u64::MAX, 0);
    registers.gregs[libc::REG_EFL as usize] |= TRAP_FLAG;
}

/// Ends, whatever was found.
pub(crate) fn end(registers: &mut libc::mcontext_t) {
    proof().is_running = false;
    registers.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG;
}

/// Looks at the state before the next instruction.
pub(crate) fn step(
    registers: &mut libc::mcontext_t,
    is_program: impl FnOnce(u64) -> bool,
    decode: impl FnOnce(u64) -> Option<Instruction>,
) -> Step {
    let proof = proof();
    proof.steps += 1;
    let pc = registers.gregs[libc::REG_RIP as usize] as u64;
    if proof.steps > MAX_STEPS {
        return Step::Refuted;
    }
    let in_program = is_program(pc);
    let state = match proof.start {
        // Before the thread is in the program, only the traps are taken: this code may be in the middle of anything. It
        // may also be about to create a thread, which would inherit the trap flag.
        None if !in_program => {
            return if decode(pc).is_some_and(|next| !is_system_call(&next)) {
                Step::Continue
            } else {
                Step::Refuted
            };
        }
        None => {
            proof.start = Some(State::of(registers));
            proof.steps = 0;
            proof.factory.get_or_insert_with(InstructionInfoFactory::new);
            None
        }
        Some(start) if start.registers[libc::REG_RIP as usize] as u64 == pc => Some(start),
        Some(_) => None,
    };
    let frame = registers.gregs[libc::REG_RSP as usize];
    if in_program && frame >= proof.frame {
        // Functions that the loop calls, and the stubs that lead to libraries, are not where it begins.
        proof.lowest = if frame > proof.frame { pc } else { proof.lowest.min(pc) };
        proof.frame = frame;
    }
    if state.is_some_and(|start| start == State::of(registers)) && proof.memory_is_the_same() {
        return Step::Waits { start: proof.lowest };
    }
    match decode(pc) {
        Some(instruction) if proof.note_writes(&instruction, registers) => Step::Continue,
        _ => Step::Refuted,
    }
}

/// Returns whether the instruction enters the kernel, which must not happen while traps are on.
pub(crate) fn is_system_call(instruction: &Instruction) -> bool {
    instruction.code() == Code::Syscall
}

impl State {
    fn of(context: &libc::mcontext_t) -> Self {
        let mut state = Self { registers: [0; REGISTERS], vectors: [0; VECTOR_WORDS] };
        for (to, from) in state.registers.iter_mut().zip(&context.gregs) {
            *to = *from;
        }
        state.registers[libc::REG_EFL as usize] &= !(TRAP_FLAG | RESUME_FLAG);
        if !context.fpregs.is_null() {
            // SAFETY: the kernel's copy, which begins with these words.
            state.vectors = unsafe { *context.fpregs.cast::<[u32; VECTOR_WORDS]>() };
        }
        state
    }
}

impl Proof {
    fn memory_is_the_same(&self) -> bool {
        self.writes[..self.write_count].iter().all(|&(at, before)| word(at) == Some(before))
    }

    /// Notes what the instruction is about to overwrite; returns false if it has other effects.
    fn note_writes(&mut self, instruction: &Instruction, context: &libc::mcontext_t) -> bool {
        if has_other_effects(instruction) {
            return false;
        }
        let Self { factory: Some(factory), writes, write_count, .. } = self else { return false };
        for memory in factory.info(instruction).used_memory() {
            if matches!(
                memory.access(),
                OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
            ) {
                continue;
            }
            let value = |register: Register, _, _| register_value(register, context);
            let (Some(at), size) = (memory.virtual_address(0, value), memory.memory_size().size()) else {
                return false;
            };
            if size == 0 || size > MAX_WRITE {
                return false;
            }
            let (first, last) = (at & !7, at.wrapping_add(size as u64 - 1) & !7);
            for place in (first..=last).step_by(8) {
                let place = place as usize;
                if writes[..*write_count].iter().any(|&(noted, _)| noted == place) {
                    continue;
                }
                let Some(before) = word(place).filter(|_| *write_count < MAX_WRITES) else { return false };
                writes[*write_count] = (place, before);
                *write_count += 1;
            }
        }
        true
    }
}

/// Returns whether an instruction does more than change registers and memory, or would show that it is stepped.
fn has_other_effects(instruction: &Instruction) -> bool {
    use unsnarl_insn::iced::Mnemonic as M;
    let by_string = instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
    by_string
        || instruction.is_invalid()
        || instruction.code() == Code::INVALID
        || instruction.is_privileged()
        || matches!(
            instruction.mnemonic(),
            M::Syscall
                | M::Sysenter
                | M::Int
                | M::Int1
                | M::Int3
                | M::Iretq
                | M::Hlt
                | M::Ud2
                | M::Pushfq
                | M::Popfq
                | M::Rdrand
                | M::Rdseed
                | M::Xbegin
                | M::Xsave
                | M::Xsavec
                | M::Fxsave
        )
}

fn register_value(register: Register, context: &libc::mcontext_t) -> Option<u64> {
    let gregs = |at: i32| Some(context.gregs[at as usize] as u64);
    match register.full_register() {
        Register::RAX => gregs(libc::REG_RAX),
        Register::RCX => gregs(libc::REG_RCX),
        Register::RDX => gregs(libc::REG_RDX),
        Register::RBX => gregs(libc::REG_RBX),
        Register::RSP => gregs(libc::REG_RSP),
        Register::RBP => gregs(libc::REG_RBP),
        Register::RSI => gregs(libc::REG_RSI),
        Register::RDI => gregs(libc::REG_RDI),
        Register::R8 => gregs(libc::REG_R8),
        Register::R9 => gregs(libc::REG_R9),
        Register::R10 => gregs(libc::REG_R10),
        Register::R11 => gregs(libc::REG_R11),
        Register::R12 => gregs(libc::REG_R12),
        Register::R13 => gregs(libc::REG_R13),
        Register::R14 => gregs(libc::REG_R14),
        Register::R15 => gregs(libc::REG_R15),
        // Segments: flat, except for thread-local storage.
        Register::DS | Register::ES | Register::SS | Register::CS => Some(0),
        Register::FS => Some(sys::thread_pointer() as u64),
        _ => None,
    }
}

/// Reads a word, if it is readable.
fn word(at: usize) -> Option<u64> {
    let mut value = 0u64;
    // SAFETY: there is room for the word; an unreadable one is not copied.
    let read = unsafe { sys::copy_memory(at, &raw mut value as usize, size_of::<u64>()) };
    (read == size_of::<u64>()).then_some(value)
}
