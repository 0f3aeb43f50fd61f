//! What a debugger is told, and tells.
//!
//! It finds [`unsnarl_debug`] and [`unsnarl_debug_stop`] by their names. The first says where the run is, and the
//! debugger writes there where it shall stop; the second is called to stop, so that is where it keeps a breakpoint. The
//! other side is `crates/cli/src/gdb/unsnarl.py`. Runs with a debugger are on kernel threads ([`crate::token`]); in others
//! nothing of this is ever looked at.

use crate::{state::State, sys};
use core::{
    arch::asm,
    cell::UnsafeCell,
    sync::atomic::{AtomicU64, Ordering},
};
use unsnarl_model::ThreadIx;
use unsnarl_sched::Pick;
use unsnarl_wire::{End, MAX_THREADS};

/// To be raised with any change of the board.
const VERSION: u32 = 1;

/// Why the run stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum DebugStop {
    None,
    /// It is about to begin.
    Begin,
    /// Another thread goes on now.
    Switch,
    /// The event is next that the debugger asked for.
    Event,
    /// It is over, and the runtime knows how.
    End,
}

/// At which switches the run stops.
const PREEMPTIONS: u32 = 1;
const SWITCHES: u32 = 2;

/// An ended thread that glibc did not free yet.
const ENDED: u32 = 1 << 31;

/// What both sides know. The debugger reads and writes while no thread runs.
#[repr(C)]
struct Board {
    /// 0 if no debugger looks on.
    version: u32,
    reason: DebugStop,
    /// How many events there are: the number of the next one.
    events: *const AtomicU64,
    /// Who runs, by the order of creation.
    current: *const ThreadIx,
    /// The running thread's pointer. While it is 0, hooks do not take part: for calls that the debugger makes.
    control: *mut usize,
    /// How the run ended, once it did.
    end: *const End,
    /// Stop where this event is next; `u64::MAX` for none.
    stop_at: u64,
    /// The last event for which a thread was picked; `u64::MAX` for none.
    picked: u64,
    /// Where the start routine is of the thread that was picked last.
    start: u64,
    /// 0, [`PREEMPTIONS`] or [`SWITCHES`].
    stop_at_switches: u32,
    /// Who ran before a switch.
    from: u32,
    /// 1 if that one could have gone on.
    preempted: u32,
    /// How many threads there are.
    threads: u32,
    /// The kernel's number of each; 0 once it is gone.
    kernel_ids: [u32; MAX_THREADS],
}

struct BoardCell(UnsafeCell<Board>);

// SAFETY: reached by the running thread only, and by a debugger while nobody runs.
unsafe impl Sync for BoardCell {}

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a symbol that debuggers look for")]
static unsnarl_debug: BoardCell = BoardCell(UnsafeCell::new(Board {
    version: 0,
    reason: DebugStop::None,
    events: core::ptr::null(),
    current: core::ptr::null(),
    control: core::ptr::null_mut(),
    end: core::ptr::null(),
    stop_at: 0,
    picked: 0,
    start: 0,
    stop_at_switches: 0,
    from: 0,
    preempted: 0,
    threads: 0,
    kernel_ids: [0; MAX_THREADS],
}));

/// Where debuggers have a breakpoint.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn unsnarl_debug_stop() {
    // SAFETY: does nothing, but may have changed the board: a debugger does.
    unsafe { asm!("nop") };
}

fn board() -> *mut Board {
    unsnarl_debug.0.get()
}

/// A debugger looks on: from now on the board is kept. Until then it is all zeros, which take no room in the library.
pub(crate) fn attach() {
    // SAFETY: before the program runs.
    unsafe {
        (*board()).version = VERSION;
        ((*board()).stop_at, (*board()).picked) = (u64::MAX, u64::MAX);
    }
}

/// Whether a debugger looks on.
pub(crate) fn is_on() -> bool {
    // SAFETY: the running thread's to read.
    unsafe { (*board()).version != 0 }
}

/// The run is about to begin; `control` is the word by which hooks know the running thread.
pub(crate) fn begin(state: &State, control: *mut usize) {
    let header = state.log.header();
    // SAFETY: the running thread's to write; what it points to stays where it is.
    unsafe {
        let board = board();
        (*board).events = &raw const header.events;
        (*board).end = &raw const header.end;
        (*board).current = &raw const state.current;
        (*board).control = control;
    }
    born(ThreadIx::MAIN, sys::thread() as u32);
    stop(DebugStop::Begin);
}

/// A thread is there, with this number of the kernel's.
pub(crate) fn born(thread: ThreadIx, kernel_id: u32) {
    // SAFETY: the running thread's to write.
    unsafe {
        (*board()).threads = thread.0 as u32 + 1;
        (*board()).kernel_ids[thread.index()] = kernel_id;
    }
}

/// A thread has ended.
pub(crate) fn ended(thread: ThreadIx) {
    // SAFETY: the running thread's to write.
    unsafe { (*board()).kernel_ids[thread.index()] |= ENDED };
}

/// A thread is gone.
pub(crate) fn reaped(thread: ThreadIx) {
    // SAFETY: the running thread's to write.
    unsafe { (*board()).kernel_ids[thread.index()] = 0 };
}

/// Somebody was picked for the next event: stops here if nobody else goes on, else where that thread arrives.
pub(crate) fn picked(state: &State, pick: &Pick, could_go_on: bool) {
    let Pick::Run(next) = *pick else { return };
    let event = state.log.count();
    let switches = next != state.current;
    // SAFETY: the running thread's to write.
    unsafe {
        let board = board();
        (*board).picked = event;
        (*board).start = state.log.thread(next).start;
        (*board).from = state.current.0.into();
        (*board).preempted = u32::from(switches && could_go_on);
        let stops_here = match (*board).stop_at_switches {
            PREEMPTIONS => switches && could_go_on,
            SWITCHES => switches,
            _ => false,
        };
        (*board).reason = match event == (*board).stop_at {
            true => DebugStop::Event,
            false if stops_here => DebugStop::Switch,
            false => DebugStop::None,
        };
    }
    if !switches {
        arrived();
    }
}

/// The running thread goes on.
pub(crate) fn arrived() {
    // SAFETY: the running thread's to read.
    let reason = unsafe { (*board()).reason };
    if reason != DebugStop::None {
        stop(reason);
    }
}

/// The run is over, and its end is written down.
pub(crate) fn end() {
    if is_on() {
        stop(DebugStop::End);
    }
}

fn stop(reason: DebugStop) {
    // SAFETY: the running thread's to write.
    unsafe { (*board()).reason = reason };
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    unsnarl_debug_stop();
    // SAFETY: as above.
    unsafe { (*board()).reason = DebugStop::None };
}
