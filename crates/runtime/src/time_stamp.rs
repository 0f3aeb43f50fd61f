//! The processor's time-stamp counter, in virtual time.
//!
//! Programs read it to measure short times, and decide by it: libzmq looks for commands only every millisecond. The kernel
//! can make the instructions that read it fault, and the handler answers them. The kernel's own code in the process (the
//! vdso) gets the real counter, from which it computes the real time.
//!
//! Forks inherit the setting, and `exec` keeps it, so it is removed before a child or a new program runs. It is not used
//! under a debugger, which would stop at each fault.

use crate::{debug, state::Runtime, sys, watchdog};
use core::{
    arch::x86_64::_rdtsc,
    sync::atomic::{AtomicBool, Ordering},
};

const PR_SET_TSC: usize = 26;
const PR_TSC_ENABLE: usize = 1;
const PR_TSC_SIGSEGV: usize = 2;

/// True if the instructions are to fault.
static FAULTS: AtomicBool = AtomicBool::new(false);

fn set(mode: usize) -> bool {
    // SAFETY: the fault is handled by `answer`.
    unsafe { sys::call(libc::SYS_prctl, [PR_SET_TSC, mode, 0, 0, 0, 0]) == 0 }
}

/// Makes the instructions fault from now on, if the kernel allows it. The handler of the fault is installed.
pub(crate) fn start() {
    if !debug::is_on() && set(PR_TSC_SIGSEGV) {
        FAULTS.store(true, Ordering::Relaxed);
    }
}

/// Lets the program, and what it starts, read the real counter from now on.
pub(crate) fn stop() {
    if FAULTS.swap(false, Ordering::Relaxed) {
        set(PR_TSC_ENABLE);
    }
}

/// Runs a job that starts a program, which inherits the setting.
pub(crate) fn without_faults<T>(job: impl FnOnce() -> T) -> T {
    let faults = FAULTS.load(Ordering::Relaxed);
    if faults {
        set(PR_TSC_ENABLE);
    }
    let result = job();
    if faults {
        set(PR_TSC_SIGSEGV);
    }
    result
}

/// An instruction that reads the counter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CounterRead {
    Rdtsc,
    /// Also reads the number of the processor.
    Rdtscp,
}

impl CounterRead {
    /// Returns the instruction at an address, if it is one of these.
    fn at(pc: usize) -> Option<Self> {
        let mut code = [0u8; 3];
        // SAFETY: there is room for so many bytes; unreadable ones are not copied.
        unsafe { sys::copy_memory(pc, code.as_mut_ptr() as usize, code.len()) };
        match code {
            [0x0f, 0x31, _] => Some(Self::Rdtsc),
            [0x0f, 0x01, 0xf9] => Some(Self::Rdtscp),
            _ => None,
        }
    }

    const fn length(self) -> i64 {
        match self {
            Self::Rdtsc => 2,
            Self::Rdtscp => 3,
        }
    }
}

/// Executes the interrupted instruction if it reads the counter; returns whether it did. `code` is the signal's.
pub(crate) fn answer(signal: i32, code: i32, context: &mut libc::ucontext_t) -> bool {
    /// The code of faults that are no wrong accesses.
    const SI_KERNEL: i32 = 0x80;
    if signal != libc::SIGSEGV || code != SI_KERNEL {
        return false;
    }
    let pc = context.uc_mcontext.gregs[libc::REG_RIP as usize];
    let Some(instruction) = CounterRead::at(pc as usize) else { return false };
    if !FAULTS.load(Ordering::Relaxed) {
        // Another kernel thread has ended it; this one executes the instruction again.
        return set(PR_TSC_ENABLE);
    }
    // The trap after this instruction does not come, so a proof would miss a step.
    watchdog::abandon_proof(&mut context.uc_mcontext);
    let ticks = match Runtime::enter() {
        Some(runtime) if !is_kernel_code(pc as usize) => runtime.state.clock.read_counter(),
        // SAFETY: the instruction does not fault now.
        _ => without_faults(|| unsafe { _rdtsc() }),
    };
    let registers = &mut context.uc_mcontext.gregs;
    registers[libc::REG_RAX as usize] = (ticks & u64::from(u32::MAX)) as i64;
    registers[libc::REG_RDX as usize] = (ticks >> 32) as i64;
    if instruction == CounterRead::Rdtscp {
        // The program runs on processor 0.
        registers[libc::REG_RCX as usize] = 0;
    }
    registers[libc::REG_RIP as usize] += instruction.length();
    true
}

/// Returns whether an address is in the code that the kernel maps into every process.
fn is_kernel_code(pc: usize) -> bool {
    const SIZE: usize = 4 * 4096;
    // SAFETY: only reads the auxiliary vector.
    let start = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    start != 0 && (start..start + SIZE).contains(&pc)
}
