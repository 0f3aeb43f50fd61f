//! Endless loops of a thread that is alone: no other thread can run before it goes on.
//!
//! The watchdog's signals sample the registers. If the same ones recur, the whole state is compared: registers and all
//! memory that the program can write. A loop that comes back to the same state, although it left it in between, never
//! ends. That ends the run.

use crate::{
    end, handlers, heap,
    livelock::{Fingerprint, FingerprintBuffer, mix},
    state::State,
    watchdog::instruction,
};
use core::cell::UnsafeCell;
use unsnarl_insn::closed_loop_at;

/// The number of equal samples after which the state is compared.
const MIN_REPEATS: usize = 3;
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
    /// The number of times that state recurred.
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

/// Samples the running thread, which is interrupted here, and ends the run if it never gets any further.
///
/// # Safety
/// `context` is the kernel's description of the interrupted context.
pub(crate) unsafe fn check(state: &mut State, context: *mut libc::ucontext_t) {
    // SAFETY: the caller guarantees it.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let pc = registers[libc::REG_RIP as usize] as u64;
    if !state.modules.is_program(pc) {
        return;
    }
    let general = &registers[..=libc::REG_EFL as usize];
    let hash = general.iter().fold(0, |hash, &value| mix(hash, value as u64));
    let is_repeated = was_seen_repeatedly(state.log.count(), hash);
    note_other_state(hash);
    if !is_repeated {
        return;
    }
    // SAFETY: the caller guarantees it.
    let vectors = unsafe { vector_registers(context) }.iter().fold(hash, |hash, &word| mix(hash, word));
    let Some(loop_start) = closed_loop_at(pc, instruction) else { return };
    if state_recurs(state, general_registers(registers), [hash, vectors]) {
        // The interrupted instruction differs each time, so the loop's start is reported.
        let [_, rsp, rbp, rbx, r12, r13, r14, r15] = general_registers(registers);
        end::endless_loop(state, [loop_start, rsp, rbp, rbx, r12, r13, r14, r15]);
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
    /// The place of the kernel's mark that more registers follow; the number of all bytes is beside it.
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

impl State {
    /// Returns whether no other thread can run before the running one makes it possible, and nothing outside the
    /// program can interfere.
    pub(crate) fn is_alone(&self) -> bool {
        self.ready.iter().all(|thread| thread == self.current)
            && self.by_timeout.is_empty()
            && !self.depends_on_outside()
            && !handlers::has_arrivals()
            && !self.is_arrival_due(self.current)
    }
}

fn was_seen_repeatedly(event: u64, registers: u64) -> bool {
    // SAFETY: see above.
    let history = unsafe { &mut *HISTORY.0.get() };
    if history.event != event || history.count == SAMPLES {
        (history.event, history.count) = (event, 0);
        (history.reference, history.has_left, history.recurrences) = (None, false, 0);
    }
    history.registers[history.count] = registers;
    history.count += 1;
    history.registers[..history.count].iter().filter(|&&other| other == registers).count() >= MIN_REPEATS
}
