//! Rewinding: a process that made a run returns to its start for the next one.
//!
//! Creating a process for each run costs hundreds of microseconds, most of them in the kernel, and a short
//! run takes ten. But a run of fibers is the memory of one kernel thread: if that is restored ([`memory`]),
//! the next run finds everything as the first one did, as after a fork. Everything else that a run could
//! leave behind is forbidden ([`filter`]): a program that needs more is run by forks. Rewinding happens only
//! after runs that end by an exit; otherwise the process ends with the run.
//!
//! The code that rewinds uses a separate stack, in memory that is not restored, and calls no function that
//! keeps state elsewhere.

mod filter;
mod layout;
mod memory;
pub(crate) mod thread_start;

use crate::{
    dispatch,
    real::Real,
    redirect::CodeWriter,
    stack::{pop_callee_saved, push_callee_saved},
    state::Runtime,
    sys,
};
use core::{
    arch::{
        naked_asm,
        x86_64::{__cpuid, __cpuid_count, _mm_pause},
    },
    mem::offset_of,
    sync::atomic::{AtomicBool, Ordering},
};
use layout::MappingLayout;
use memory::SavedMemory;
use unsnarl_wire::{EndKind, Header, Request};

/// The address of the state that is not restored.
const STATE_ADDRESS: usize = 0x6e00_0000_0000;
/// Registers that programs may use: x87, SSE, AVX and AVX-512.
const REGISTERS: u32 = 0xe7;
const REGISTER_BYTES: usize = 4096;
const STACK: usize = 128 << 10;

/// The state that is not restored. It initially consists of zeros.
#[repr(C, align(4096))]
struct RewindState {
    /// Vector registers at the checkpoint.
    registers: [u8; REGISTER_BYTES],
    stack: [u8; STACK],
    /// The stack pointer at the checkpoint.
    stack_pointer: usize,
    thread_pointer: usize,
    /// The channel on which runs are requested.
    channel: i32,
    process: i32,
    /// The signals that are blocked at the checkpoint.
    mask: u64,
    header: *const Header,
    /// The number of events for which the kernel has provided memory.
    room: u64,
    memory: SavedMemory,
    layout: MappingLayout,
}

fn state() -> *mut RewindState {
    STATE_ADDRESS as *mut RewindState
}

/// True if this process is rewound.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The top of the stack for rewinding.
const TOP: usize = STATE_ADDRESS + offset_of!(RewindState, stack) + STACK;

/// Returns once for each run that this process makes; the first one has begun. Returns false if the process
/// cannot be rewound: then there is only one run, and the process must not use the channel.
pub(crate) fn enter_checkpoint(channel: i32, header: *const Header) -> bool {
    if !has_registers() || dispatch::is_enabled() || !sys::reserve(STATE_ADDRESS, size_of::<RewindState>()) {
        return false;
    }
    // SAFETY: just created, and only this thread accesses it.
    unsafe {
        let state = state();
        (*state).channel = channel;
        (*state).process = sys::process();
        (*state).header = header;
        let args = [0, 0, &raw mut (*state).mask as usize, size_of::<u64>(), 0, 0];
        sys::call(libc::SYS_rt_sigprocmask, args);
        (*state).layout.disable();
        if !(*state).memory.prepare() || !install_redirects() || !filter::install() {
            thread_start::disable();
            return false;
        }
        IS_ON.store(true, Ordering::Relaxed);
        checkpoint();
        // Signals are delivered only when the thread is restored.
        set_mask(&(*state).mask);
    }
    true
}

/// Returns whether the kernel has already provided memory for so many events; otherwise notes that it is
/// about to.
pub(crate) fn is_populated(events: u64) -> bool {
    if !IS_ON.load(Ordering::Relaxed) {
        return false;
    }
    // SAFETY: only this thread accesses it.
    let room = unsafe { &mut (*state()).room };
    let has = *room >= events;
    *room = events.max(*room);
    has
}

/// Returns whether the processor can save registers with `xsave`, and whether there is room for them.
fn has_registers() -> bool {
    const XSAVE_IS_ON: u32 = 1 << 27;
    // AVX-512's registers are the last ones used.
    let end = |part: u32| __cpuid_count(0xd, part).eax + __cpuid_count(0xd, part).ebx;
    __cpuid(0).eax >= 0xd
        && __cpuid(1).ecx & XSAVE_IS_ON != 0
        && [2, 5, 6, 7].into_iter().all(|part| end(part) as usize <= REGISTER_BYTES)
}

/// Redirects functions of the C library, among them the one that every exit calls.
fn install_redirects() -> bool {
    static EXIT: Real = Real::new(c"_exit");
    let Some(code) = CodeWriter::open() else { return false };
    let redirect = |from: &Real, to: usize| code.redirect(from, to);
    redirect(&EXIT, on_exit as *const () as usize)
        && layout::install_redirects(redirect)
        && thread_start::install_redirects(redirect)
}

/// Saves the caller's context and the memory, and returns once for each run.
#[unsafe(naked)]
unsafe extern "C" fn checkpoint() {
    naked_asm!(
        push_callee_saved!(),
        "movabs rdi, {place}",
        "mov eax, {registers}",
        "xor edx, edx",
        "xsave64 [rdi]",
        "rdfsbase rax",
        "mov [rdi + {thread_pointer}], rax",
        "mov [rdi + {stack_pointer}], rsp",
        "movabs rsp, {top}",
        "call {save_memory}",
        "jmp {resume}",
        place = const STATE_ADDRESS,
        top = const TOP,
        registers = const REGISTERS,
        thread_pointer = const offset_of!(RewindState, thread_pointer),
        stack_pointer = const offset_of!(RewindState, stack_pointer),
        save_memory = sym save_memory,
        resume = sym resume,
    )
}

/// Handles the program's exit: rewinds the process or ends it.
#[unsafe(naked)]
unsafe extern "C" fn on_exit(status: i32) {
    naked_asm!(
        "movabs rsp, {top}",
        "call {rewind}",
        "jmp {resume}",
        top = const TOP,
        rewind = sym rewind,
        resume = sym resume,
    )
}

/// Resumes at the checkpoint.
#[unsafe(naked)]
unsafe extern "C" fn resume() {
    naked_asm!(
        "movabs rdi, {place}",
        "mov eax, {registers}",
        "xor edx, edx",
        "xrstor64 [rdi]",
        "mov rax, [rdi + {thread_pointer}]",
        "wrfsbase rax",
        "mov rsp, [rdi + {stack_pointer}]",
        pop_callee_saved!(),
        "ret",
        place = const STATE_ADDRESS,
        registers = const REGISTERS,
        thread_pointer = const offset_of!(RewindState, thread_pointer),
        stack_pointer = const offset_of!(RewindState, stack_pointer),
    )
}

unsafe extern "C" fn save_memory() {
    // SAFETY: only this thread accesses it.
    let state = unsafe { &mut *state() };
    // A process that cannot be rewound makes this run and ends with it.
    let stack = Runtime::interrupted().map_or(0, |runtime| runtime.state.threads[0].stack_top);
    state.memory.save(used_shadow().unwrap_or(&[]), stack);
    if state.memory.is_saved() {
        state.layout.reset(|_, _| {});
    }
    publish_process(state);
}

unsafe extern "C" fn rewind(status: i32) {
    // SAFETY: only this thread accesses it.
    let state = unsafe { &mut *state() };
    let all_signals = !0u64;
    set_mask(&all_signals);
    // SAFETY: the controller's memory, mapped for the process's lifetime.
    let header = unsafe { &*state.header };
    let (Some(shadow), EndKind::Exit, false) = (used_shadow(), header.end.kind, dispatch::is_enabled())
    else {
        sys::exit(status)
    };
    if !state.memory.is_saved() {
        sys::exit(status);
    }
    let busy_waits = header.plan.busy_waits != 0;
    // From here on the shared memory belongs to the controller.
    header.process.store(0, Ordering::Release);
    report_end(state, status);
    if !state.memory.restore(&mut state.layout, shadow) {
        sys::exit(0);
    }
    wait_for_run(state, busy_waits);
    publish_process(state);
}

/// Returns the pages of the race detector's shadow memory in use; `None` if there are too many.
fn used_shadow() -> Option<&'static [usize]> {
    match Runtime::interrupted().and_then(|runtime| runtime.state.conflicts.as_ref()) {
        Some(conflicts) => conflicts.shadow().used(),
        None => Some(&[]),
    }
}

/// Publishes the pid: the controller finds it here if it must kill the run.
fn publish_process(state: &RewindState) {
    // SAFETY: as above.
    let header = unsafe { &*state.header };
    header.saved_pages.store(state.memory.pages() as u32, Ordering::Relaxed);
    header.process.store(state.process as u32, Ordering::Release);
}

fn set_mask(mask: &u64) {
    let args = [libc::SIG_SETMASK as usize, core::ptr::from_ref(mask) as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the mask of the only thread.
    unsafe { call(libc::SYS_rt_sigprocmask, args) };
}

/// Reports to the controller that the run is over and the process stays.
fn report_end(state: &RewindState, status: i32) {
    const PROCESS_STAYS: i32 = 1;
    let numbers = [state.process, (status & 0xff) << 8, PROCESS_STAYS];
    let args = [state.channel as usize, numbers.as_ptr() as usize, size_of_val(&numbers), 0, 0, 0];
    // SAFETY: the kernel only reads the numbers.
    if unsafe { call(libc::SYS_write, args) } != size_of_val(&numbers) as isize {
        sys::exit(0);
    }
}

/// Waits until a run is requested of this process. On other requests it exits, and its parent reads them.
fn wait_for_run(state: &RewindState, busy_waits: bool) {
    /// About a tenth of a millisecond of polling.
    const POLLS: usize = 300;
    const PAUSES_PER_POLL: usize = 8;
    let receive = |flags: i32| {
        let mut byte = 0u8;
        let args = [state.channel as usize, &raw mut byte as usize, 1, flags as usize, 0, 0];
        // SAFETY: there is room for one byte.
        match unsafe { call(libc::SYS_recvfrom, args) } {
            1 => Some(Request::from_byte(byte)),
            error if error == -(libc::EAGAIN as isize) || error == -(libc::EINTR as isize) => None,
            _ => sys::exit(0),
        }
    };
    let mut request = None;
    if busy_waits {
        for _ in 0..POLLS {
            request = receive(libc::MSG_PEEK | libc::MSG_DONTWAIT);
            if request.is_some() {
                break;
            }
            (0..PAUSES_PER_POLL).for_each(|_| _mm_pause());
        }
    }
    while request.is_none() {
        request = receive(libc::MSG_PEEK);
    }
    if request != Some(Request::Rewind) {
        sys::exit(0);
    }
    receive(0);
}

/// Ends the process after an unexpected condition: another process repeats the run.
fn abort_rewind() -> ! {
    // SAFETY: a mere query, which the filter forbids.
    unsafe { sys::call(libc::SYS_personality, [usize::MAX, 0, 0, 0, 0, 0]) };
    sys::exit(128 + libc::SIGSYS)
}

/// Makes a system call that the filter always allows.
///
/// # Safety
/// The contract of the system call.
pub(crate) unsafe fn call(number: i64, args: [usize; 6]) -> isize {
    // SAFETY: the caller's contract.
    unsafe { make_call(number as usize, args.as_ptr()) }
}

#[unsafe(naked)]
unsafe extern "C" fn make_call(number: usize, args: *const usize) -> isize {
    naked_asm!(
        "mov rax, rdi",
        "mov rcx, rsi",
        "mov rdi, [rcx]",
        "mov rsi, [rcx + 8]",
        "mov rdx, [rcx + 16]",
        "mov r10, [rcx + 24]",
        "mov r8, [rcx + 32]",
        "mov r9, [rcx + 40]",
        "syscall",
        ".globl unsnarl_called",
        ".hidden unsnarl_called",
        "unsnarl_called:",
        "ret",
    )
}

/// Returns the return addresses of [`call`] and of the code that creates kernel threads, by which the filter
/// recognises them.
fn exempt_return_addresses() -> [usize; 3] {
    unsafe extern "C" {
        static unsnarl_called: u8;
        static unsnarl_cloned: u8;
        static unsnarl_resumed: u8;
    }
    [&raw const unsnarl_called, &raw const unsnarl_cloned, &raw const unsnarl_resumed]
        .map(|place| place as usize)
}
