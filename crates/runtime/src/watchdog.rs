//! The watchdog for waiting loops without schedule points: a thread that waits for a plain variable there
//! keeps all others from changing it.
//!
//! The controller notices that the program runs without events, and sends a signal every few milliseconds.
//! Each signal samples the registers. In a loop that only waits, the same values recur at the same
//! instruction, and nothing in the loop changes anything else; a computation has changing values, or writes.
//! A thread that is found waiting yields, by an event like that of `sched_yield`, from inside a handler on
//! its own stack. In a replay it waits in the same loop, because no other thread runs, until it is found
//! again.
//!
//! Only the program's code is interrupted this way, never the C library, which may hold a lock that is not
//! modelled.

use crate::{context::ThreadBackend, state::Runtime, sys};
use core::{arch::naked_asm, cell::UnsafeCell};
use unsnarl_insn::{
    iced::{Decoder, DecoderOptions, Instruction},
    wait_loop_at,
};
use unsnarl_model::{Flags, Misuse, Op};
use unsnarl_wire::SPIN_CHECK_SIGNAL;

/// The number of equal samples by which a waiting loop is recognised.
const MIN_REPEATS: usize = 3;
/// The number of remembered samples.
const SAMPLES: usize = 256;

/// The samples since the last event.
struct SampleHistory {
    event: u64,
    count: usize,
    registers: [u64; SAMPLES],
}

struct HistoryCell(UnsafeCell<SampleHistory>);

// SAFETY: only the running thread reaches it, in a handler that does not interrupt itself.
unsafe impl Sync for HistoryCell {}

static HISTORY: HistoryCell =
    HistoryCell(UnsafeCell::new(SampleHistory { event: 0, count: 0, registers: [0; SAMPLES] }));

/// The stack needed for the kernel's signal frame and the handler.
const MIN_STACK: usize = 32 << 10;

/// Installs the handler of the controller's signal, which the C library reserves when it creates its first
/// thread; before that no thread waits for another. The handler runs on the signal stack: the thread's may be
/// exhausted.
pub(crate) fn install() {
    // All signals are blocked meanwhile, so that the time-limit signal reports the program's location and not
    // this handler's.
    install_handler(check_trampoline, libc::SA_ONSTACK, !0);
}

fn install_handler(entry: unsafe extern "C" fn(), more: i32, mask: u64) {
    unsafe extern "C" {
        fn unsnarl_return_from_signal();
    }
    /// The kernel's layout: handler, flags, return trampoline, mask.
    #[repr(C)]
    struct Action(usize, usize, usize, u64);
    const SA_RESTORER: i32 = 0x0400_0000;
    let flags = libc::SA_SIGINFO | libc::SA_RESTART | SA_RESTORER | more;
    let action = Action(
        entry as *const () as usize,
        flags as usize,
        unsnarl_return_from_signal as *const () as usize,
        mask,
    );
    let args = [SPIN_CHECK_SIGNAL as usize, &raw const action as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the handler has the required signature and returns through the runtime's sigreturn, which is
    // never dispatched.
    unsafe { sys::call(libc::SYS_rt_sigaction, args) };
}

#[unsafe(naked)]
unsafe extern "C" fn check_trampoline() {
    naked_asm!("mov rdi, rdx", "jmp {}", sym check_for_spin)
}

#[unsafe(naked)]
unsafe extern "C" fn yield_trampoline() {
    naked_asm!("mov rdi, rdx", "jmp {}", sym yield_to_others)
}

/// Samples the running thread. If it waits for others, it gets the signal once more, on its own stack, where
/// it can stay while they run: as soon as this handler has returned, before its next instruction.
unsafe extern "C" fn check_for_spin(context: *mut libc::ucontext_t) {
    let Some(runtime) = Runtime::enter() else { return };
    // SAFETY: the kernel's description of the interrupted context.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let [pc, sp] = [libc::REG_RIP, libc::REG_RSP].map(|register| registers[register as usize] as u64);
    let state = &mut runtime.state;
    let divisible = state.undivided == 0 && state.me().undivided == 0 && !state.muted && !state.picked;
    let threads =
        state.live > 1 && state.backend() == ThreadBackend::Fibers && state.log.header().plan.traced == 0;
    if !divisible || !threads || !state.modules.is_program(pc) {
        return;
    }
    let general = &registers[..=libc::REG_EFL as usize];
    let hash = general
        .iter()
        .fold(0u64, |hash, &value| (hash.rotate_left(5) ^ value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let waits = was_seen_repeatedly(state.log.count(), hash) && wait_loop_at(pc, instruction).is_some();
    if waits && sys::is_readable((sp as usize).saturating_sub(MIN_STACK)) {
        // The controller's next signal may be pending: it must not make the thread yield twice.
        install_handler(yield_trampoline, 0, 0);
        let [process, thread] = [libc::SYS_getpid, libc::SYS_gettid].map(|number| {
            // SAFETY: no arguments, no effect.
            unsafe { sys::call(number, [0; 6]) as usize }
        });
        // SAFETY: a signal to this thread; it is pending until this handler returns.
        unsafe { sys::call(libc::SYS_tgkill, [process, thread, SPIN_CHECK_SIGNAL as usize, 0, 0, 0]) };
    }
}

/// Yields to other threads.
unsafe extern "C-unwind" fn yield_to_others(context: *mut libc::ucontext_t) {
    install();
    let check_signal = 1u64 << (SPIN_CHECK_SIGNAL - 1);
    let args = [libc::SIG_UNBLOCK as usize, &raw const check_signal as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the other threads are sampled while this one stays here; the handler for that is installed.
    unsafe { sys::call(libc::SYS_rt_sigprocmask, args) };
    let Some(runtime) = Runtime::enter() else { return };
    // SAFETY: the kernel's description of the interrupted context.
    let pc = unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] } as u64;
    let state = &mut runtime.state;
    // The interrupted instruction differs each time, so the loop's start is reported.
    let loop_start = wait_loop_at(pc, instruction).unwrap_or(pc);
    state.warn(
        Misuse::NotModelled,
        loop_start + 1,
        0,
        "spins without a schedule point; preempted by the watchdog",
    );
    // For the same reason the event is logged at the thread's last operation.
    let last = state.me().pending.pc;
    runtime.turn(Op::Yield, 0, last);
    runtime.log(Op::Yield, Flags::NONE, last, 0, 0);
}

/// Decodes the instruction at an address, if it is readable.
fn instruction(pc: u64) -> Option<Instruction> {
    const LONGEST: usize = 15;
    let mut bytes = [0u8; LONGEST];
    // SAFETY: there is room for so many bytes; unreadable ones are not copied.
    let read = unsafe { sys::copy_memory(pc as usize, bytes.as_mut_ptr() as usize, LONGEST) };
    let bytes = bytes.get(..read).filter(|bytes| !bytes.is_empty())?;
    Some(Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode())
}

fn was_seen_repeatedly(event: u64, registers: u64) -> bool {
    // SAFETY: see above.
    let history = unsafe { &mut *HISTORY.0.get() };
    if history.event != event || history.count == SAMPLES {
        (history.event, history.count) = (event, 0);
    }
    history.registers[history.count] = registers;
    history.count += 1;
    history.registers[..history.count].iter().filter(|&&other| other == registers).count() >= MIN_REPEATS
}
