//! The watchdog: a thread that waits for a plain variable in code without schedule points keeps everybody from ever changing it.
//!
//! The controller sees that no event comes while the program runs, and sends a signal every few milliseconds. Each looks at the
//! registers: in a loop that only waits, the same ones come back again and again, at the same instruction, and nothing on the way back
//! changes anything else; what computes has others, or writes. A thread that is seen to wait so gives way, by an event like that of
//! `sched_yield`, from inside a handler on its own stack. In a replay it waits in the same loop, for nobody else runs, until it is seen again.
//!
//! Only the program's own code is interrupted so, never the C library, which may hold a lock that no model knows of.

use crate::{context::ThreadBackend, state::Runtime, sys};
use core::{arch::naked_asm, cell::UnsafeCell};
use unsnarl_insn::{
    iced::{Decoder, DecoderOptions, Instruction},
    wait_loop_at,
};
use unsnarl_model::{Flags, Misuse, Op};
use unsnarl_wire::SPIN_CHECK_SIGNAL;

/// How often the same registers are seen in a loop that waits.
const OFTEN: usize = 3;
/// How many of them are remembered.
const SAMPLES: usize = 256;

/// What was seen since the last event.
struct SampleHistory {
    event: u64,
    count: usize,
    registers: [u64; SAMPLES],
}

struct HistoryCell(UnsafeCell<SampleHistory>);

// SAFETY: reached by the running thread only, in a handler that does not come while it is at work there.
unsafe impl Sync for HistoryCell {}

static HISTORY: HistoryCell =
    HistoryCell(UnsafeCell::new(SampleHistory { event: 0, count: 0, registers: [0; SAMPLES] }));

/// Whatever the kernel puts on a stack for a handler, and what we do there.
const ROOM: usize = 32 << 10;

/// Expects the controller's signal, which the C library takes for itself when it makes its first thread. Before that nobody is
/// waited for. It is looked at on the stack for signals: the thread's own may be used up.
pub(crate) fn expect() {
    // Nobody else looks meanwhile: the limit on time tells where the program is, and not that it is looked at.
    install_handler(check_trampoline, libc::SA_ONSTACK, !0);
}

fn install_handler(entry: unsafe extern "C" fn(), more: i32, mask: u64) {
    unsafe extern "C" {
        fn unsnarl_return_from_signal();
    }
    /// As the kernel has it: handler, flags, where the handler returns to, mask.
    #[repr(C)]
    struct Action(usize, usize, usize, u64);
    const RETURNS: i32 = 0x0400_0000;
    let flags = libc::SA_SIGINFO | libc::SA_RESTART | RETURNS | more;
    let action = Action(
        entry as *const () as usize,
        flags as usize,
        unsnarl_return_from_signal as *const () as usize,
        mask,
    );
    let args = [SPIN_CHECK_SIGNAL as usize, &raw const action as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the handler fits its signature, and returns by a way of our own, which is never dispatched.
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

/// Looks where the running thread is. If it waits for others, it gets the signal once more, on its own stack, where it can stay while
/// they run: as soon as this handler has returned, before its next instruction.
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
    let waits = was_seen_often(state.log.count(), hash) && wait_loop_at(pc, instruction).is_some();
    if waits && sys::is_readable((sp as usize).saturating_sub(ROOM)) {
        // The controller's next may have come meanwhile: it is not to make the thread give way twice.
        install_handler(yield_trampoline, 0, 0);
        let [process, thread] = [libc::SYS_getpid, libc::SYS_gettid].map(|number| {
            // SAFETY: no arguments, no effect.
            unsafe { sys::call(number, [0; 6]) as usize }
        });
        // SAFETY: to ourselves; it waits until this handler returns.
        unsafe { sys::call(libc::SYS_tgkill, [process, thread, SPIN_CHECK_SIGNAL as usize, 0, 0, 0]) };
    }
}

/// Lets others run.
unsafe extern "C-unwind" fn yield_to_others(context: *mut libc::ucontext_t) {
    expect();
    let check_signal = 1u64 << (SPIN_CHECK_SIGNAL - 1);
    let args = [libc::SIG_UNBLOCK as usize, &raw const check_signal as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the others are looked at while this one stays here; the handler for that is in place.
    unsafe { sys::call(libc::SYS_rt_sigprocmask, args) };
    let Some(runtime) = Runtime::enter() else { return };
    // SAFETY: the kernel's description of the interrupted context.
    let pc = unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] } as u64;
    let state = &mut runtime.state;
    // Where in the loop it was is another place each time.
    let begins = wait_loop_at(pc, instruction).unwrap_or(pc);
    state.warn(
        Misuse::NotModelled,
        begins + 1,
        0,
        "spins without a schedule point; preempted by the watchdog",
    );
    // And so the event is told at the thread's last operation.
    let last = state.me().pending.pc;
    runtime.turn(Op::Yield, 0, last);
    runtime.log(Op::Yield, Flags::NONE, last, 0, 0);
}

/// The instruction at an address, if there is one.
fn instruction(pc: u64) -> Option<Instruction> {
    const LONGEST: usize = 15;
    let mut bytes = [0u8; LONGEST];
    // SAFETY: room for as many bytes; what cannot be read is not.
    let read = unsafe { sys::copy_memory(pc as usize, bytes.as_mut_ptr() as usize, LONGEST) };
    let bytes = bytes.get(..read).filter(|bytes| !bytes.is_empty())?;
    Some(Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode())
}

fn was_seen_often(event: u64, registers: u64) -> bool {
    // SAFETY: see above.
    let history = unsafe { &mut *HISTORY.0.get() };
    if history.event != event || history.count == SAMPLES {
        (history.event, history.count) = (event, 0);
    }
    history.registers[history.count] = registers;
    history.count += 1;
    history.registers[..history.count].iter().filter(|&&other| other == registers).count() >= OFTEN
}
