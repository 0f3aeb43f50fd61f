//! The program's signal handlers.
//!
//! With fibers, the kernel knows one thread with one alternate stack and one signal mask; programs have one
//! of each per thread. So the kernel is given [`entry`] instead of the program's handler. It moves the
//! kernel's signal frame to the proper stack of the thread and starts the handler there, as the kernel would:
//! the handler may wait for other threads, jump out, or return to the interrupted code.
//!
//! Signals that the program sends to itself arrive here when the thread that takes them raises them
//! ([`raise`]). Signals from other processes arrive at any moment, also inside the runtime: they are only
//! noted here and are handled like other signals from the next schedule point on.

use crate::{
    context::{Context, ThreadBackend},
    crash, debug,
    real::real,
    signals::{Info, SentSignal, SignalSet, only},
    stack,
    state::{Runtime, State},
    sys,
    thread::Thread,
    time_stamp, unblockable,
};
use core::{
    cell::UnsafeCell,
    ffi::c_void,
    mem, ptr,
    sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering},
};

real! {
    fn sigaction(signal: i32, new: *const Action, old: *mut Action) -> i32;
}

type Action = libc::sigaction;

struct Table(UnsafeCell<[Option<Action>; 65]>);

// SAFETY: only the running thread reaches it.
unsafe impl Sync for Table {}

/// The actions that the program set, for signals whose action in the kernel may differ.
static PROGRAM_ACTIONS: Table = Table(UnsafeCell::new([None; 65]));

fn program_action(signal: i32) -> &'static mut Option<Action> {
    // SAFETY: only the running thread gets here, and no caller keeps the reference; callers check that the
    // number is in range.
    unsafe { &mut (*PROGRAM_ACTIONS.0.get())[signal as usize] }
}

/// Takes charge of a fatal signal, whatever its action is.
pub(crate) fn take_over(signal: i32) {
    let inherited = inherited(signal);
    *program_action(signal) = Some(inherited);
    let ours = action_of_kernel(signal, &inherited);
    // SAFETY: the handler has the required signature.
    unsafe { sigaction(signal, &raw const ours, ptr::null_mut()) };
}

/// Takes charge of the handlers that were installed before control began.
pub(crate) fn take_over_actions() {
    for signal in (1..=64).filter(|signal| !crash::DEADLY.contains(signal)) {
        let action = inherited(signal);
        if action.sa_sigaction > libc::SIG_IGN {
            // SAFETY: the program's own action.
            unsafe { exchange(signal, &raw const action, ptr::null_mut()) };
        }
    }
}

/// Sets the kernel's action of a watched signal again, because the tracer now takes part.
pub(crate) fn refresh_action(signal: i32) {
    if let Some(action) = *program_action(signal) {
        let ours = action_of_kernel(signal, &action);
        // SAFETY: the handler has the required signature.
        unsafe { sigaction(signal, &raw const ours, ptr::null_mut()) };
    }
}

/// Sets or queries an action for the program: `sigaction`.
///
/// # Safety
/// The contract of `sigaction`.
pub(crate) unsafe fn exchange(signal: i32, new: *const Action, old: *mut Action) -> i32 {
    if !(1..=64).contains(&signal) {
        // SAFETY: passed on unchanged.
        return unsafe { sigaction(signal, new, old) };
    }
    // SAFETY: the pointers satisfy the contract of `sigaction`.
    unsafe {
        let new = if new.is_null() { None } else { Some(*new) };
        let given = new.map(|new| action_of_kernel(signal, &new));
        let mut before: Action = mem::zeroed();
        let program_before = *program_action(signal);
        if new.is_some_and(|new| new.sa_sigaction > libc::SIG_IGN) {
            // A signal may be delivered as soon as the kernel has the handler.
            *program_action(signal) = new;
        }
        let result = sigaction(signal, given.as_ref().map_or(ptr::null(), |a| a), &raw mut before);
        *program_action(signal) = program_before;
        if result == 0 {
            if !old.is_null() {
                *old = program_before.unwrap_or_else(|| without_stale_bytes(before));
            }
            *program_action(signal) = new.map(|new| as_reported(signal, new)).or(program_before);
        }
        result
    }
}

/// Returns the action that the program finds after it set this one: the C library adds how handlers return, and the kernel
/// removes what cannot be blocked.
fn as_reported(signal: i32, requested: Action) -> Action {
    const SA_RESTORER: i32 = 0x0400_0000;
    let kernels = inherited(signal);
    let mut kept = requested;
    kept.sa_flags |= kernels.sa_flags & SA_RESTORER;
    kept.sa_restorer = kernels.sa_restorer;
    // SAFETY: the first word of the mask holds all existing signals.
    unsafe { *(&raw mut kept.sa_mask).cast::<SignalSet>() &= !(only(libc::SIGKILL) | only(libc::SIGSTOP)) };
    kept
}

/// The effect of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    Ignored,
    /// The kernel's default action: death or a stop.
    Fatal,
    Handled,
}

/// Returns the effect of this signal.
pub(crate) fn disposition(signal: i32) -> Disposition {
    match action(signal).sa_sigaction {
        libc::SIG_IGN => Disposition::Ignored,
        libc::SIG_DFL if IGNORED.contains(&signal) => Disposition::Ignored,
        libc::SIG_DFL => Disposition::Fatal,
        _ => Disposition::Handled,
    }
}

/// The signals whose default is that nothing happens.
const IGNORED: [i32; 4] = [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];

/// Returns those of them that the program does not handle.
pub(crate) fn ignored_by_default() -> SignalSet {
    let ignored = IGNORED.iter().filter(|&&signal| disposition(signal) == Disposition::Ignored);
    ignored.fold(0, |set, &signal| set | only(signal))
}

/// Returns whether operations that this signal interrupts are restarted.
pub(crate) fn restarts(signal: i32) -> bool {
    action(signal).sa_flags & libc::SA_RESTART != 0
}

fn action(signal: i32) -> Action {
    *program_action(signal).get_or_insert_with(|| inherited(signal))
}

/// Returns the kernel's action.
fn inherited(signal: i32) -> Action {
    // SAFETY: all zeros is the default action.
    let mut inherited: Action = unsafe { mem::zeroed() };
    // SAFETY: a query without side effects.
    unsafe { sigaction(signal, ptr::null(), &raw mut inherited) };
    without_stale_bytes(inherited)
}

/// Clears the unused part of the mask: the C library's masks have room for more signals than exist and leave
/// stack contents there, such as the loader's random numbers, which differ from run to run.
fn without_stale_bytes(mut action: Action) -> Action {
    const WORDS: usize = size_of::<libc::sigset_t>() / size_of::<SignalSet>();
    let mask = (&raw mut action.sa_mask).cast::<[SignalSet; WORDS]>();
    // SAFETY: as large as the mask, whose first word holds all existing signals.
    unsafe { (&mut *mask)[1..].fill(0) };
    action
}

/// The signal that the running thread is sending to itself.
static RAISED: AtomicI32 = AtomicI32::new(0);

/// Delivers a signal to the running thread, which does not block it; returns after its handler.
#[inline(never)]
pub(crate) extern "C-unwind" fn raise(sent: &SentSignal) {
    let info = sent.info;
    RAISED.store(sent.signal, Ordering::Relaxed);
    // SAFETY: a signal to this thread; its handler is the program's.
    unsafe { send_to_self(sent.signal, &raw const info) };
    let _ = RAISED.compare_exchange(sent.signal, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// Queues a signal for the calling thread. The kernel's process and thread ids, which differ from run to run,
/// stay in registers, and [`deliver`] hides them from the handler.
#[unsafe(naked)]
unsafe extern "C-unwind" fn send_to_self(signal: i32, info: *const Info) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "mov edx, edi",
        "mov r10, rsi",
        "mov eax, {getpid}",
        "syscall",
        "mov edi, eax",
        "mov eax, {gettid}",
        "syscall",
        "mov esi, eax",
        "mov eax, {queue}",
        "syscall",
        "xor edi, edi",
        "xor esi, esi",
        "ret",
        ".cfi_endproc",
        getpid = const libc::SYS_getpid,
        gettid = const libc::SYS_gettid,
        queue = const libc::SYS_rt_tgsigqueueinfo,
    )
}

/// The maximum number of signals from outside between two schedule points.
const ROOM: usize = 32;

struct Arrivals(UnsafeCell<[SentSignal; ROOM]>, AtomicUsize);

// SAFETY: written by handlers on the running thread, and read by it with signals blocked.
unsafe impl Sync for Arrivals {}

static ARRIVALS: Arrivals = Arrivals(
    UnsafeCell::new([SentSignal { signal: 0, info: Info([0; 32]), event: None }; ROOM]),
    AtomicUsize::new(0),
);

/// Returns whether signals from outside have arrived.
pub(crate) fn has_arrivals() -> bool {
    ARRIVALS.1.load(Ordering::Relaxed) > 0
}

/// Notes a signal from outside, which may interrupt anything.
fn note_arrival(runtime: &mut Runtime, signal: i32, info: *const libc::siginfo_t) {
    let count = ARRIVALS.1.load(Ordering::Relaxed);
    if count < ROOM {
        // SAFETY: the kernel's description; handlers do not run concurrently.
        unsafe { (*ARRIVALS.0.get())[count] = SentSignal { signal, info: *info.cast(), event: None } };
        ARRIVALS.1.store(count + 1, Ordering::Relaxed);
    }
    // SAFETY: a separate flag, which is read at the next schedule point.
    unsafe { (&raw mut runtime.state.observed).write_volatile(true) };
    // The program may wait for the handler in a loop without schedule points.
    crate::watchdog::install();
}

/// Returns whether another process, or the kernel on its behalf, sent the signal. So did a timer of the kernel.
fn is_from_environment(signal: i32, info: &Info) -> bool {
    // The thread itself caused it: faults, traps and the like.
    let own = crash::DEADLY.contains(&signal) && info.code() > 0;
    let by_us = info.code() <= 0 && info.process() == sys::process();
    !own && !by_us
}

/// Returns the kernel's action for an action that the program requests.
fn action_of_kernel(signal: i32, requested: &Action) -> Action {
    let deadly = crash::DEADLY.contains(&signal);
    let mut action = *requested;
    if requested.sa_sigaction > libc::SIG_IGN {
        // The stack may have overflown, so the runtime cannot report there.
        action.sa_flags |= if deadly { libc::SA_ONSTACK } else { 0 };
    } else if deadly && (signal == libc::SIGSYS || !debug::is_on()) {
        action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER;
    } else {
        // A debugger stops at a fatal signal by itself; afterwards the signal should be fatal as without the
        // runtime.
        return action;
    }
    action.sa_sigaction = entry as *const () as usize;
    crate::tracer::adapt_action(signal, &mut action);
    unblockable::adapt_action(&mut action);
    crate::dispatch::adapt_action(signal, &mut action);
    // One-shot handlers are handled by the runtime: its own handler stays installed.
    action.sa_flags = (action.sa_flags | libc::SA_SIGINFO) & !libc::SA_RESETHAND;
    action
}

/// The way in which a signal reaches the program.
#[repr(C)]
struct Delivery {
    /// The stack pointer, at the return address.
    stack: usize,
    /// Null to continue without a handler.
    handler: usize,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
}

/// The kernel's entry point: continues at the handler on the proper stack. The handler's return address leads
/// back into the kernel.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn entry(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    core::arch::naked_asm!(
        "mov rcx, rsp",
        "sub rsp, 56",
        "mov r8, rsp",
        "call {}",
        "mov rax, [rsp + 8]",
        "mov edi, [rsp + 16]",
        "mov rsi, [rsp + 24]",
        "mov rdx, [rsp + 32]",
        "mov rsp, [rsp]",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        "ret",
        sym deliver
    )
}

/// Decides how to handle a signal. `frame` is the kernel's signal frame: the return address, the context, the
/// information, the floating-point state.
unsafe extern "C" fn deliver(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
    frame: usize,
    delivery: &mut Delivery,
) {
    *delivery = Delivery { stack: frame, handler: 0, signal, info, context };
    // SAFETY: the kernel's description of the signal.
    let code = unsafe { (*info).si_code };
    // SAFETY: the kernel's description of the interrupted context.
    if time_stamp::answer(signal, code, unsafe { &mut *context }) {
        return;
    }
    let Some(action) = *program_action(signal) else { return };
    let by_the_kernel = code > 0;
    let is_fault = by_the_kernel && crash::DEADLY.contains(&signal);
    let aborts = signal == libc::SIGABRT && crash::is_aborting();
    if is_fault {
        // A fault whose signal the program blocks kills it.
        let blocked =
            Runtime::interrupted().map_or(0, |runtime| runtime.state.me().context.blocked_unblockable());
        if blocked & only(signal) != 0 {
            return crash::die(signal, info, context);
        }
        if signal == libc::SIGSEGV && action.sa_sigaction > libc::SIG_IGN {
            // Its handler may run with this signal blocked, where no further fault can be handled.
            time_stamp::stop();
        }
    }
    match action.sa_sigaction {
        libc::SIG_IGN if !is_fault && !aborts => return,
        libc::SIG_DFL if IGNORED.contains(&signal) => return,
        // A fault cannot be ignored: it would recur.
        libc::SIG_DFL | libc::SIG_IGN => return crash::die(signal, info, context),
        handler => delivery.handler = handler,
    }
    let raised = RAISED.compare_exchange(signal, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if raised {
        // SAFETY: the kernel's copy of the registers in `send_to_self`, which no longer uses these two.
        let registers = unsafe { &mut (*context).uc_mcontext.gregs };
        for id in [libc::REG_RDI, libc::REG_RSI] {
            registers[id as usize] = 0;
        }
    }
    // SAFETY: the kernel's description of the signal.
    let from_outside = !raised && !aborts && is_from_environment(signal, unsafe { &*info.cast() });
    if from_outside && let Some(runtime) = Runtime::interrupted() {
        note_arrival(runtime, signal, info);
        delivery.handler = 0;
        return;
    }
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        let reset = Action { sa_sigaction: libc::SIG_DFL, ..action };
        // SAFETY: what the kernel would have done.
        unsafe { exchange(signal, &raw const reset, ptr::null_mut()) };
    }
    if aborts {
        // If the handler returned, `abort` would end the program without a report.
        // SAFETY: the program installed the handler for this signal; one with a single parameter ignores the
        // other arguments.
        unsafe {
            let handler: extern "C-unwind" fn(i32, *mut libc::siginfo_t, *mut libc::ucontext_t) =
                mem::transmute(delivery.handler);
            handler(signal, info, context);
        }
        return crash::die(signal, info, context);
    }
    let Some(runtime) = Runtime::interrupted() else { return };
    crate::tracer::interrupted(context);
    if by_the_kernel {
        // A handler that jumps out of a fault does not return to the operation.
        runtime.log_unfinished();
    }
    // The kernel blocks signals while the handler runs, for this thread and not for the others.
    runtime.state.masks_differ = true;
    let shared = crash::stack();
    if !shared.contains(&frame) {
        return;
    }
    // SAFETY: the kernel's context.
    let interrupted = unsafe { (*context).uc_mcontext.gregs[libc::REG_RSP as usize] } as usize;
    let Some(place) = runtime.state.me().frame_place(&action, interrupted, frame, shared.end - frame) else {
        return crash::die(signal, info, context);
    };
    let moved = place.wrapping_sub(frame);
    // SAFETY: the frame reaches up to the end of the shared stack, and there is room for it on the thread's
    // stack. The context points to the floating-point state, which is moved too.
    unsafe {
        ptr::copy_nonoverlapping(frame as *const u8, place as *mut u8, shared.end - frame);
        delivery.stack = place;
        delivery.info = info.wrapping_byte_add(moved);
        delivery.context = context.wrapping_byte_add(moved);
        let registers = &mut (*delivery.context).uc_mcontext;
        if !registers.fpregs.is_null() {
            registers.fpregs = registers.fpregs.wrapping_byte_add(moved);
        }
    }
}

impl Thread {
    /// Returns where the `size` bytes of the kernel's frame go: to the thread's alternate stack if the
    /// handler asks for it and it exists, else below the interrupted frame. Returns `None` if there is no
    /// room.
    fn frame_place(&self, action: &Action, interrupted: usize, frame: usize, size: usize) -> Option<usize> {
        const RED_ZONE: usize = 128;
        /// The alignment that the floating-point state must keep.
        const ALIGNMENT: usize = 64;
        /// The minimum stack for a handler.
        const ROOM: usize = 1024;
        let own = &self.alternate_stack;
        let alternate = own.ss_sp as usize..own.ss_sp as usize + own.ss_size;
        let uses_alternate_stack =
            action.sa_flags & libc::SA_ONSTACK != 0 && own.ss_flags & libc::SS_DISABLE == 0;
        let below = |top: usize| {
            let place = top.checked_sub(size)?;
            Some(place - (place.wrapping_sub(frame) & (ALIGNMENT - 1)))
        };
        if uses_alternate_stack && !alternate.contains(&interrupted) {
            return below(alternate.end).filter(|place| *place >= alternate.start + ROOM);
        }
        below(interrupted - RED_ZONE).filter(|place| sys::is_readable(place - ROOM))
    }
}

/// The size of a mask in bytes.
const MASK_BYTES: usize = size_of::<u64>();

/// Returns the calling kernel thread's signal mask.
pub(crate) fn kernel_mask() -> u64 {
    let mut mask = 0u64;
    // SAFETY: a query without side effects.
    unsafe { sys::call(libc::SYS_rt_sigprocmask, [0, 0, &raw mut mask as usize, MASK_BYTES, 0, 0]) };
    mask
}

/// Sets the calling kernel thread's mask; returns the previous one.
fn exchange_kernel_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let (set, new, old) = (libc::SIG_SETMASK as usize, &raw const mask as usize, &raw mut before as usize);
    // SAFETY: the calling thread's mask.
    unsafe { sys::call(libc::SYS_rt_sigprocmask, [set, new, old, MASK_BYTES, 0, 0]) };
    before
}

/// Signals that the kernel keeps until they are read from a descriptor. Such a signal is directed at one thread. All
/// kernel threads block it, so that the kernel cannot deliver it to another one.
static KEPT_IN_KERNEL: AtomicU64 = AtomicU64::new(0);

/// Returns which of the signals have not been read yet; the others are no longer kept.
fn still_kept() -> u64 {
    if KEPT_IN_KERNEL.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let mut pending = 0u64;
    // SAFETY: there is room for the result.
    unsafe { sys::call(libc::SYS_rt_sigpending, [&raw mut pending as usize, MASK_BYTES, 0, 0, 0, 0]) };
    KEPT_IN_KERNEL.fetch_and(pending, Ordering::Relaxed) & pending
}

/// Returns the mask for the kernel: the thread's own and the signals that the kernel keeps. Updates the
/// thread's added mask. A replay gets another mask, so this must leave no trace on the program's stack.
pub(crate) fn mask_with_kept(context: &Context, own: u64) -> u64 {
    let kept = still_kept();
    context.set_added_mask(kept & !own);
    own | kept
}

impl State {
    /// Blocks a signal in every thread until it is read from a descriptor.
    pub(crate) fn block_kept(&mut self, signal: SignalSet) {
        let own = kernel_mask() & !self.me().context.added_mask();
        KEPT_IN_KERNEL.fetch_or(signal, Ordering::Relaxed);
        let kept = KEPT_IN_KERNEL.load(Ordering::Relaxed);
        self.me().context.set_added_mask(kept & !own);
        exchange_kernel_mask(own | kept);
    }

    /// Stops blocking these signals when the kernel keeps none any more.
    pub(crate) fn unblock_kept(&mut self) {
        KEPT_IN_KERNEL.store(0, Ordering::Relaxed);
        let added_mask = self.me().context.added_mask();
        if added_mask != 0 {
            self.me().context.set_added_mask(0);
            exchange_kernel_mask(kernel_mask() & !added_mask);
        }
    }

    /// Returns the running thread's signal mask.
    pub(crate) fn mask(&mut self) -> u64 {
        if self.masks_differ {
            self.read_mask();
        }
        self.me().mask
    }

    /// Sets the running thread's signal mask.
    pub(crate) fn set_mask(&mut self, mask: u64) {
        self.take_kept();
        self.masks_differ = true;
        self.note_mask(mask);
        let of_kernel = unblockable::mask(mask);
        let (set, new) = (libc::SIG_SETMASK as usize, &raw const of_kernel as usize);
        // SAFETY: the running thread's mask.
        unsafe { sys::call(libc::SYS_rt_sigprocmask, [set, new, 0, MASK_BYTES, 0, 0]) };
        self.me().mask = mask;
        self.send_kept_again();
    }

    /// Sends the signals that arrived from outside.
    #[cold]
    pub(crate) fn take_arrivals(&mut self) {
        let before = exchange_kernel_mask(!0);
        let mut arrivals = alloc::vec::Vec::new();
        // SAFETY: no handler runs now.
        arrivals
            .extend_from_slice(unsafe { &(&(*ARRIVALS.0.get()))[..ARRIVALS.1.swap(0, Ordering::Relaxed)] });
        self.observed = crate::init::is_observed(&self.log.header().plan);
        exchange_kernel_mask(before);
        // If the plan supplies the inputs, real ones are ignored.
        if !self.log.replays_inputs() {
            for sent in arrivals {
                self.send(sent, None);
            }
        }
    }

    /// Reads the mask from the kernel.
    pub(crate) fn read_mask(&mut self) {
        let place = &raw mut self.me().mask as usize;
        // SAFETY: a query without side effects.
        unsafe { sys::call(libc::SYS_rt_sigprocmask, [0, 0, place, MASK_BYTES, 0, 0]) };
        let me = self.me();
        me.mask = me.context.own_mask(me.mask);
    }

    /// Sets the running thread's mask after a switch, and saves that of the thread that ran before.
    #[cold]
    pub(crate) fn take_mask(&mut self) {
        if self.backend() == ThreadBackend::Kernel {
            // The kernel keeps a mask per thread anyway.
            return;
        }
        stack::run_isolated(|| {
            let me = self.me();
            let own_mask = mask_with_kept(&me.context, me.mask);
            let own_mask = crate::dispatch::mask(unblockable::mask(own_mask));
            let previous_mask = &raw mut self.thread(self.previous).mask as usize;
            let (set, new) = (libc::SIG_SETMASK as usize, &raw const own_mask as usize);
            // SAFETY: the mask that this thread had.
            unsafe { sys::call(libc::SYS_rt_sigprocmask, [set, new, previous_mask, MASK_BYTES, 0, 0]) };
            let previous = self.thread(self.previous);
            previous.mask = previous.context.own_mask(previous.mask);
        });
    }
}
