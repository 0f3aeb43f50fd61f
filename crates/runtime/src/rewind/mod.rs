//! Rewinding: a process that made a run comes back to where it began, for the next one.
//!
//! To make a process for each run costs hundreds of microseconds, most of them the kernel's, and a short run is over in ten. But a run
//! of fibers is the memory of one kernel thread: if that is put back ([`memory`]), the next run finds everything as the first one did,
//! as a fork would. Whatever else a run could leave behind is not allowed to it ([`filter`]): a program that wants more is run by
//! forks. Nothing of this concerns a run that ends in another way than by an exit, for its process ends with it.
//!
//! Whoever rewinds does so on a stack of its own, in memory that is not put back, and calls nobody who keeps anything elsewhere.

mod filter;
mod layout;
mod memory;
pub(crate) mod thread_start;

use crate::{dispatch, files::OpenFile, real::Real, state::Runtime, sys};
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

/// Where all that is not put back is kept.
const PLACE: usize = 0x6e00_0000_0000;
/// Registers that programs may have: x87, SSE, AVX and AVX-512.
const REGISTERS: u32 = 0xe7;
const REGISTER_BYTES: usize = 4096;
const STACK: usize = 128 << 10;

/// What is not put back. All of it begins as zeros.
#[repr(C, align(4096))]
struct RewindState {
    /// Vector registers where the process stands.
    registers: [u8; REGISTER_BYTES],
    stack: [u8; STACK],
    /// Where it stands.
    stack_pointer: usize,
    thread_pointer: usize,
    /// Where it is asked for runs.
    channel: i32,
    process: i32,
    /// The signals that it blocks there.
    mask: u64,
    header: *const Header,
    /// Events for which the kernel has provided memory.
    room: u64,
    memory: SavedMemory,
    layout: MappingLayout,
}

fn state() -> *mut RewindState {
    PLACE as *mut RewindState
}

/// Whether this process is one that is rewound.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Where the stack for rewinding ends.
const TOP: usize = PLACE + offset_of!(RewindState, stack) + STACK;

/// Returns once for each run that this process makes, the first of which is begun. False if it cannot be rewound: then there is only one, and the
/// channel is not its business.
pub(crate) fn enter_checkpoint(channel: i32, header: *const Header) -> bool {
    if !has_registers() || dispatch::has_begun() || !sys::reserve(PLACE, size_of::<RewindState>()) {
        return false;
    }
    // SAFETY: just made, and of this thread alone.
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
        // Signals come when the thread is its own again.
        set_mask(&(*state).mask);
    }
    true
}

/// The kernel is about to provide memory for so many events; true if it has done so before.
pub(crate) fn has_room(events: u64) -> bool {
    if !IS_ON.load(Ordering::Relaxed) {
        return false;
    }
    // SAFETY: of this thread alone.
    let room = unsafe { &mut (*state()).room };
    let has = *room >= events;
    *room = events.max(*room);
    has
}

/// Whether the processor saves registers in the way that is used here, and they have room.
fn has_registers() -> bool {
    const XSAVE_IS_ON: u32 = 1 << 27;
    // Those of AVX-512 are the last of ours.
    let end = |part: u32| __cpuid_count(0xd, part).eax + __cpuid_count(0xd, part).ebx;
    __cpuid(0).eax >= 0xd
        && __cpuid(1).ecx & XSAVE_IS_ON != 0
        && [2, 5, 6, 7].into_iter().all(|part| end(part) as usize <= REGISTER_BYTES)
}

/// Has functions of the C library's, its way out among them, which every exit takes, lead here.
fn install_redirects() -> bool {
    static EXIT: Real = Real::new(c"_exit");
    let Some(memory) = OpenFile::for_writing(b"/proc/self/mem\0") else { return false };
    let lead = |from: &Real, to: usize| {
        let Some(from) = from.find() else { return false };
        // mov rax, to; jmp rax
        let mut code = *b"\x48\xb8\0\0\0\0\0\0\0\0\xff\xe0";
        code[2..10].copy_from_slice(&to.to_le_bytes());
        memory.write_at(from as usize, &code);
        // SAFETY: code of the C library's, longer than that.
        unsafe { (from as *const [u8; 12]).read_volatile() == code }
    };
    lead(&EXIT, ended as *const () as usize)
        && layout::install_redirects(lead)
        && thread_start::install_redirects(lead)
}

/// Saves where the caller stands, keeps the memory, and returns, as often as there are runs to make.
#[unsafe(naked)]
unsafe extern "C" fn checkpoint() {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "movabs rdi, {place}",
        "mov eax, {registers}",
        "xor edx, edx",
        "xsave64 [rdi]",
        "rdfsbase rax",
        "mov [rdi + {thread_pointer}], rax",
        "mov [rdi + {stack_pointer}], rsp",
        "movabs rsp, {top}",
        "call {save_memory}",
        "jmp {go_on}",
        place = const PLACE,
        top = const TOP,
        registers = const REGISTERS,
        thread_pointer = const offset_of!(RewindState, thread_pointer),
        stack_pointer = const offset_of!(RewindState, stack_pointer),
        save_memory = sym save_memory,
        go_on = sym go_on,
    )
}

/// The program exits: this process goes back, or ends.
#[unsafe(naked)]
unsafe extern "C" fn ended(status: i32) {
    naked_asm!(
        "movabs rsp, {top}",
        "call {rewind}",
        "jmp {go_on}",
        top = const TOP,
        rewind = sym rewind,
        go_on = sym go_on,
    )
}

/// Goes on where the process stands.
#[unsafe(naked)]
unsafe extern "C" fn go_on() {
    naked_asm!(
        "movabs rdi, {place}",
        "mov eax, {registers}",
        "xor edx, edx",
        "xrstor64 [rdi]",
        "mov rax, [rdi + {thread_pointer}]",
        "wrfsbase rax",
        "mov rsp, [rdi + {stack_pointer}]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        place = const PLACE,
        registers = const REGISTERS,
        thread_pointer = const offset_of!(RewindState, thread_pointer),
        stack_pointer = const offset_of!(RewindState, stack_pointer),
    )
}

unsafe extern "C" fn save_memory() {
    // SAFETY: of this thread alone.
    let state = unsafe { &mut *state() };
    // A process that cannot be rewound makes this run, and ends with it.
    let stack = Runtime::interrupted().map_or(0, |runtime| runtime.state.threads[0].stack_top);
    state.memory.save(used_shadow().unwrap_or(&[]), stack);
    if state.memory.is_saved() {
        state.layout.reset(|_, _| {});
    }
    publish_process(state);
}

unsafe extern "C" fn rewind(status: i32) {
    // SAFETY: of this thread alone.
    let state = unsafe { &mut *state() };
    let all_signals = !0u64;
    set_mask(&all_signals);
    // SAFETY: the controller's memory, mapped for as long as the process lives.
    let header = unsafe { &*state.header };
    let (Some(shadow), EndKind::Exit, false) = (used_shadow(), header.end.kind, dispatch::has_begun()) else {
        sys::exit(status)
    };
    if !state.memory.is_saved() {
        sys::exit(status);
    }
    let busy_waits = header.plan.busy_waits != 0;
    // From here on the shared memory is the controller's.
    header.process.store(0, Ordering::Release);
    answer(state, status);
    if !state.memory.restore(&mut state.layout, shadow) {
        sys::exit(0);
    }
    wait_for_a_run(state, busy_waits);
    publish_process(state);
}

/// Pages of the race detector's that are in use; none if there are too many.
fn used_shadow() -> Option<&'static [usize]> {
    match Runtime::interrupted().and_then(|runtime| runtime.state.conflicts.as_ref()) {
        Some(conflicts) => conflicts.shadow().used(),
        None => Some(&[]),
    }
}

/// If the controller wants to end this run, it finds the process here.
fn publish_process(state: &RewindState) {
    // SAFETY: as above.
    let header = unsafe { &*state.header };
    header.saved_pages.store(state.memory.pages() as u32, Ordering::Relaxed);
    header.process.store(state.process as u32, Ordering::Release);
}

fn set_mask(mask: &u64) {
    let args = [libc::SIG_SETMASK as usize, core::ptr::from_ref(mask) as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the mask of the one thread there is.
    unsafe { call(libc::SYS_rt_sigprocmask, args) };
}

/// Tells the controller that the run is over, and that the process stays.
fn answer(state: &RewindState, status: i32) {
    const STAYS: i32 = 1;
    let numbers = [state.process, (status & 0xff) << 8, STAYS];
    let args = [state.channel as usize, numbers.as_ptr() as usize, size_of_val(&numbers), 0, 0, 0];
    // SAFETY: the kernel only reads the numbers.
    if unsafe { call(libc::SYS_write, args) } != size_of_val(&numbers) as isize {
        sys::exit(0);
    }
}

/// Waits until there is a run for this process to make. Other requests are not for it: it ends, and who forked it reads them.
fn wait_for_a_run(state: &RewindState, busy_waits: bool) {
    /// About a tenth of a millisecond.
    const LOOKS: usize = 300;
    const PAUSES: usize = 8;
    let receive = |flags: i32| {
        let mut byte = 0u8;
        let args = [state.channel as usize, &raw mut byte as usize, 1, flags as usize, 0, 0];
        // SAFETY: room for one byte.
        match unsafe { call(libc::SYS_recvfrom, args) } {
            1 => Some(Request::from_byte(byte)),
            error if error == -(libc::EAGAIN as isize) || error == -(libc::EINTR as isize) => None,
            _ => sys::exit(0),
        }
    };
    let mut request = None;
    if busy_waits {
        for _ in 0..LOOKS {
            request = receive(libc::MSG_PEEK | libc::MSG_DONTWAIT);
            if request.is_some() {
                break;
            }
            (0..PAUSES).for_each(|_| _mm_pause());
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

/// Something is not as it should be: the run is made once more by another process.
fn abort_rewind() -> ! {
    // SAFETY: it asks only, but is not allowed.
    unsafe { sys::call(libc::SYS_personality, [usize::MAX, 0, 0, 0, 0, 0]) };
    sys::exit(128 + libc::SIGSYS)
}

/// A system call that is always allowed.
///
/// # Safety
/// As the call itself demands.
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
        ".hidden unsnarl_called",
        "unsnarl_called:",
        "ret",
    )
}

/// Where [`call`], and who makes a kernel thread, goes on after the kernel's answer: by that the filter knows them.
fn after_calls() -> [usize; 3] {
    unsafe extern "C" {
        static unsnarl_called: u8;
        static unsnarl_cloned: u8;
        static unsnarl_resumed: u8;
    }
    [&raw const unsnarl_called, &raw const unsnarl_cloned, &raw const unsnarl_resumed]
        .map(|place| place as usize)
}
