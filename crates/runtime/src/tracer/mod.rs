//! The instruction trace: the executed instructions of the program and the addresses they used.
//!
//! Only the code of chosen modules is traced: the program's and those the user names. All other code runs
//! unmodified. The traced code is not executable, so entering it faults. That holds for every way in: calls,
//! callbacks, landing pads of exceptions, jumps out of signal handlers and the start of threads. The fault is
//! where tracing begins ([`Tracer::log_entry`]); the tracing method detects when control leaves.
//!
//! There are two methods, which write the same words to the log (`unsnarl_wire::StepWord`): translated code
//! ([`translator`]), and the processor's trap flag ([`stepper`]), which is slow and simple and serves as a
//! reference.

mod code_cache;
mod direct_returns;
mod emitter;
mod stepper;
mod text;
mod translator;
mod words;

use crate::{context::ThreadBackend, end, handlers, state::Runtime, state::State, sys, time_stamp};
use alloc::vec::Vec;
use core::{cell::UnsafeCell, ffi::c_void};
use stepper::Stepper;
use text::TracedText;
use translator::Translator;
use unsnarl_model::ThreadIx;
use unsnarl_wire::{StepKind, StepWord, Tracing};
use words::Words;

/// The tracer of a run.
struct Tracer {
    text: TracedText,
    words: Words,
    method: TracingMethod,
    /// For each thread, the number of events after which it runs untraced; empty if all are traced
    /// throughout.
    until: &'static [u64],
    /// Threads whose trace pauses until they unwind.
    paused: Vec<ThreadIx>,
    /// True if the running thread is traced.
    tracing: bool,
}

/// The method by which instructions are traced.
enum TracingMethod {
    Stepping(Stepper),
    Translated(Translator),
}

struct TracerCell(UnsafeCell<Option<Tracer>>);

// SAFETY: only the carrier reaches it (see the crate's documentation).
unsafe impl Sync for TracerCell {}

static TRACER: TracerCell = TracerCell(UnsafeCell::new(None));

/// Returns the tracer, if there is one.
fn tracer() -> Option<&'static mut Tracer> {
    // SAFETY: only the carrier gets here, and no caller keeps the reference: the callers are signal handlers
    // and hooks, and the traced code that a handler interrupts is not the runtime's.
    unsafe { (*TRACER.0.get()).as_mut() }
}

/// Begins to trace if the plan asks for it, before the program's code runs.
pub(crate) fn begin(state: &State) {
    let requested = Tracing::from_number(state.log.header().plan.tracing);
    if requested == Tracing::Off {
        return;
    }
    if state.backend() == ThreadBackend::Kernel {
        end::refuse("instructions can be traced only with fibers, not with kernel threads");
    }
    let text = TracedText::of(&state.log);
    let words = Words::new(&state.log);
    let method = if requested == Tracing::Stepping {
        TracingMethod::Stepping(Stepper::new(&text))
    } else {
        translator::set_gs(words.shared());
        let Some(translator) = Translator::new(&text, words.shared(), direct_returns::slots(&state.log))
        else {
            end::refuse("there is no address space for translated code near the program's own")
        };
        TracingMethod::Translated(translator)
    };
    text.forbid();
    let until = state.log.traced_until();
    // SAFETY: called on the carrier, before anything is traced.
    unsafe {
        *TRACER.0.get() = Some(Tracer { text, words, method, until, paused: Vec::new(), tracing: true })
    };
    for signal in 1..=64 {
        handlers::refresh_action(signal);
    }
}

/// Adapts to a switch to a thread after so many events. Switches happen only in hooks, where no traced code
/// is executing and all return addresses on the stacks are original ones: only the executability of the code
/// has to change.
#[inline]
pub(crate) fn switching(to: ThreadIx, events: u64) {
    if let Some(tracer) = tracer()
        && !(tracer.until.is_empty() && tracer.paused.is_empty())
    {
        tracer.switching(to, events);
    }
}

/// Resumes a paused trace when its thread is about to unwind.
pub(crate) fn unwinding(thread: ThreadIx, events: u64) {
    if let Some(tracer) = tracer()
        && tracer.paused.contains(&thread)
    {
        tracer.paused.retain(|paused| *paused != thread);
        tracer.switching(thread, events);
    }
}

/// Stops tracing in a forked child: its code runs unmodified.
pub(crate) fn abandon() {
    if let Some(tracer) = tracer() {
        tracer.text.allow();
        // SAFETY: called on the carrier.
        unsafe { *TRACER.0.get() = None };
    }
}

/// Restores original addresses in the context and on the stack, before the program's state is inspected.
pub(crate) fn restore_originals(context: *mut libc::ucontext_t) {
    if let Some(tracer) = tracer() {
        tracer.restore_return_address();
        if let TracingMethod::Translated(translator) = &tracer.method {
            // SAFETY: the kernel's description of the interrupted context.
            let registers = unsafe { &mut (*context).uc_mcontext.gregs };
            translator::restore(translator, registers, tracer.words.saved());
        }
    }
}

/// Makes the tracer receive its signals first.
pub(crate) fn adapt_action(signal: i32, action: &mut libc::sigaction) {
    if tracer().is_none() {
        return;
    }
    action.sa_sigaction = entry as *const () as usize;
    if matches!(signal, libc::SIGSEGV | libc::SIGTRAP) {
        action.sa_flags |= libc::SA_ONSTACK | libc::SA_NODEFER;
    }
}

/// Logs that a handler of the program is about to be called; the handler is entered like any other code.
pub(crate) fn interrupted(context: *const libc::ucontext_t) {
    if let Some(tracer) = tracer().filter(|tracer| tracer.words.inside()) {
        // SAFETY: the kernel's description of the interrupted context.
        let registers = unsafe { &(*context).uc_mcontext.gregs };
        let word = |r: i32| registers[r as usize] as u64;
        let record = [StepWord::new(StepKind::Signal, word(libc::REG_RIP), 0).0, word(libc::REG_RSP)];
        tracer.words.append(&record);
        tracer.set_outside();
    }
}

/// The kernel's entry point for signals during tracing: signals that are not the tracer's are passed on as
/// usual.
#[unsafe(naked)]
unsafe extern "C" fn entry(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "call {filter}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test eax, eax",
        "jz 2f",
        "ret",
        "2:",
        "jmp {others}",
        filter = sym filter,
        others = sym handlers::entry,
    )
}

/// Returns whether the signal was the tracer's; then tracing continues.
unsafe extern "C" fn filter(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) -> i32 {
    const NOT_ALLOWED: i32 = 2;
    const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];
    let (Some(tracer), Some(runtime)) = (tracer(), Runtime::interrupted()) else { return 0 };
    // SAFETY: the arguments that the kernel passes to a handler.
    let (code, addr, registers) =
        unsafe { ((*info).si_code, (*info).si_addr() as u64, &mut (*context).uc_mcontext.gregs) };
    let inside = tracer.words.inside();
    // SAFETY: as above; the registers are not used meanwhile.
    if time_stamp::answer(signal, code, unsafe { &mut *context }) {
        if let (true, TracingMethod::Stepping(_)) = (inside, &tracer.method) {
            // The trap after this instruction does not come.
            tracer.stepped(registers, runtime.state.current);
        }
        return 1;
    }
    let pc = registers[libc::REG_RIP as usize] as u64;
    let not_allowed = signal == libc::SIGSEGV && code == NOT_ALLOWED;
    if not_allowed && addr == pc && tracer.text.contains(pc) {
        if tracer.text.pauses_at(pc) {
            if inside {
                tracer.log_exit(registers);
            }
            tracer.pause(runtime.state.current);
            return 1;
        }
        if !inside {
            tracer.log_entry(&runtime.state, registers);
        }
        tracer.resume(registers);
        return 1;
    }
    if signal == libc::SIGTRAP && inside && tracer.is_step(code) {
        tracer.stepped(registers, runtime.state.current);
        return 1;
    }
    if not_allowed && tracer.words.is_guard(addr) {
        if tracer.words.make_room() {
            return 1;
        }
        trace_full();
    }
    tracer.restore_return_address();
    if inside {
        if let TracingMethod::Translated(translator) = &tracer.method {
            translator::restore(translator, registers, tracer.words.saved());
        }
        if FAULTS.contains(&signal) && code > 0 {
            let pc = registers[libc::REG_RIP as usize] as u64;
            tracer.words.append(&[StepWord::new(StepKind::Fault, pc, 0).0]);
        }
    }
    0
}

impl Tracer {
    /// Returns whether a trap with this code was requested by the stepper.
    fn is_step(&self, code: i32) -> bool {
        const SINGLE_STEP: i32 = 2;
        // The kernel's code for a debug trap without a cause. Some virtual machines lose the cause now and
        // then.
        const UNSPECIFIED: i32 = 1;
        match &self.method {
            TracingMethod::Stepping(stepper) => {
                code == SINGLE_STEP || code == UNSPECIFIED && !stepper.is_at_debug_trap()
            }
            TracingMethod::Translated(_) => false,
        }
    }

    fn switching(&mut self, to: ThreadIx, events: u64) {
        let is_within_limit =
            self.until.is_empty() || self.until.get(to.index()).is_some_and(|until| events < *until);
        let tracing = is_within_limit && !self.paused.contains(&to);
        if self.tracing != tracing {
            self.tracing = tracing;
            if tracing { self.text.forbid() } else { self.text.allow() }
        }
    }

    /// Lets the thread run untraced until it unwinds: it has reached code that only reports a failure.
    fn pause(&mut self, thread: ThreadIx) {
        self.paused.push(thread);
        self.tracing = false;
        self.text.allow();
    }

    /// Logs that control has entered the traced code.
    fn log_entry(&mut self, state: &State, registers: &Registers) {
        let word = |r: i32| registers[r as usize] as u64;
        let running = u64::from(state.current.0) | state.log.count() << 16;
        let running = [running, sys::thread_pointer() as u64];
        self.words.set_running(running);
        self.words.append(&[
            StepWord::new(StepKind::Enter, word(libc::REG_RIP), 0).0,
            word(libc::REG_RSP),
            word(libc::REG_RAX),
            word(libc::REG_RDX),
            running[0],
            running[1],
        ]);
        self.words.set_inside(true);
        if let TracingMethod::Stepping(stepper) = &mut self.method {
            self.text.allow();
            stepper.begin();
        }
    }

    /// Continues in the traced code under tracing.
    fn resume(&mut self, registers: &mut Registers) {
        match &mut self.method {
            TracingMethod::Stepping(stepper) => stepper.step(registers, &mut self.words),
            TracingMethod::Translated(translator) => {
                let pc = registers[libc::REG_RIP as usize] as u64;
                match translator.translation(pc) {
                    Some(translation) => registers[libc::REG_RIP as usize] = translation as i64,
                    None => end::refuse("it has an instruction that cannot be translated"),
                }
            }
        }
    }

    /// Handles the trap after an executed instruction, before the next one.
    fn stepped(&mut self, registers: &mut Registers, thread: ThreadIx) {
        let pc = registers[libc::REG_RIP as usize] as u64;
        let pauses = self.text.pauses_at(pc);
        if self.text.contains(pc) && !pauses {
            self.resume(registers);
            return;
        }
        self.log_exit(registers);
        stepper::stop(registers);
        if pauses {
            self.pause(thread);
        }
    }

    /// Logs that control has left for code that is not traced.
    fn log_exit(&mut self, registers: &Registers) {
        let word = |r: i32| registers[r as usize] as u64;
        self.words.append(&[
            StepWord::new(StepKind::Leave, word(libc::REG_RIP), 0).0,
            word(libc::REG_RSP),
            word(libc::REG_RDI),
            word(libc::REG_RSI),
            word(libc::REG_RDX),
            word(libc::REG_RCX),
            word(libc::REG_R8),
            word(libc::REG_R9),
            word(libc::REG_RAX),
        ]);
        self.set_outside();
    }

    /// Restores the original return address before the stack is inspected.
    fn restore_return_address(&mut self) {
        if let (TracingMethod::Translated(translator), Some(slot)) = (&self.method, self.words.take_slot()) {
            translator::restore_return_address(translator, slot, self.words.tail());
        }
    }

    fn set_outside(&mut self) {
        self.words.set_inside(false);
        if let TracingMethod::Stepping(_) = self.method
            && self.tracing
        {
            self.text.forbid();
        }
    }
}

/// The general registers as the kernel passes them to a handler.
type Registers = [libc::greg_t; 23];

/// Ends the run: the trace is full.
#[cold]
fn trace_full() -> ! {
    end::refuse(unsnarl_wire::TRACE_FULL)
}
