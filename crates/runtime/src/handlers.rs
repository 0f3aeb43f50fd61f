//! The program's signal handlers.
//!
//! With fibers, the kernel knows one thread, and with it one alternate stack and one signal mask; programs have one
//! of each per thread. So the kernel is given [`entry`] instead of the program's handler. It moves what the
//! kernel wrote to the stack that the thread has for it and lets the handler begin there, as if the kernel
//! had: the handler may wait for other threads, jump out, or return to the interrupted code.
//!
//! Signals that the program sends itself come here when the thread that takes them has them sent ([`raise`]). What comes from
//! other processes comes at any moment, also in the middle of the runtime: it is only noted here, and goes the way of all other
//! signals from the next schedule point on.

use crate::{
    context::ThreadBackend,
    crash, debug,
    real::real,
    signals::{Info, SentSignal, SignalSet},
    state::{Runtime, State},
    sys,
    thread::Thread,
};
use core::{
    cell::UnsafeCell,
    ffi::c_void,
    mem, ptr,
    sync::atomic::{AtomicI32, AtomicUsize, Ordering},
};

real! {
    fn sigaction(signal: i32, new: *const Action, old: *mut Action) -> i32;
}

type Action = libc::sigaction;

struct Table(UnsafeCell<[Option<Action>; 65]>);

// SAFETY: reached by the running thread only.
unsafe impl Sync for Table {}

/// What the program asked for, of signals whose action in the kernel may be another one.
static PROGRAM_ACTIONS: Table = Table(UnsafeCell::new([None; 65]));

fn program_action(signal: i32) -> &'static mut Option<Action> {
    // SAFETY: the running thread only, and nobody keeps the reference; callers know that the number is in range.
    unsafe { &mut (*PROGRAM_ACTIONS.0.get())[signal as usize] }
}

/// Takes charge of a deadly signal, whatever its action is.
pub(crate) fn watch(signal: i32) {
    let inherited = inherited(signal);
    *program_action(signal) = Some(inherited);
    let ours = action_of_kernel(signal, &inherited);
    // SAFETY: the handler fits its signature.
    unsafe { sigaction(signal, &raw const ours, ptr::null_mut()) };
}

/// Has the kernel told again of the action of a signal that is being watched: the tracer's turn has come.
pub(crate) fn watch_again(signal: i32) {
    if let Some(action) = *program_action(signal) {
        let ours = action_of_kernel(signal, &action);
        // SAFETY: the handler fits its signature.
        unsafe { sigaction(signal, &raw const ours, ptr::null_mut()) };
    }
}

/// The program asks for an action, or about it: `sigaction`.
///
/// # Safety
/// As `sigaction`.
pub(crate) unsafe fn exchange(signal: i32, new: *const Action, old: *mut Action) -> i32 {
    if !(1..=64).contains(&signal) {
        // SAFETY: passed on.
        return unsafe { sigaction(signal, new, old) };
    }
    // SAFETY: pointers as by `sigaction`.
    unsafe {
        let new = if new.is_null() { None } else { Some(*new) };
        let given = new.map(|new| action_of_kernel(signal, &new));
        let mut before: Action = mem::zeroed();
        let result = sigaction(signal, given.as_ref().map_or(ptr::null(), |a| a), &raw mut before);
        if result == 0 {
            if !old.is_null() {
                *old = program_action(signal).unwrap_or_else(|| without_leftovers(before));
            }
            *program_action(signal) = new.or(*program_action(signal));
        }
        result
    }
}

/// What becomes of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    Ignored,
    /// The kernel's own action: death, or a stop.
    Fatal,
    Handled,
}

/// What becomes of this signal.
pub(crate) fn disposition(signal: i32) -> Disposition {
    match action(signal).sa_sigaction {
        libc::SIG_IGN => Disposition::Ignored,
        libc::SIG_DFL => match signal {
            libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT => Disposition::Ignored,
            _ => Disposition::Fatal,
        },
        _ => Disposition::Handled,
    }
}

/// Whether what this signal interrupts begins anew.
pub(crate) fn restarts(signal: i32) -> bool {
    action(signal).sa_flags & libc::SA_RESTART != 0
}

fn action(signal: i32) -> Action {
    *program_action(signal).get_or_insert_with(|| inherited(signal))
}

/// The action that the kernel has.
fn inherited(signal: i32) -> Action {
    // SAFETY: all zeros is the default action.
    let mut inherited: Action = unsafe { mem::zeroed() };
    // SAFETY: a query without side effects.
    unsafe { sigaction(signal, ptr::null(), &raw mut inherited) };
    without_leftovers(inherited)
}

/// The C library's masks have room for more signals than there are, and there it leaves what was on its stack: random numbers of
/// the loader's, which differ from run to run.
fn without_leftovers(mut action: Action) -> Action {
    const WORDS: usize = size_of::<libc::sigset_t>() / size_of::<SignalSet>();
    let mask = (&raw mut action.sa_mask).cast::<[SignalSet; WORDS]>();
    // SAFETY: as large as the mask, whose first word are all signals that there are.
    unsafe { (&mut *mask)[1..].fill(0) };
    action
}

/// The signal that the running thread sends itself just now.
static RAISED: AtomicI32 = AtomicI32::new(0);

/// The running thread, which does not block it, gets a signal; returns when its handler has.
#[inline(never)]
pub(crate) extern "C-unwind" fn raise(sent: &SentSignal) {
    let info = sent.info;
    RAISED.store(sent.signal, Ordering::Relaxed);
    // SAFETY: a signal to ourselves; what its handler does is the program's business.
    unsafe { send_to_self(sent.signal, &raw const info) };
    let _ = RAISED.compare_exchange(sent.signal, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// Queues a signal for the calling thread. The kernel's numbers of process and thread, which differ from run to run, stay in
/// registers, and [`deliver`] keeps them from the handler.
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

/// As many signals from outside are kept from one schedule point to the next.
const ROOM: usize = 32;

struct Arrivals(UnsafeCell<[SentSignal; ROOM]>, AtomicUsize);

// SAFETY: written by handlers on the running thread, and read by it with signals blocked.
unsafe impl Sync for Arrivals {}

static ARRIVALS: Arrivals = Arrivals(
    UnsafeCell::new([SentSignal { signal: 0, info: Info([0; 32]), event: u64::MAX }; ROOM]),
    AtomicUsize::new(0),
);

/// Whether something came from outside.
pub(crate) fn has_arrivals() -> bool {
    ARRIVALS.1.load(Ordering::Relaxed) > 0
}

/// A signal came from outside, in the middle of something.
fn arrived(runtime: &mut Runtime, signal: i32, info: *const libc::siginfo_t) {
    let count = ARRIVALS.1.load(Ordering::Relaxed);
    if count < ROOM {
        // SAFETY: the kernel's description; we are the only one here.
        unsafe { (*ARRIVALS.0.get())[count] = SentSignal { signal, info: *info.cast(), event: u64::MAX } };
        ARRIVALS.1.store(count + 1, Ordering::Relaxed);
    }
    // SAFETY: a word of its own, to be seen at the next schedule point.
    unsafe { (&raw mut runtime.state.observed).write_volatile(true) };
}

/// Whether another process, or the kernel in its name, sent the signal.
fn is_from_environment(signal: i32, info: &Info) -> bool {
    // Fault addresses, kinds of traps …: of what the thread itself did.
    let own = crash::DEADLY.contains(&signal) && info.code() > 0;
    let timer = matches!(signal, libc::SIGPROF | libc::SIGVTALRM);
    let by_us = info.code() <= 0 && info.process() == sys::process();
    !own && !timer && !by_us
}

/// What the kernel is told of an action that the program wants.
fn action_of_kernel(signal: i32, requested: &Action) -> Action {
    let deadly = crash::DEADLY.contains(&signal);
    let mut action = *requested;
    if requested.sa_sigaction > libc::SIG_IGN {
        // A stack may have overflown: what is to be said about that cannot be said there.
        action.sa_flags |= if deadly { libc::SA_ONSTACK } else { 0 };
    } else if deadly && (signal == libc::SIGSYS || !debug::is_on()) {
        action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER;
    } else {
        // A debugger stops at a deadly signal by itself; what follows should be as deadly as without us.
        return action;
    }
    action.sa_sigaction = entry as *const () as usize;
    crate::tracer::adapt(signal, &mut action);
    crate::dispatch::adapt(signal, &mut action);
    // That it is meant for one time only is remembered here: the signal stays ours.
    action.sa_flags = (action.sa_flags | libc::SA_SIGINFO) & !libc::SA_RESETHAND;
    action
}

/// How a signal reaches the program.
#[repr(C)]
struct Delivery {
    /// The stack pointer, at the return address.
    stack: usize,
    /// Null to go on as if nothing had been.
    handler: usize,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
}

/// What the kernel calls: goes on at the handler, on the stack where it belongs. Its return address is the
/// way back into the kernel.
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

/// Decides what becomes of a signal. `frame` is what the kernel wrote: the return address, the context,
/// the information, the floating-point state.
unsafe extern "C" fn deliver(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
    frame: usize,
    delivery: &mut Delivery,
) {
    *delivery = Delivery { stack: frame, handler: 0, signal, info, context };
    let Some(action) = *program_action(signal) else { return };
    // SAFETY: the kernel's own description.
    let by_the_kernel = unsafe { (*info).si_code } > 0;
    let aborts = signal == libc::SIGABRT && crash::is_aborting();
    match action.sa_sigaction {
        libc::SIG_IGN if !by_the_kernel && !aborts => return,
        // A fault cannot be ignored: it would happen again.
        libc::SIG_DFL | libc::SIG_IGN => return crash::die(signal, info, context),
        handler => delivery.handler = handler,
    }
    let raised = RAISED.compare_exchange(signal, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if raised {
        // SAFETY: the kernel's copy of the registers in `send_to_self`, which uses these two no more.
        let registers = unsafe { &mut (*context).uc_mcontext.gregs };
        for id in [libc::REG_RDI, libc::REG_RSI] {
            registers[id as usize] = 0;
        }
    }
    // SAFETY: the kernel's own description.
    let from_outside = !raised && !aborts && is_from_environment(signal, unsafe { &*info.cast() });
    if from_outside && let Some(runtime) = Runtime::interrupted() {
        arrived(runtime, signal, info);
        delivery.handler = 0;
        return;
    }
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        // SAFETY: all zeros is the default action.
        let default: Action = unsafe { mem::zeroed() };
        // SAFETY: as the kernel would have done.
        unsafe { exchange(signal, &raw const default, ptr::null_mut()) };
    }
    if aborts {
        // If the handler returns, `abort` would end the program without asking anybody.
        // SAFETY: the program installed it for this; one that takes one argument ignores the others.
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
        // A handler that jumps out of a fault does not come back to the operation.
        runtime.log_unfinished();
    }
    // The kernel blocks signals while the handler runs, for this thread and not for the others.
    runtime.state.masks_differ = true;
    let shared = crash::stack();
    if !shared.contains(&frame) {
        return;
    }
    // SAFETY: the context is the kernel's.
    let interrupted = unsafe { (*context).uc_mcontext.gregs[libc::REG_RSP as usize] } as usize;
    let Some(place) = runtime.state.me().place_for(&action, interrupted, frame, shared.end - frame) else {
        return crash::die(signal, info, context);
    };
    let moved = place.wrapping_sub(frame);
    // SAFETY: the frame reaches up to the end of the shared stack, and there is room for it where the thread
    // has its stack. The context tells where the floating-point state is; that moves too.
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
    /// Where `size` bytes that the kernel wrote at `frame` go: to the thread's alternate stack if the handler
    /// wants one and there is one, else below what was interrupted. None if there is no room.
    fn place_for(&self, action: &Action, interrupted: usize, frame: usize, size: usize) -> Option<usize> {
        const RED_ZONE: usize = 128;
        /// The floating-point state must stay as aligned as it is.
        const ALIGNMENT: usize = 64;
        /// What a handler needs at the very least.
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

/// Bytes of a mask.
const SIZE: usize = size_of::<u64>();

/// The calling kernel thread's signal mask.
pub(crate) fn kernel_mask() -> u64 {
    let mut mask = 0u64;
    // SAFETY: a query without side effects.
    unsafe { sys::call(libc::SYS_rt_sigprocmask, [0, 0, &raw mut mask as usize, SIZE, 0, 0]) };
    mask
}

/// Gives it another one; the one before.
fn exchange_kernel_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let (set, new, old) = (libc::SIG_SETMASK as usize, &raw const mask as usize, &raw mut before as usize);
    // SAFETY: the calling thread's own mask.
    unsafe { sys::call(libc::SYS_rt_sigprocmask, [set, new, old, SIZE, 0, 0]) };
    before
}

impl State {
    /// The running thread's signal mask.
    pub(crate) fn mask(&mut self) -> u64 {
        if self.masks_differ {
            self.read_mask();
        }
        self.me().mask
    }

    /// Gives the running thread another one.
    pub(crate) fn set_mask(&mut self, mask: u64) {
        self.masks_differ = true;
        let mask = crate::tracer::mask(mask);
        let (set, new) = (libc::SIG_SETMASK as usize, &raw const mask as usize);
        // SAFETY: the running thread's own.
        unsafe { sys::call(libc::SYS_rt_sigprocmask, [set, new, 0, SIZE, 0, 0]) };
        self.me().mask = mask;
    }

    /// What came from outside is on its way from now on.
    #[cold]
    pub(crate) fn take_arrivals(&mut self) {
        let before = exchange_kernel_mask(!0);
        let mut arrivals = alloc::vec::Vec::new();
        // SAFETY: no handler runs now.
        arrivals
            .extend_from_slice(unsafe { &(&(*ARRIVALS.0.get()))[..ARRIVALS.1.swap(0, Ordering::Relaxed)] });
        let plan = &self.log.header().plan;
        self.observed = plan.choices > 0 || plan.debugged != 0;
        exchange_kernel_mask(before);
        // If the plan says what comes from outside, nothing else does.
        if !self.log.replays_inputs() {
            for sent in arrivals {
                self.send(sent, None);
            }
        }
    }

    /// Asks the kernel for it.
    pub(crate) fn read_mask(&mut self) {
        let place = &raw mut self.me().mask as usize;
        // SAFETY: a query without side effects.
        unsafe { sys::call(libc::SYS_rt_sigprocmask, [0, 0, place, SIZE, 0, 0]) };
    }

    /// The running thread has just been switched to: it takes its own mask and leaves behind that of who
    /// ran before.
    #[cold]
    pub(crate) fn take_mask(&mut self) {
        if self.backend() == ThreadBackend::Kernel {
            // To the kernel, too, it is its own.
            return;
        }
        let mine = crate::dispatch::mask(crate::tracer::mask(self.me().mask));
        let theirs = &raw mut self.thread(self.previous).mask as usize;
        let (set, new) = (libc::SIG_SETMASK as usize, &raw const mine as usize);
        // SAFETY: the mask that this thread had.
        unsafe { sys::call(libc::SYS_rt_sigprocmask, [set, new, theirs, SIZE, 0, 0]) };
    }
}
