//! Ends of a run that the runtime causes or anticipates.

use crate::{debug, gate::Gate, log, stack, state::Runtime, state::State, sys, thread::Thread};
use core::{
    arch::asm,
    ffi::CStr,
    fmt::{self, Write},
};
use unsnarl_sched::PrefixDivergence;
use unsnarl_wire::{End, EndKind};

/// The exit status of a process that the runtime ended; the controller reads the shared memory instead.
const STATUS: i32 = 96;

/// Ends the run: no thread can continue, or some never will.
#[cold]
pub(crate) fn deadlock(state: &State, reason: &str) -> ! {
    conclude(state, EndKind::Deadlock, reason);
    let current = state.current;
    for thread in &state.threads {
        if thread.ended || thread.is_timer {
            continue;
        }
        report_wait(state, thread);
        let registers = if thread.ix == current {
            stack::registers_of_thread(current_registers())
        } else {
            thread.context.registers()
        };
        state.log.stack(thread.ix, registers, thread.stack_top);
    }
    exit_process()
}

/// Ends the run: threads run, but nothing changes.
#[cold]
pub(crate) fn livelock(state: &State) -> ! {
    let fruitless = state.fruitless_events - 1;
    conclude(state, EndKind::Livelock, "");
    let text = MessageWriter(&mut state.log.header().end, 0);
    describe(text, format_args!("nothing has changed during the last {fruitless} operations"));
    end_in_round(state, fruitless)
}

/// Ends the run: the threads that executed the last events repeat them for ever.
#[cold]
pub(crate) fn repeated_round(state: &State, round: u64) -> ! {
    conclude(state, EndKind::Livelock, "");
    end_in_round(state, round)
}

/// Ends the run with the stacks of the threads that executed this many last events.
fn end_in_round(state: &State, round: u64) -> ! {
    state.log.header().end.round = round;
    let current = state.current;
    let events = state.log.last_events(round as usize);
    for thread in state.threads.iter().filter(|t| !t.ended && events.iter().any(|e| e.thread() == t.ix)) {
        let registers = if thread.ix == current {
            stack::registers_of_thread(current_registers())
        } else {
            thread.context.registers()
        };
        state.log.stack(thread.ix, registers, thread.stack_top);
    }
    exit_process()
}

/// Ends the run: the only thread that can run repeats a loop at this place.
pub(crate) fn endless_loop(state: &State, registers: [u64; 8]) -> ! {
    conclude(
        state,
        EndKind::Livelock,
        "its registers and memory are the same again and again, and no other thread can run",
    );
    state.log.header().end.pc = registers[0];
    state.log.stack(state.current, registers, state.threads[state.current.index()].stack_top);
    exit_process()
}

/// Ends the run: an assertion that the program named failed.
#[cold]
pub(crate) fn assertion(state: &State, name: &[u8]) -> ! {
    conclude(state, EndKind::Assertion, "");
    set_message(&mut state.log.header().end, name);
    exit_process_with_stack(state)
}

/// Ends the run: the log is full.
#[cold]
pub(crate) fn full(state: &State) -> ! {
    conclude(state, EndKind::Full, "");
    exit_process_with_stack(state)
}

/// Reports, at the time limit, which threads waited for the environment, if that is the cause.
pub(crate) fn waits_for_environment(state: &State) {
    if state.ready.is_empty() && state.waiting.iter().any(|thread| state.waits_for_environment(thread)) {
        set_message(&mut state.log.header().end, unsnarl_wire::WAITED_OUTSIDE.as_bytes());
        state
            .threads
            .iter()
            .filter(|t| !t.ended && !t.is_timer)
            .for_each(|thread| report_wait(state, thread));
    }
}

/// Reports what a thread waits for.
fn report_wait(state: &State, thread: &Thread) {
    let row = state.log.thread(thread.ix);
    row.blocked = u32::from(!state.ready.contains(thread.ix) && thread.pending.gate != Gate::Open);
    row.op = thread.pending.op as u32;
    (row.pc, row.addr) = (thread.pending.pc, thread.pending.addr);
    row.holder = state.holder(thread.ix).map_or(u64::MAX, |t| t.0.into());
}

/// Ends the run: the plan does not cover what follows.
#[cold]
pub(crate) fn plan_end(state: &State) -> ! {
    conclude(state, EndKind::PlanEnd, "");
    let end = &mut state.log.header().end;
    end.diverged_point = state.log.count();
    end.diverged_op = state.threads[state.current.index()].pending.op as u32 + 1;
    exit_process_with_stack(state)
}

/// Ends the run: the program needs an input that the plan does not have.
#[cold]
pub(crate) fn lacks_input(state: &State) -> ! {
    let waits_for_input = |gate: Gate| gate == Gate::Input || gate.is_for_signals();
    let thread = state.waiting.iter().find(|t| waits_for_input(state.threads[t.index()].pending.gate));
    let thread = thread.unwrap_or(state.current);
    conclude(state, EndKind::Diverged, "");
    let end = &mut state.log.header().end;
    let pending = &state.threads[thread.index()].pending;
    end.diverged_point = state.log.count();
    end.diverged_thread = state.log.entry_in_plan(thread).unwrap_or(0).into();
    end.diverged_op = pending.op as u32 + 1;
    end.pc = pending.pc;
    sys::exit(STATUS)
}

/// Ends the run: the plan cannot be followed.
#[cold]
pub(crate) fn diverged(state: &State, divergence: PrefixDivergence) -> ! {
    conclude(state, EndKind::Diverged, "");
    let end = &mut state.log.header().end;
    end.diverged_point = state.log.header().plan.resumed + divergence.point;
    end.diverged_thread = divergence.expected.0.into();
    if let (Some(thread), true) = (divergence.thread, divergence.runnable) {
        let pending = &state.threads[thread.index()].pending;
        end.diverged_op = pending.op as u32 + 1;
        end.pc = pending.pc;
    }
    exit_process()
}

/// Ends the run: this program cannot be controlled.
#[cold]
pub(crate) fn refuse(reason: &str) -> ! {
    match Runtime::interrupted() {
        Some(runtime) => conclude(&runtime.state, EndKind::Refused, reason),
        None => {
            sys::write_stderr(b"unsnarl: ");
            sys::write_stderr(reason.as_bytes());
            sys::write_stderr(b"\n");
        }
    }
    exit_process()
}

/// Ends the run: the controller makes it again with lazy binding.
#[cold]
pub(crate) fn needs_lazy_binding(state: &State, reason: &[u8]) -> ! {
    conclude(state, EndKind::NeedsLazyBinding, "");
    set_message(&mut state.log.header().end, reason);
    exit_process()
}

/// Ends the run: the controller decides how runs that change files are made.
#[cold]
pub(crate) fn changes_files(state: &State, path: &[u8]) -> ! {
    conclude(state, EndKind::ChangesFiles, "");
    set_message(&mut state.log.header().end, path);
    exit_process()
}

/// Ends the process: a function that every glibc has is missing.
#[cold]
pub(crate) fn missing(name: &CStr) -> ! {
    sys::write_stderr(b"unsnarl: the C library lacks ");
    sys::write_stderr(name.to_bytes());
    sys::write_stderr(b"; only glibc 2.34 and later is supported\n");
    refuse("the C library is not a glibc of version 2.34 or later")
}

/// Ends the process: the runtime itself failed.
#[cold]
pub(crate) fn internal(info: &core::panic::PanicInfo<'_>) -> ! {
    struct Stderr;
    impl Write for Stderr {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            sys::write_stderr(text.as_bytes());
            Ok(())
        }
    }
    let _ = writeln!(Stderr, "unsnarl: internal error in the runtime: {info}");
    if let Some(runtime) = Runtime::interrupted() {
        conclude(&runtime.state, EndKind::Internal, "");
        describe(MessageWriter(&mut runtime.state.log.header().end, 0), format_args!("{info}"));
    }
    exit_process()
}

/// Records the kind of end and a message.
pub(crate) fn conclude(state: &State, kind: EndKind, message: &str) {
    let end = &mut state.log.header().end;
    end.kind = kind;
    end.thread = state.current.0.into();
    end.pc = state.threads[state.current.index()].pending.pc;
    set_message(end, message.as_bytes());
}

/// Records the message of the end.
pub(crate) fn set_message(end: &mut End, message: &[u8]) {
    log::copy_truncated(&mut end.message, message);
    end.message_len = message.len().min(end.message.len() - 1) as u32;
}

fn exit_process() -> ! {
    debug::end();
    sys::exit(STATUS)
}

fn exit_process_with_stack(state: &State) -> ! {
    let me = &state.threads[state.current.index()];
    state.log.stack(state.current, stack::registers_of_thread(current_registers()), me.stack_top);
    exit_process()
}

/// A writer to the message of the end.
pub(crate) struct MessageWriter<'a>(pub(crate) &'a mut End, pub(crate) usize);

impl Write for MessageWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.0.message[self.1..];
        let len = text.len().min(room.len());
        room[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.1 += len;
        self.0.message_len = self.1 as u32;
        Ok(())
    }
}

pub(crate) fn describe(mut text: MessageWriter<'_>, message: fmt::Arguments<'_>) {
    let _ = text.write_fmt(message);
}

/// Returns the current rip, rsp, rbp, rbx, r12 to r15.
#[inline(always)]
pub(crate) fn current_registers() -> [u64; 8] {
    let mut r = [0u64; 8];
    // SAFETY: only reads registers.
    unsafe {
        asm!("lea {0}, [rip]", "mov [{1}], {0}", "mov [{1} + 8], rsp", "mov [{1} + 16], rbp", "mov [{1} + 24], rbx",
            "mov [{1} + 32], r12", "mov [{1} + 40], r13", "mov [{1} + 48], r14", "mov [{1} + 56], r15",
            out(reg) _, in(reg) r.as_mut_ptr(), options(nostack));
    }
    r
}
