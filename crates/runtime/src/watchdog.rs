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
//! A loop that writes waits as well if it comes back to the same registers and the same memory. If no other thread
//! can run, and nothing outside the program can change what it does, such a loop never ends. That ends the run.
//!
//! Only the program's code is interrupted this way, never the C library, which may hold a lock that is not
//! modelled.

use crate::{
    context::ThreadBackend,
    end, heap,
    livelock::{Fingerprint, FingerprintBuffer, mix},
    state::{Runtime, State},
    sys,
};
use core::{arch::naked_asm, cell::UnsafeCell};
use unsnarl_insn::{
    closed_loop_at,
    iced::{Decoder, DecoderOptions, Instruction},
    wait_loop_at,
};
use unsnarl_model::{Flags, Misuse, Op};
use unsnarl_wire::SPIN_CHECK_SIGNAL;

/// The number of equal samples by which a waiting loop is recognised.
const OFTEN: usize = 3;
/// The number of remembered samples.
const SAMPLES: usize = 256;

/// The samples since the last event.
struct SampleHistory {
    event: u64,
    count: usize,
    registers: [u64; SAMPLES],
    /// The general and all registers, as hashes, and the state of a thread that is alone, with which later ones are compared.
    reference: Option<([u64; 2], Fingerprint)>,
    /// True if another state was seen since. Signals may be queued while the process does not run, and come one after
    /// the other without an instruction in between.
    has_left: bool,
    /// How often that state recurred.
    recurrences: u32,
    buffer: Option<FingerprintBuffer>,
}

struct HistoryCell(UnsafeCell<SampleHistory>);

// SAFETY: only the running thread reaches it, in a handler that does not interrupt itself.
unsafe impl Sync for HistoryCell {}

static HISTORY: HistoryCell = HistoryCell(UnsafeCell::new(SampleHistory {
    event: 0,
    count: 0,
    registers: [0; SAMPLES],
    reference: None,
    has_left: false,
    recurrences: 0,
    buffer: None,
}));

/// The stack needed for the kernel's signal frame and the handler.
const ROOM: usize = 32 << 10;

/// Installs the handler of the controller's signal, which the C library reserves when it creates its first
/// thread; before that no thread waits for another. The handler runs on the signal stack: the thread's may be
/// exhausted.
pub(crate) fn expect() {
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
    const RETURNS: i32 = 0x0400_0000;
    let flags = libc::SA_SIGINFO | libc::SA_RESTART | RETURNS | more;
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
    let controlled = state.backend() == ThreadBackend::Fibers && state.log.header().plan.traced == 0;
    if !divisible || !controlled || !state.modules.is_program(pc) {
        return;
    }
    let general = &registers[..=libc::REG_EFL as usize];
    let hash = general.iter().fold(0, |hash, &value| mix(hash, value as u64));
    let often = was_seen_often(state.log.count(), hash);
    note_other_state(hash);
    if !often {
        return;
    }
    let alone = state.is_alone();
    let only_waits = !alone && wait_loop_at(pc, instruction).is_some();
    if !only_waits {
        // SAFETY: as above.
        let vectors = unsafe { vector_registers(context) }.iter().fold(hash, |hash, &word| mix(hash, word));
        let Some(begins) = closed_loop_at(pc, instruction) else { return };
        if !state_recurs(state, general_registers(registers), [hash, vectors]) {
            return;
        }
        if alone {
            // The interrupted instruction differs each time, so the loop's start is reported.
            let [_, rsp, rbp, rbx, r12, r13, r14, r15] = general_registers(registers);
            end::endless_loop(state, [begins, rsp, rbp, rbx, r12, r13, r14, r15]);
        }
    }
    if state.live > 1 && sys::is_readable((sp as usize).saturating_sub(ROOM)) {
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

/// Returns rip, rsp, rbp, rbx, r12 to r15.
fn general_registers(registers: &[i64]) -> [u64; 8] {
    let numbers = [
        libc::REG_RIP,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RBX,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ];
    numbers.map(|number| registers[number as usize] as u64)
}

/// Returns the floating-point and vector registers, as the kernel saved them.
unsafe fn vector_registers<'a>(context: *mut libc::ucontext_t) -> &'a [u64] {
    /// In the format of `fxsave`, up to the part that is left to software.
    const LEGACY: usize = 464;
    /// Where the kernel says that more registers follow, and how many bytes there are altogether.
    const MAGIC: (usize, u32) = (464, 0x4650_5853);
    const SIZE: usize = 480;
    // SAFETY: the caller passes the kernel's description of the interrupted context.
    let saved = unsafe { (*context).uc_mcontext.fpregs } as *const u8;
    if saved.is_null() {
        return &[];
    }
    // SAFETY: the saved registers are at least 512 bytes long.
    let word = |at: usize| unsafe { saved.add(at).cast::<u32>().read() };
    let size = if word(MAGIC.0) == MAGIC.1 { word(SIZE) as usize } else { LEGACY };
    // SAFETY: so many bytes were saved, in memory aligned to 64 bytes.
    unsafe { core::slice::from_raw_parts(saved.cast(), size / 8) }
}

/// Notes that the running thread has left the reference state, if it has.
fn note_other_state(general: u64) {
    // SAFETY: see above.
    let history = unsafe { &mut *HISTORY.0.get() };
    history.has_left |= history.reference.is_some_and(|([reference, _], _)| reference != general);
}

/// Returns whether the running thread, which is interrupted here, has left this state and come back several times.
fn state_recurs(state: &State, mut registers: [u64; 8], hashes: [u64; 2]) -> bool {
    /// Functions that call no others use so much of the unused stack.
    const RED_ZONE: u64 = 128;
    const ENOUGH: u32 = 2;
    // SAFETY: see above.
    let history = unsafe { &mut *HISTORY.0.get() };
    if history.reference.is_some_and(|(reference, _)| reference != hashes || !history.has_left) {
        return false;
    }
    let buffer = history.buffer.get_or_insert_with(|| heap::with_plan_heap(FingerprintBuffer::new));
    registers[1] -= RED_ZONE;
    let now = Fingerprint::of(state, registers, buffer);
    let recurs = match (&history.reference, &now) {
        (Some((_, before)), Some(now)) => now.follows(before) && now.is_same_state(before),
        _ => false,
    };
    history.recurrences = if recurs { history.recurrences + 1 } else { 0 };
    history.reference = now.map(|now| (hashes, now));
    history.has_left = false;
    history.recurrences >= ENOUGH
}

/// Yields to other threads.
unsafe extern "C-unwind" fn yield_to_others(context: *mut libc::ucontext_t) {
    expect();
    let check_signal = 1u64 << (SPIN_CHECK_SIGNAL - 1);
    let args = [libc::SIG_UNBLOCK as usize, &raw const check_signal as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the other threads are sampled while this one stays here; the handler for that is installed.
    unsafe { sys::call(libc::SYS_rt_sigprocmask, args) };
    let Some(runtime) = Runtime::enter() else { return };
    // SAFETY: the kernel's description of the interrupted context.
    let pc = unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] } as u64;
    let state = &mut runtime.state;
    // The interrupted instruction differs each time, so the loop's start is reported.
    let begins = closed_loop_at(pc, instruction).unwrap_or(pc);
    state.warn(
        Misuse::NotModelled,
        begins + 1,
        0,
        "spins without a schedule point; preempted by the watchdog",
    );
    // For the same reason the event is logged at the thread's last operation.
    let last = state.me().pending.pc;
    runtime.turn(Op::Yield, 0, last);
    runtime.log(Op::Yield, Flags::NONE, last, 0, 0);
}

impl State {
    /// Returns whether no other thread can run before the running one makes it possible, and nothing outside the
    /// program can interfere.
    fn is_alone(&self) -> bool {
        self.ready.iter().all(|thread| thread == self.current)
            && self.by_timeout.is_empty()
            && !self.depends_on_outside()
    }
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

fn was_seen_often(event: u64, registers: u64) -> bool {
    // SAFETY: see above.
    let history = unsafe { &mut *HISTORY.0.get() };
    if history.event != event || history.count == SAMPLES {
        (history.event, history.count) = (event, 0);
        (history.reference, history.has_left, history.recurrences) = (None, false, 0);
    }
    history.registers[history.count] = registers;
    history.count += 1;
    history.registers[..history.count].iter().filter(|&&other| other == registers).count() >= OFTEN
}
