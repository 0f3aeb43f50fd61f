//! The interface for debuggers.
//!
//! A debugger finds [`unsnarl_debug`] and [`unsnarl_debug_stop`] by name. The first describes the state of
//! the run, and the debugger writes its stop conditions there. The second is called to stop, so the debugger
//! sets a breakpoint on it. The other side is `crates/cli/src/gdb/unsnarl.py`. Runs with a debugger use
//! kernel threads ([`crate::token`]); other runs never use this module.

use crate::{state::State, sys};
use core::{
    arch::asm,
    cell::UnsafeCell,
    sync::atomic::{AtomicU64, Ordering},
};
use unsnarl_model::ThreadIx;
use unsnarl_sched::Pick;
use unsnarl_wire::{End, MAX_THREADS};

/// Must be incremented with any change of the board.
const VERSION: u32 = 1;

/// The reason for a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum DebugStop {
    None,
    /// The run is about to begin.
    Begin,
    /// Another thread runs from now on.
    Switch,
    /// The requested event is next.
    Event,
    /// The run has ended, with a known outcome.
    End,
}

/// The switches at which the run stops.
const PREEMPTIONS: u32 = 1;
const SWITCHES: u32 = 2;

/// Marks an ended thread that glibc has not freed yet.
const ENDED: u32 = 1 << 31;

/// The data shared with the debugger, which reads and writes it while no thread runs.
#[repr(C)]
struct Board {
    /// 0 if no debugger is attached.
    version: u32,
    reason: DebugStop,
    /// The number of events, which is the number of the next one.
    events: *const AtomicU64,
    /// The running thread, by its index in creation order.
    current: *const ThreadIx,
    /// The running thread's pointer. While it is 0, hooks are passive: for calls that the debugger makes.
    control: *mut usize,
    /// The outcome of the run, once it has ended.
    end: *const End,
    /// The event before which to stop; `u64::MAX` for none.
    stop_at: u64,
    /// The last event for which a thread was picked; `u64::MAX` for none.
    picked: u64,
    /// The start routine of the thread that was picked last.
    start: u64,
    /// 0, [`PREEMPTIONS`] or [`SWITCHES`].
    stop_at_switches: u32,
    /// The thread that ran before a switch.
    from: u32,
    /// 1 if that thread could have continued.
    preempted: u32,
    /// The number of threads.
    threads: u32,
    /// The kernel's id of each thread; 0 once it is gone.
    kernel_ids: [u32; MAX_THREADS],
}

struct BoardCell(UnsafeCell<Board>);

// SAFETY: only the running thread reaches it, and a debugger while no thread runs.
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

/// The function on which debuggers set a breakpoint.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn unsnarl_debug_stop() {
    // SAFETY: does nothing itself, but the debugger may have changed the board.
    unsafe { asm!("nop") };
}

fn board() -> *mut Board {
    unsnarl_debug.0.get()
}

/// Notes that a debugger is attached: the board is maintained from now on. Until then it is all zeros, which
/// take no space in the library.
pub(crate) fn attach() {
    // SAFETY: called before the program runs.
    unsafe {
        (*board()).version = VERSION;
        ((*board()).stop_at, (*board()).picked) = (u64::MAX, u64::MAX);
    }
}

/// Returns whether a debugger is attached.
pub(crate) fn is_on() -> bool {
    // SAFETY: the running thread may read the board.
    unsafe { (*board()).version != 0 }
}

/// Stops at the beginning of the run; `control` is the word by which hooks recognise the running thread.
pub(crate) fn begin(state: &State, control: *mut usize) {
    let header = state.log.header();
    // SAFETY: only the running thread writes the board; what it points to does not move.
    unsafe {
        let board = board();
        (*board).events = &raw const header.events;
        (*board).end = &raw const header.end;
        (*board).current = &raw const state.current;
        (*board).control = control;
    }
    thread_created(ThreadIx::MAIN, sys::thread() as u32);
    stop(DebugStop::Begin);
}

/// Notes a new thread with this kernel id.
pub(crate) fn thread_created(thread: ThreadIx, kernel_id: u32) {
    // SAFETY: only the running thread writes the board.
    unsafe {
        (*board()).threads = thread.0 as u32 + 1;
        (*board()).kernel_ids[thread.index()] = kernel_id;
    }
}

/// Notes that a thread has ended.
pub(crate) fn thread_ended(thread: ThreadIx) {
    // SAFETY: only the running thread writes the board.
    unsafe { (*board()).kernel_ids[thread.index()] |= ENDED };
}

/// Notes that a thread is gone.
pub(crate) fn thread_reaped(thread: ThreadIx) {
    // SAFETY: only the running thread writes the board.
    unsafe { (*board()).kernel_ids[thread.index()] = 0 };
}

/// Notes the pick for the next event. Stops here unless it switches threads, else where the picked thread
/// arrives.
pub(crate) fn picked(state: &State, pick: &Pick, could_go_on: bool) {
    let Pick::Run(next) = *pick else { return };
    let event = state.log.count();
    let switches = next != state.current;
    // SAFETY: only the running thread writes the board.
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
        stop_if_requested();
    }
}

/// Stops if requested, when the running thread continues.
pub(crate) fn stop_if_requested() {
    // SAFETY: the running thread may read the board.
    let reason = unsafe { (*board()).reason };
    if reason != DebugStop::None {
        stop(reason);
    }
}

/// Stops at the end of the run, when its outcome is recorded.
pub(crate) fn end() {
    if is_on() {
        stop(DebugStop::End);
    }
}

fn stop(reason: DebugStop) {
    // SAFETY: only the running thread writes the board.
    unsafe { (*board()).reason = reason };
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    unsnarl_debug_stop();
    // SAFETY: as above.
    unsafe { (*board()).reason = DebugStop::None };
}
