//! Child processes: `fork` and its kin, `posix_spawn`, and the waits for their end.
//!
//! A child runs without control, at its own pace. That it ends, and how, comes from outside: a thread that waits for it does not hold up
//! the others, and what it is told is kept in the trace. In a replay the children are started again, for what they do to files, but
//! what is told of them comes from the trace.

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
    turn::Turn,
};
use core::ffi::{c_char, c_void};
use unsnarl_model::{Channel, ChannelKind, Flags, Misuse, Op};

/// All children are one thing.
const CHILDREN: Descriptor =
    Descriptor { channel: Channel { kind: ChannelKind::Children, number: 0 }, peer: Peer::Environment };
const ADDR: usize = CHILDREN.channel.as_addr() as usize;

const FORK: &str = "fork: the child runs without control";
const EXEC: &str = "exec: the program that takes this one's place runs without control";

/// How often a replay looks at a child that is asleep and had ended in the recording. It may never end: what it was sent then, it is perhaps not
/// sent now.
const MAX_REPLAY_LOOKS: u32 = 20_000;

type Status = *mut i32;
type Usage = *mut libc::rusage;

/// Starts a child. The job gives the kernel's number of it, and 0 in the child itself, or a negative error.
#[allow(improper_ctypes_definitions, reason = "called from here only; what matters is that it may unwind")]
pub(super) extern "C-unwind" fn start(runtime: &mut Runtime, pc: u64, job: impl FnOnce() -> isize) -> isize {
    runtime.turn(Op::ChildStart, ADDR, pc);
    let result = make(runtime, job);
    if result != 0 {
        log_start(runtime, pc, result);
    }
    result
}

/// The child's number as the program sees it.
fn make(runtime: &mut Runtime, job: impl FnOnce() -> isize) -> isize {
    runtime.state.descriptors.inherited();
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

/// From C's errors to the kernel's.
fn or_errno(result: i32) -> isize {
    // SAFETY: the caller's own errno.
    if result < 0 { -unsafe { *libc::__errno_location() } as isize } else { result as isize }
}

/// The C library's `fork`, or one that is like it.
extern "C-unwind" fn fork_by(
    runtime: &mut Runtime,
    pc: u64,
    real: unsafe extern "C-unwind" fn() -> i32,
) -> i32 {
    runtime.state.warn(Misuse::NotModelled, pc, 0, FORK);
    // The program's handlers, which may wait for their turn, run in here: it is an event when it is done.
    // SAFETY: the program's wish; nothing of ours is half done.
    let result = make(runtime, || or_errno(unsafe { real() }));
    if result != 0 {
        runtime.turn(Op::ChildStart, ADDR, pc);
        log_start(runtime, pc, result);
    }
    finish(Ok(result)) as i32
}

/// `vfork`: a child that its parent waits for until it is another program or gone. One that borrows its parent's memory would borrow
/// the runtime with it, and return over the heads of our functions: it gets a copy, with or without control.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn vfork() -> i32 {
    core::arch::naked_asm!("mov rdi, [rsp]", "jmp {}", sym vfork_by_copy)
}

unsafe extern "C-unwind" fn vfork_by_copy(pc: u64) -> i32 {
    const PLAIN: i32 = libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: a copy of ourselves, with the calling thread's number where glibc looks for it, if we know where.
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

/// What a wait asks for.
struct ChildWait {
    children: Children,
    /// As the program put it.
    requested: usize,
    pc: u64,
}

impl ChildWait {
    /// `waitpid` and its kin.
    fn new(id: i32, options: i32, pc: u64) -> Self {
        let (kind, process) = match id {
            -1 => (libc::P_ALL, 0),
            0 => (libc::P_PGID, 0),
            i32::MIN..-1 => (libc::P_PGID, ids::to_real(id).wrapping_neg()),
            _ => (libc::P_PID, ids::to_real(id)),
        };
        Self::of(Children { kind, id: process, options: options | libc::WEXITED }, id, pc)
    }

    /// The program's word for them is `id`.
    fn of(children: Children, id: i32, pc: u64) -> Self {
        let requested = u64::from(id as u32) | u64::from(children.options as u32 & 0xff) << 32;
        let requested = requested | u64::from(children.kind) << 40;
        Self { children, requested: requested as usize, pc }
    }

    /// Waits as the program asked to. The job does it without waiting; its result is a process, or 0, or an error.
    unsafe fn wait(
        &self,
        runtime: &mut Runtime,
        places: &OutputBuffers<'_>,
        job: impl Fn() -> isize,
    ) -> Answer {
        let at_once = self.children.options & libc::WNOHANG != 0;
        loop {
            let turn = if at_once { self.look(runtime) } else { self.take_turn(runtime) };
            let pc = self.pc;
            if turn == Turn::Cancelled {
                runtime.log(Op::ChildWait, Flags::CANCELLED, pc, ADDR, 0);
                return Err(Cancelled);
            }
            let attempt = || {
                if !at_once && turn != Turn::Go {
                    self.children.wait_while_busy(children::LOOKS);
                }
                match job() {
                    0 if !at_once => -libc::EAGAIN as isize,
                    process @ 1.. => {
                        let to_virtual = ids::to_virtual(process as i32) as isize;
                        children::forget_ended(process as i32);
                        to_virtual
                    }
                    result => result,
                }
            };
            // SAFETY: by the caller.
            let result = unsafe {
                runtime.answer((Op::ChildWait, CHILDREN, Turn::Go), self.requested, places, attempt)
            };
            if runtime.state.log.replays_inputs() && result > 0 {
                reap_for_real(result as i32);
            }
            let flags = if result < 0 { Flags::FAILED } else { Flags::NONE };
            runtime.log(Op::ChildWait, flags, pc, ADDR, result.unsigned_abs() as u64);
            if at_once || result != -libc::EAGAIN as isize {
                return Ok(result);
            }
        }
    }

    fn look(&self, runtime: &mut Runtime) -> Turn {
        runtime.turn(Op::ChildWait, ADDR, self.pc);
        Turn::Go
    }

    fn take_turn(&self, runtime: &mut Runtime) -> Turn {
        let gate = if runtime.state.log.replays_inputs() { Gate::Input } else { Gate::Child(self.children) };
        let (op, pc, addr) = (Op::ChildWait, self.pc, ADDR as u64);
        let turn = runtime.wait_turn(Pending { op, pc, addr, gate, deadline: u64::MAX, cancellable: true });
        let me = runtime.state.me();
        me.child_ended = false;
        // The kernel's number of the child would stay there, behind what is written next, and be copied with it.
        me.pending.gate = Gate::Child(Children { kind: 0, id: 0, options: 0 });
        turn
    }
}

/// In a replay, waits for the child itself: what it does to files is done then.
fn reap_for_real(child: i32) {
    let id = ids::to_real(child);
    if id == child {
        return;
    }
    let child = Children { kind: libc::P_PID, id, options: libc::WEXITED };
    child.wait_while_busy(MAX_REPLAY_LOOKS);
    // SAFETY: our own child; nobody asks how it ended.
    unsafe { sys::call(libc::SYS_wait4, [id as usize, 0, libc::WNOHANG as usize, 0, 0, 0]) };
    children::forget_ended(id);
}

/// `wait4`, of which all other waits but `waitid` are cases.
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
        let to_real = match wait.children.kind {
            libc::P_ALL => -1,
            libc::P_PGID => wait.children.id.wrapping_neg(),
            _ => wait.children.id,
        };
        let options = options | libc::WNOHANG;
        let args = [to_real as usize, status as usize, options as usize, usage as usize, 0, 0];
        let whole = [(status as usize, size_of::<i32>()), (usage as usize, size_of::<libc::rusage>())];
        let places = OutputBuffers { whole: &whole, ..OutputBuffers::NONE };
        // SAFETY: the program's places.
        unsafe { wait.wait(runtime, &places, || sys::call(libc::SYS_wait4, args)) }
    })
}

/// `waitid`, as the C function: the system call has one argument more.
unsafe fn waitid_by(
    runtime: &mut Runtime,
    (kind, id): (u32, u32),
    info: *mut libc::siginfo_t,
    options: i32,
    usage: Usage,
    pc: u64,
) -> Answer {
    stack::run_without_residue(|| {
        // A descriptor of a process is none of ours: whoever it is may be waited for without any word from us.
        let to_real =
            if kind == libc::P_PID || kind == libc::P_PGID { ids::to_real(id as i32) } else { id as i32 };
        let wait = ChildWait::of(Children { kind, id: to_real, options }, id as i32, pc);
        // SAFETY: all zeros is an answer about nobody.
        let mut answer: libc::siginfo_t = unsafe { core::mem::zeroed() };
        let place = &raw mut answer;
        let options = (options | libc::WNOHANG) as usize;
        let args = [kind as usize, to_real as usize, place as usize, options, usage as usize, 0];
        let whole = [(place as usize, size_of_val(&answer)), (usage as usize, size_of::<libc::rusage>())];
        let places = OutputBuffers { whole: &whole, ..OutputBuffers::NONE };
        // SAFETY: places of the program's and of ours; the kernel's answer is about a child, or about nobody.
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

/// Who an answer of `waitid` is about.
unsafe fn set_process(info: *mut libc::siginfo_t, process: i32) {
    /// Behind three numbers and what aligns the rest.
    const PROCESS: usize = 16;
    // SAFETY: the kernel's layout, by the caller.
    unsafe { info.byte_add(PROCESS).cast::<i32>().write(process) };
}

/// Programs that take this one's place. What they are told has any number of arguments: it is left as it is.
macro_rules! exec {
    ($($name:ident)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name() {
                static REAL: Real = Real::new(
                    // SAFETY: a literal with a zero added.
                    unsafe { core::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) });
                core::arch::naked_asm!(
                    ".cfi_startproc",
                    find_and_jump!(),
                    ".cfi_endproc",
                    real = sym REAL,
                    find = sym leaving_by_exec,
                )
            }
        )*
    };
}

exec! { execv execve execvp execvpe execl execle execlp fexecve }

unsafe extern "C" fn leaving_by_exec(real: &Real, pc: u64) -> *mut c_void {
    if let Some(runtime) = Runtime::enter() {
        runtime.state.warn(Misuse::NotModelled, pc, 0, EXEC);
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
            #[allow(clippy::too_many_arguments, reason = "the C function's")]
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

type Operation = (*const c_char, *const c_void, *const c_void, *const *mut c_char, *const *mut c_char);

#[allow(improper_ctypes_definitions, reason = "called from here only; what matters is that it may unwind")]
unsafe extern "C-unwind" fn spawn_by(
    real: Spawn,
    process: *mut i32,
    (path, actions, attributes, args, env): Operation,
    pc: u64,
) -> i32 {
    let Some(runtime) = Runtime::enter() else {
        // SAFETY: the program's call.
        return unsafe { real(process, path, actions, attributes, args, env) };
    };
    let job = || {
        let mut started = 0;
        // SAFETY: the program's call, but for where the number goes.
        match unsafe { real(&raw mut started, path, actions, attributes, args, env) } {
            0 => started as isize,
            error => -error as isize,
        }
    };
    match start(runtime, pc, job) {
        error @ ..0 => -error as i32,
        number => {
            if !process.is_null() {
                // SAFETY: the program's place.
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
        let result = make(runtime, || or_errno(real::forkpty(master, name, terminal, size)));
        if result != 0 {
            runtime.turn(Op::ChildStart, ADDR, pc);
            log_start(runtime, pc, result);
        }
        finish(Ok(result)) as i32
    }

    fn daemon(keep_directory: i32, keep_streams: i32) -> i32, |runtime, pc| {
        // The parent ends, and with it the run.
        runtime.state.warn(Misuse::NotModelled, pc, 0, "daemon: the program goes on without control");
        let child = make(runtime, || or_errno(next::fork()));
        if child > 0 {
            init::exiting(0, pc);
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

/// A wait that ends the thread if it is cancelled.
#[allow(improper_ctypes_definitions, reason = "called from here only; what matters is that it may unwind")]
pub(super) extern "C-unwind" fn status_of(runtime: &mut Runtime, child: i32, pc: u64) -> Result<i32, isize> {
    let mut status = 0;
    // SAFETY: room for the status.
    match unsafe { wait_for(runtime, child, &raw mut status, 0, core::ptr::null_mut(), pc) } {
        Ok(error @ ..0) => Err(error),
        Ok(_) => Ok(status),
        Err(Cancelled) => exit_cancelled(),
    }
}
