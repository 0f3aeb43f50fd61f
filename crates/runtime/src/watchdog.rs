//! The watchdog for waiting loops without schedule points: a thread that waits for a plain variable there
//! keeps all others from changing it.
//!
//! The controller notices that the program runs without events, and sends a signal every few milliseconds. Its
//! handler has the thread's next instructions trap, one after the other ([`crate::wait_proof`]). If the thread comes back
//! to the same state, it waits for others: it would go on like this for ever. Then it yields, by an event like that of
//! `sched_yield`, from inside a handler on its own stack.
//!
//! When that is noticed depends on time, but it does not matter: the state is the same in every iteration, no other
//! thread runs meanwhile, and a thread whose state still changes does not yield. In a replay the thread comes to the same
//! state and cannot leave it either, until it is noticed again.
//!
//! If no other thread can run, and nothing outside the program can change what it does, the loop is
//! endless (`endless_loop.rs`).
//!
//! Only the program's code is interrupted this way, never the C library, which may hold a lock that is not
//! modelled.

use crate::{
    context::ThreadBackend,
    endless_loop, handlers,
    state::Runtime,
    sys,
    wait_proof::{self, Step},
};
use core::{
    arch::naked_asm,
    cell::UnsafeCell,
    sync::atomic::{AtomicU64, Ordering},
};
use unsnarl_insn::{
    iced::{Decoder, DecoderOptions, Instruction},
    wait_loop_at,
};
use unsnarl_model::{Flags, Misuse, Op};
use unsnarl_wire::SPIN_CHECK_SIGNAL;

/// The checks since the last event.
struct CheckHistory {
    event: u64,
    count: u64,
    /// The check at which the next proof is tried: a long computation is seldom disturbed.
    next: u64,
}

struct HistoryCell(UnsafeCell<CheckHistory>);

// SAFETY: only the running thread reaches it, in a handler that does not interrupt itself.
unsafe impl Sync for HistoryCell {}

static HISTORY: HistoryCell = HistoryCell(UnsafeCell::new(CheckHistory { event: 0, count: 0, next: 0 }));

/// The lowest address of the program's code in the loop that was found.
static LOOP_START: AtomicU64 = AtomicU64::new(0);

/// The stack needed for the kernel's signal frame and the handler.
const MIN_STACK: usize = 32 << 10;

/// Installs the handler of the controller's signal, which the C library reserves when it creates its first
/// thread; before that no thread waits for another. The handler runs on the signal stack: the thread's may be
/// exhausted.
pub(crate) fn install() {
    // All signals are blocked meanwhile, so that the time-limit signal reports the program's location and not
    // this handler's.
    install_handler(SPIN_CHECK_SIGNAL, check_trampoline, libc::SA_ONSTACK, !0);
}

/// The kernel's layout: handler, flags, return trampoline, mask.
#[repr(C)]
#[derive(Clone, Copy)]
struct KernelAction(usize, usize, usize, u64);

/// Installs a handler of the runtime; returns the action before.
fn install_handler(signal: i32, entry: unsafe extern "C" fn(), more: i32, mask: u64) -> KernelAction {
    unsafe extern "C" {
        fn unsnarl_return_from_signal();
    }
    const SA_RESTORER: i32 = 0x0400_0000;
    let flags = libc::SA_SIGINFO | libc::SA_RESTART | SA_RESTORER | more;
    exchange_action(
        signal,
        KernelAction(
            entry as *const () as usize,
            flags as usize,
            unsnarl_return_from_signal as *const () as usize,
            mask,
        ),
    )
}

fn exchange_action(signal: i32, action: KernelAction) -> KernelAction {
    let mut before = KernelAction(0, 0, 0, 0);
    let (new, old) = (&raw const action as usize, &raw mut before as usize);
    // SAFETY: the handler has the required signature and returns through the runtime's sigreturn, which is
    // never dispatched; or it is an action that the kernel returned before.
    unsafe { sys::call(libc::SYS_rt_sigaction, [signal as usize, new, old, size_of::<u64>(), 0, 0]) };
    before
}

#[unsafe(naked)]
unsafe extern "C" fn check_trampoline() {
    naked_asm!("mov rdi, rdx", "jmp {}", sym check_for_spin)
}

#[unsafe(naked)]
unsafe extern "C" fn yield_trampoline() {
    naked_asm!("mov rdi, rdx", "jmp {}", sym yield_to_others)
}

#[unsafe(naked)]
unsafe extern "C" fn step_trampoline() {
    naked_asm!("mov rdi, rdx", "jmp {}", sym step)
}

/// The kernel's action of the trap signal while the thread is stepped.
struct SavedAction(UnsafeCell<KernelAction>);

// SAFETY: as for the history.
unsafe impl Sync for SavedAction {}

static TRAP_ACTION: SavedAction = SavedAction(UnsafeCell::new(KernelAction(0, 0, 0, 0)));

/// Begins to step the running thread if it has made no event since the last check.
unsafe extern "C" fn check_for_spin(context: *mut libc::ucontext_t) {
    let Some(runtime) = Runtime::enter() else { return };
    let state = &mut runtime.state;
    let divisible = state.undivided == 0 && state.me().undivided == 0 && !state.muted && !state.picked;
    // A single thread may wait for a signal.
    let waits_for_others = state.live > 1 || handlers::has_arrivals() || state.is_arrival_due(state.current);
    let can_step = state.backend() == ThreadBackend::Fibers && state.log.header().plan.traced == 0;
    if !divisible || !can_step || wait_proof::is_running() {
        return;
    }
    if state.is_alone() {
        // SAFETY: the kernel's description of the interrupted context.
        return unsafe { endless_loop::check(state, context) };
    }
    if !waits_for_others {
        return;
    }
    if is_next_proof_due(state.log.count()) {
        // SAFETY: the kernel's description of the interrupted context.
        let registers = unsafe { &mut (*context).uc_mcontext };
        // A call that the signal interrupted may be restarted.
        if instruction(registers.gregs[libc::REG_RIP as usize] as u64)
            .is_none_or(|next| wait_proof::is_system_call(&next))
        {
            return;
        }
        wait_proof::begin(registers);
        let before = install_handler(libc::SIGTRAP, step_trampoline, libc::SA_ONSTACK, !0);
        // SAFETY: as for the history.
        unsafe { *TRAP_ACTION.0.get() = before };
    }
}

/// Ends the proof, if one is in progress.
pub(crate) fn abandon_proof(registers: &mut libc::mcontext_t) {
    if wait_proof::is_running() {
        wait_proof::end(registers);
        restore_trap_action();
    }
}

fn restore_trap_action() {
    // SAFETY: as for the history.
    let before = unsafe { *TRAP_ACTION.0.get() };
    exchange_action(libc::SIGTRAP, before);
}

/// Handles the trap after one instruction. If the thread waits for others, it gets the controller's signal once more, on
/// its own stack, where it can stay while they run: as soon as this handler has returned, before its next instruction.
unsafe extern "C" fn step(context: *mut libc::ucontext_t) {
    // SAFETY: the kernel's description of the interrupted context.
    let registers = unsafe { &mut (*context).uc_mcontext };
    let Some(runtime) = Runtime::enter() else { return abandon_proof(registers) };
    let state = &mut runtime.state;
    // SAFETY: as for the history.
    let begun = unsafe { (*HISTORY.0.get()).event };
    let step = if state.log.count() == begun && !state.picked {
        wait_proof::step(registers, |pc| state.modules.is_program(pc), instruction)
    } else {
        Step::Refuted
    };
    let found = match step {
        Step::Continue => return,
        Step::Refuted => None,
        Step::Waits { start } => Some(start),
    };
    wait_proof::end(registers);
    restore_trap_action();
    let sp = registers.gregs[libc::REG_RSP as usize] as usize;
    if let Some(start) = found.filter(|_| sys::is_readable(sp.saturating_sub(MIN_STACK))) {
        LOOP_START.store(start, Ordering::Relaxed);
        // The controller's next signal may be pending: it must not make the thread yield twice.
        install_handler(SPIN_CHECK_SIGNAL, yield_trampoline, 0, 0);
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
    let loop_start = wait_loop_at(pc, instruction).unwrap_or_else(|| LOOP_START.load(Ordering::Relaxed));
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
pub(crate) fn instruction(pc: u64) -> Option<Instruction> {
    const LONGEST: usize = 15;
    let mut bytes = [0u8; LONGEST];
    // SAFETY: there is room for so many bytes; unreadable ones are not copied.
    let read = unsafe { sys::copy_memory(pc as usize, bytes.as_mut_ptr() as usize, LONGEST) };
    let bytes = bytes.get(..read).filter(|bytes| !bytes.is_empty())?;
    Some(Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode())
}

/// Counts a check; returns whether a proof is tried now: at the first, second, fourth … check without an event.
fn is_next_proof_due(event: u64) -> bool {
    // SAFETY: see above.
    let history = unsafe { &mut *HISTORY.0.get() };
    if history.event != event {
        *history = CheckHistory { event, count: 0, next: 1 };
    }
    history.count += 1;
    let is_due = history.count >= history.next;
    if is_due {
        history.next = history.count * 2;
    }
    is_due
}
