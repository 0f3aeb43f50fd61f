//! Child processes: `fork` and its variants, `posix_spawn`, and waits for their end.
//!
//! A child runs uncontrolled, at its own pace. Its end and exit status come from outside: a thread that waits
//! for it does not hold up other threads, and the results are kept in the trace. A replay starts the children
//! again because of their effects on files, but takes their results from the trace.

use super::{
    cancel::exit_cancelled,
    ids,
    io::{Answer, Cancelled, finish},
};
use crate::{
    children::{self, Children},
    descriptors::{Descriptor, Peer},
    gate::Gate,
    init,
    input::OutputBuffers,
    real::Real,
    stack,
    state::Runtime,
    sys,
    thread::Pending,
    time_stamp,
    turn::Turn,
};
use core::ffi::{c_char, c_void};
use unsnarl_model::{Channel, ChannelKind, Flags, Misuse, Op};

/// All children are one object.
const CHILDREN: Descriptor =
    Descriptor::new(Channel { kind: ChannelKind::Children, number: 0 }, Peer::Environment);
const ADDR: usize = CHILDREN.channel.as_addr() as usize;

const FORK: &str = "fork: the child runs without control";
const EXEC: &str = "exec: the new program runs without control";

/// The number of times a replay checks on a sleeping child that had ended in the recording. It may never end:
/// in the replay, it may lack input that it got in the recording.
const MAX_REPLAY_CHECKS: u32 = 20_000;

type Status = *mut i32;
type Usage = *mut libc::rusage;

/// Starts a child. The job returns the kernel's process id, 0 in the child itself, or a negative error.
#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
pub(super) extern "C-unwind" fn start(runtime: &mut Runtime, pc: u64, job: impl FnOnce() -> isize) -> isize {
    runtime.turn(Op::ChildStart, ADDR, pc);
    let result = start_child(runtime, job);
    if result != 0 {
        log_start(runtime, pc, result);
    }
    result
}

/// Runs the job and returns the child's id as the program sees it.
fn start_child(runtime: &mut Runtime, job: impl FnOnce() -> isize) -> isize {
    runtime.state.before_child();
    runtime.state.descriptors.note_inherited_by_child();
    stack::run_without_residue(|| match job() {
        0 => {
            children::become_child();
            0
        }
        error @ ..0 => error,
        process => children::add(process as i32) as isize,
    })
}

fn log_start(runtime: &mut Runtime, pc: u64, result: isize) {
    let flags = if result < 0 { Flags::FAILED } else { Flags::NONE };
    runtime.log(Op::ChildStart, flags, pc, ADDR, result.unsigned_abs() as u64);
}

/// Converts a C result to the kernel's convention for errors.
fn kernel_result(result: i32) -> isize {
    // SAFETY: the caller's own errno.
    if result < 0 { -unsafe { *libc::__errno_location() } as isize } else { result as isize }
}

/// Calls the C library's `fork`, or a variant of it.
extern "C-unwind" fn fork_by(
    runtime: &mut Runtime,
    pc: u64,
    real: unsafe extern "C-unwind" fn() -> i32,
) -> i32 {
    runtime.state.warn(Misuse::NotModelled, pc, 0, FORK);
    // The program's handlers run in here and may wait for their turn, so the event follows when the fork is
    // done.
    // SAFETY: the program asked for it; no runtime state is half updated.
    let result = start_child(runtime, || kernel_result(unsafe { real() }));
    if result != 0 {
        runtime.turn(Op::ChildStart, ADDR, pc);
        log_start(runtime, pc, result);
    }
    finish(Ok(result)) as i32
}

/// `vfork`: a child whose parent waits until it calls exec or exits. Sharing the parent's memory would share
/// the runtime too and return past its frames, so the child gets a copy, with or without control.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn vfork() -> i32 {
    core::arch::naked_asm!("mov rdi, [rsp]", "jmp {}", sym vfork_by_copy)
}

unsafe extern "C-unwind" fn vfork_by_copy(pc: u64) -> i32 {
    const PLAIN: i32 = libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: creates a copy of this process. It stores the calling thread's id where glibc looks for it, if
    // that address is known.
    let clone = |flags: i32, tid| unsafe { sys::call(libc::SYS_clone, [flags as usize, 0, 0, tid, 0, 0]) };
    let result = match Runtime::enter() {
        None => clone(PLAIN, 0),
        Some(runtime) => {
            runtime.state.warn(Misuse::NotModelled, pc, 0, FORK);
            let tid = runtime.state.log.glibc_tid(sys::thread_pointer()) as usize;
            start(runtime, pc, || clone(PLAIN | libc::CLONE_CHILD_SETTID, tid))
        }
    };
    finish(Ok(result)) as i32
}

/// The arguments of a wait.
struct ChildWait {
    children: Children,
    /// The arguments as the program passed them.
    requested: usize,
    pc: u64,
}

impl ChildWait {
    /// Creates the wait of `waitpid` and its variants.
    fn new(id: i32, options: i32, pc: u64) -> Self {
        let (kind, process) = match id {
            -1 => (libc::P_ALL, 0),
            0 => (libc::P_PGID, 0),
            i32::MIN..-1 => (libc::P_PGID, ids::to_real(id).wrapping_neg()),
            _ => (libc::P_PID, ids::to_real(id)),
        };
        Self::of(Children { kind, id: process, options: options | libc::WEXITED }, id, pc)
    }

    /// Creates a wait for the children that the program calls `id`.
    fn of(children: Children, id: i32, pc: u64) -> Self {
        let requested = u64::from(id as u32) | u64::from(children.options as u32 & 0xff) << 32;
        let requested = requested | u64::from(children.kind) << 40;
        Self { children, requested: requested as usize, pc }
    }

    /// Waits as the program asked. The job polls without blocking; it returns a process id, 0 or an error.
    unsafe fn wait(
        &self,
        runtime: &mut Runtime,
        places: &OutputBuffers<'_>,
        job: impl Fn() -> isize,
    ) -> Answer {
        let at_once = self.children.options & libc::WNOHANG != 0;
        loop {
            let turn = if at_once { self.poll_turn(runtime) } else { self.take_turn(runtime) };
            let pc = self.pc;
            if turn == Turn::Cancelled {
                runtime.log(Op::ChildWait, Flags::CANCELLED, pc, ADDR, 0);
                return Err(Cancelled);
            }
            let attempt = || {
                if !at_once && turn != Turn::Go {
                    self.children.wait_while_busy(children::IDLE_CHECKS);
                }
                match job() {
                    0 if !at_once => -libc::EAGAIN as isize,
                    process @ 1.. => {
                        let id = ids::to_virtual(process as i32) as isize;
                        children::forget_ended(process as i32);
                        id
                    }
                    result => result,
                }
            };
            // SAFETY: the caller's contract.
            let result = unsafe {
                runtime.answer((Op::ChildWait, CHILDREN, Turn::Go), self.requested, places, attempt)
            };
            if runtime.state.log.replays_inputs() && result > 0 {
                wait_for_real_child(result as i32);
            }
            let flags = if result < 0 { Flags::FAILED } else { Flags::NONE };
            runtime.log(Op::ChildWait, flags, pc, ADDR, result.unsigned_abs() as u64);
            if at_once || result != -libc::EAGAIN as isize {
                return Ok(result);
            }
        }
    }

    fn poll_turn(&self, runtime: &mut Runtime) -> Turn {
        runtime.try_turn(Op::ChildWait, ADDR, self.pc);
        Turn::Go
    }

    fn take_turn(&self, runtime: &mut Runtime) -> Turn {
        let gate = if runtime.state.log.replays_inputs() { Gate::Input } else { Gate::Child(self.children) };
        let (op, pc, addr) = (Op::ChildWait, self.pc, ADDR as u64);
        let turn = runtime.wait_turn(Pending { op, pc, addr, gate, deadline: u64::MAX, cancellable: true });
        let me = runtime.state.me();
        me.child_ended = false;
        // Otherwise the child's kernel id would remain there behind the next gate and be copied along with
        // it.
        me.pending.gate = Gate::Child(Children { kind: 0, id: 0, options: 0 });
        turn
    }
}

/// Waits for the real child in a replay, so that its effects on files are complete.
fn wait_for_real_child(child: i32) {
    let id = ids::to_real(child);
    if id == child {
        return;
    }
    let child = Children { kind: libc::P_PID, id, options: libc::WEXITED };
    child.wait_while_busy(MAX_REPLAY_CHECKS);
    // SAFETY: a child of this process; its status is not needed.
    unsafe { sys::call(libc::SYS_wait4, [id as usize, 0, libc::WNOHANG as usize, 0, 0, 0]) };
    children::forget_ended(id);
}

/// `wait4`, of which all other waits except `waitid` are special cases.
pub(super) unsafe fn wait_for(
    runtime: &mut Runtime,
    id: i32,
    status: Status,
    options: i32,
    usage: Usage,
    pc: u64,
) -> Answer {
    stack::run_without_residue(|| {
        let wait = ChildWait::new(id, options, pc);
        let kernel_id = match wait.children.kind {
            libc::P_ALL => -1,
            libc::P_PGID => wait.children.id.wrapping_neg(),
            _ => wait.children.id,
        };
        let options = options | libc::WNOHANG;
        let args = [kernel_id as usize, status as usize, options as usize, usage as usize, 0, 0];
        let whole = [(status as usize, size_of::<i32>()), (usage as usize, size_of::<libc::rusage>())];
        let places = OutputBuffers { whole: &whole, ..OutputBuffers::NONE };
        // SAFETY: the program passed these addresses for the results.
        unsafe { wait.wait(runtime, &places, || sys::call(libc::SYS_wait4, args)) }
    })
}

/// `waitid` as the C function: the system call has one more argument.
unsafe fn waitid_by(
    runtime: &mut Runtime,
    (kind, id): (u32, u32),
    info: *mut libc::siginfo_t,
    options: i32,
    usage: Usage,
    pc: u64,
) -> Answer {
    stack::run_without_residue(|| {
        // The descriptor of a process needs no translation: any process may be waited for through it.
        let kernel_id =
            if kind == libc::P_PID || kind == libc::P_PGID { ids::to_real(id as i32) } else { id as i32 };
        let wait = ChildWait::of(Children { kind, id: kernel_id, options }, id as i32, pc);
        // SAFETY: all zeros is a valid result that names no child.
        let mut answer: libc::siginfo_t = unsafe { core::mem::zeroed() };
        let place = &raw mut answer;
        let options = (options | libc::WNOHANG) as usize;
        let args = [kind as usize, kernel_id as usize, place as usize, options, usage as usize, 0];
        let whole = [(place as usize, size_of_val(&answer)), (usage as usize, size_of::<libc::rusage>())];
        let places = OutputBuffers { whole: &whole, ..OutputBuffers::NONE };
        // SAFETY: the addresses are the program's and local ones; the kernel's result names a child or none.
        unsafe {
            let result = wait.wait(runtime, &places, || match sys::call(libc::SYS_waitid, args) {
                0 => {
                    let process = (*place).si_pid();
                    set_process(place, ids::to_virtual(process));
                    process as isize
                }
                error => error,
            });
            let failed = matches!(result, Ok(..0));
            if !info.is_null() && !failed {
                *info = answer;
            }
            result.map(|result| result.min(0))
        }
    })
}

/// Sets the process id in a result of `waitid`.
unsafe fn set_process(info: *mut libc::siginfo_t, process: i32) {
    /// The offset of the process id: behind three integers and padding.
    const PROCESS: usize = 16;
    // SAFETY: the caller passes the kernel's layout.
    unsafe { info.byte_add(PROCESS).cast::<i32>().write(process) };
}

/// Functions that replace the program. They are variadic, so their arguments are passed on untouched.
macro_rules! exec {
    ($($name:ident)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name() {
                static REAL: Real = Real::new(
                    // SAFETY: a literal with a zero appended.
                    unsafe { core::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) });
                core::arch::naked_asm!(
                    ".cfi_startproc",
                    find_and_jump!(),
                    ".cfi_endproc",
                    real = sym REAL,
                    find = sym warn_of_exec,
                )
            }
        )*
    };
}

exec! { execv execve execvp execvpe execl execle execlp fexecve }

unsafe extern "C" fn warn_of_exec(real: &Real, pc: u64) -> *mut c_void {
    if let Some(runtime) = Runtime::enter() {
        runtime.state.warn(Misuse::NotModelled, pc, 0, EXEC);
        time_stamp::stop();
    }
    real.address()
}

six_arguments!(posix_spawn, posix_spawn_under_control);
six_arguments!(posix_spawnp, posix_spawnp_under_control);

type Spawn = unsafe extern "C-unwind" fn(
    *mut i32,
    *const c_char,
    *const c_void,
    *const c_void,
    *const *mut c_char,
    *const *mut c_char,
) -> i32;

pub(super) mod next {
    use super::*;
    crate::real::real! {
        fn fork() -> i32;
        fn posix_spawn(process: *mut i32, path: *const c_char, actions: *const c_void, attributes: *const c_void, args: *const *mut c_char, env: *const *mut c_char) -> i32;
        fn posix_spawnp(process: *mut i32, path: *const c_char, actions: *const c_void, attributes: *const c_void, args: *const *mut c_char, env: *const *mut c_char) -> i32;
    }
}

macro_rules! spawn {
    ($($name:ident by $real:path;)*) => {
        $(
            #[allow(clippy::too_many_arguments, reason = "the signature of the C function")]
            unsafe extern "C-unwind" fn $name(
                process: *mut i32,
                path: *const c_char,
                actions: *const c_void,
                attributes: *const c_void,
                args: *const *mut c_char,
                env: *const *mut c_char,
                pc: u64,
            ) -> i32 {
                // SAFETY: the program's call.
                unsafe { spawn_by($real, process, (path, actions, attributes, args, env), pc) }
            }
        )*
    };
}

spawn! {
    posix_spawn_under_control by next::posix_spawn;
    posix_spawnp_under_control by next::posix_spawnp;
}

type SpawnArguments = (*const c_char, *const c_void, *const c_void, *const *mut c_char, *const *mut c_char);

#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
unsafe extern "C-unwind" fn spawn_by(
    real: Spawn,
    process: *mut i32,
    (path, actions, attributes, args, env): SpawnArguments,
    pc: u64,
) -> i32 {
    let Some(runtime) = Runtime::enter() else {
        // SAFETY: the program's call.
        return unsafe { real(process, path, actions, attributes, args, env) };
    };
    let job = || {
        let mut started = 0;
        // SAFETY: the program's call, except for the address of the process id.
        match time_stamp::without_faults(|| unsafe {
            real(&raw mut started, path, actions, attributes, args, env)
        }) {
            0 => started as isize,
            error => -error as isize,
        }
    };
    match start(runtime, pc, job) {
        error @ ..0 => -error as i32,
        number => {
            if !process.is_null() {
                // SAFETY: the program passed this address for the result.
                unsafe { *process = number as i32 };
            }
            0
        }
    }
}

hooks! {
    fn fork() -> i32, |runtime, pc| {
        fork_by(runtime, pc, real::fork)
    }

    fn _Fork() -> i32, |runtime, pc| {
        fork_by(runtime, pc, real::_Fork)
    }

    fn forkpty(master: *mut i32, name: *mut c_char, terminal: *const c_void, size: *const c_void) -> i32, |runtime, pc| {
        runtime.state.warn(Misuse::NotModelled, pc, 0, FORK);
        let result = start_child(runtime, || kernel_result(real::forkpty(master, name, terminal, size)));
        if result != 0 {
            runtime.turn(Op::ChildStart, ADDR, pc);
            log_start(runtime, pc, result);
        }
        finish(Ok(result)) as i32
    }

    fn daemon(keep_directory: i32, keep_streams: i32) -> i32, |runtime, pc| {
        // The parent ends, and the run with it.
        runtime.state.warn(Misuse::NotModelled, pc, 0, "daemon: the program goes on without control");
        let child = start_child(runtime, || kernel_result(next::fork()));
        if child > 0 {
            init::log_exit(0, pc);
            sys::exit(0);
        }
        if child < 0 { finish(Ok(child)) as i32 } else { real::daemon(keep_directory, keep_streams) }
    }

    fn wait(status: Status) -> i32, |runtime, pc| {
        finish(wait_for(runtime, -1, status, 0, core::ptr::null_mut(), pc)) as i32
    }

    fn waitpid(id: i32, status: Status, options: i32) -> i32, |runtime, pc| {
        finish(wait_for(runtime, id, status, options, core::ptr::null_mut(), pc)) as i32
    }

    fn wait3(status: Status, options: i32, usage: Usage) -> i32, |runtime, pc| {
        finish(wait_for(runtime, -1, status, options, usage, pc)) as i32
    }

    fn wait4(id: i32, status: Status, options: i32, usage: Usage) -> i32, |runtime, pc| {
        finish(wait_for(runtime, id, status, options, usage, pc)) as i32
    }

    fn waitid(kind: u32, id: u32, info: *mut libc::siginfo_t, options: i32) -> i32, |runtime, pc| {
        finish(waitid_by(runtime, (kind, id), info, options, core::ptr::null_mut(), pc)) as i32
    }
}

/// Waits for a child; ends the thread if it is cancelled.
#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
pub(super) extern "C-unwind" fn status_of(runtime: &mut Runtime, child: i32, pc: u64) -> Result<i32, isize> {
    let mut status = 0;
    // SAFETY: room for the status.
    match unsafe { wait_for(runtime, child, &raw mut status, 0, core::ptr::null_mut(), pc) } {
        Ok(error @ ..0) => Err(error),
        Ok(_) => Ok(status),
        Err(Cancelled) => exit_cancelled(),
    }
}
