//! Commands: `system`, `popen`, `pclose`. The C library's functions would start and await the shell without
//! passing any hook.

use super::{
    child::{next, start, status_of},
    io::finish,
    stdio::{controlled as stdio, with_call_site},
};
use crate::{descriptors::Peer, handlers, state::Runtime, sys, time_stamp};
use alloc::vec::Vec;
use core::{
    cell::UnsafeCell,
    ffi::{CStr, c_char, c_int, c_void},
    mem, ptr,
};
use unsnarl_model::ChannelKind;

type File = c_void;

const SHELL: &CStr = c"/bin/sh";

unsafe extern "C" {
    static environ: *const *mut c_char;
    fn fileno(file: *mut File) -> c_int;
}

mod close {
    use super::*;
    crate::real::real! { fn fclose(file: *mut File) -> c_int; }
}

/// The state that running commands have changed.
struct Shells {
    /// The number of `system` commands that are running.
    running: u32,
    /// The previous actions of SIGINT and SIGQUIT.
    before: [libc::sigaction; 2],
    /// The streams of `popen` and the children behind them.
    streams: Vec<(usize, i32)>,
}

struct ShellsCell(UnsafeCell<Option<Shells>>);

// SAFETY: only the running thread reaches it.
unsafe impl Sync for ShellsCell {}

static SHELLS: ShellsCell = ShellsCell(UnsafeCell::new(None));

fn shells() -> &'static mut Shells {
    // SAFETY: only the running thread gets here and keeps no reference across a switch; all zeros is a
    // default action.
    unsafe {
        (*SHELLS.0.get()).get_or_insert_with(|| Shells {
            running: 0,
            before: mem::zeroed(),
            streams: Vec::new(),
        })
    }
}

const INTERRUPTS: [i32; 2] = [libc::SIGINT, libc::SIGQUIT];

/// Ignores interrupts while a command runs: they are meant for the command.
fn ignore_interrupts() {
    let shells = shells();
    shells.running += 1;
    if shells.running == 1 {
        for (signal, before) in INTERRUPTS.into_iter().zip(&mut shells.before) {
            // SAFETY: all zeros except for the action; there is room for the previous one.
            unsafe {
                let mut ignore: libc::sigaction = mem::zeroed();
                ignore.sa_sigaction = libc::SIG_IGN;
                handlers::exchange(signal, &raw const ignore, before);
            }
        }
    }
}

fn restore_interrupts() {
    let shells = shells();
    shells.running -= 1;
    if shells.running == 0 {
        for (signal, before) in INTERRUPTS.into_iter().zip(&shells.before) {
            // SAFETY: the action that was saved before.
            unsafe { handlers::exchange(signal, before, ptr::null_mut()) };
        }
    }
}

/// Starts a shell with this command.
unsafe extern "C-unwind" fn start_shell(
    runtime: &mut Runtime,
    command: *const c_char,
    attributes: *const libc::posix_spawnattr_t,
    actions: *const libc::posix_spawn_file_actions_t,
    pc: u64,
) -> isize {
    let args = [c"sh".as_ptr(), c"-c".as_ptr(), command, ptr::null()];
    let job = || {
        let mut started = 0;
        // SAFETY: zero-terminated strings in null-terminated lists; the caller passes the attributes and
        // actions.
        let error = time_stamp::without_faults(|| unsafe {
            next::posix_spawn(
                &raw mut started,
                SHELL.as_ptr(),
                actions.cast(),
                attributes.cast(),
                args.as_ptr().cast(),
                environ,
            )
        });
        if error == 0 { started as isize } else { -error as isize }
    };
    start(runtime, pc, job)
}

unsafe extern "C-unwind" fn run(runtime: &mut Runtime, command: *const c_char, pc: u64) -> i32 {
    const NOT_STARTED: i32 = 127 << 8;
    const CHILD_ENDED: u64 = 1 << (libc::SIGCHLD - 1);
    let mask = runtime.state.mask();
    ignore_interrupts();
    // A handler for ended children must not reap this one.
    runtime.state.set_mask(mask | CHILD_ENDED);
    // SAFETY: local attributes; the masks have the kernel's size, which is the first word of the C library's.
    let child = unsafe {
        let mut attributes: libc::posix_spawnattr_t = mem::zeroed();
        libc::posix_spawnattr_init(&raw mut attributes);
        let mut set: libc::sigset_t = mem::zeroed();
        (&raw mut set).cast::<u64>().write(mask);
        libc::posix_spawnattr_setsigmask(&raw mut attributes, &raw const set);
        let mut defaults: libc::sigset_t = mem::zeroed();
        for (signal, before) in INTERRUPTS.into_iter().zip(&shells().before) {
            if before.sa_sigaction != libc::SIG_IGN {
                libc::sigaddset(&raw mut defaults, signal);
            }
        }
        libc::posix_spawnattr_setsigdefault(&raw mut attributes, &raw const defaults);
        let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
        libc::posix_spawnattr_setflags(&raw mut attributes, flags as i16);
        start_shell(runtime, command, &raw const attributes, ptr::null(), pc)
    };
    let status = if child < 0 { Ok(NOT_STARTED) } else { status_of(runtime, child as i32, pc) };
    restore_interrupts();
    runtime.state.set_mask(mask);
    status.unwrap_or_else(|error| finish(Ok(error)) as i32)
}

/// `popen`: returns the stream or an error.
#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
unsafe extern "C-unwind" fn open_stream(
    runtime: &mut Runtime,
    command: *const c_char,
    mode: *const c_char,
    pc: u64,
) -> Result<*mut File, isize> {
    let (mut reads, mut writes, mut closes) = (false, false, false);
    // SAFETY: the mode is a C string.
    for &letter in unsafe { CStr::from_ptr(mode) }.to_bytes() {
        match letter {
            b'r' => reads = true,
            b'w' => writes = true,
            b'e' => closes = true,
            _ => return Err(-libc::EINVAL as isize),
        }
    }
    if reads == writes {
        return Err(-libc::EINVAL as isize);
    }
    let mut ends = [0i32; 2];
    let args = [ends.as_mut_ptr() as usize, libc::O_CLOEXEC as usize, 0, 0, 0, 0];
    // SAFETY: there is room for two descriptors.
    let error = unsafe { sys::call(libc::SYS_pipe2, args) };
    if error < 0 {
        return Err(error);
    }
    let (ours, theirs, stream) = if reads { (ends[0], ends[1], 1) } else { (ends[1], ends[0], 0) };
    runtime.state.descriptors.add_pair(ends, ChannelKind::Pipe);
    // SAFETY: local descriptors and lists; the recorded streams are open.
    unsafe {
        let mut actions: libc::posix_spawn_file_actions_t = mem::zeroed();
        libc::posix_spawn_file_actions_init(&raw mut actions);
        libc::posix_spawn_file_actions_adddup2(&raw mut actions, theirs, stream);
        // The command must not inherit the streams of earlier commands.
        for &(file, _) in &shells().streams {
            let fd = fileno(file as *mut File);
            if fd != stream {
                libc::posix_spawn_file_actions_addclose(&raw mut actions, fd);
            }
        }
        let child = start_shell(runtime, command, ptr::null(), &raw const actions, pc);
        libc::posix_spawn_file_actions_destroy(&raw mut actions);
        sys::call(libc::SYS_close, [theirs as usize, 0, 0, 0, 0, 0]);
        runtime.state.descriptors.forget(theirs);
        debug_assert!(runtime.state.descriptors.peer(ours) != Some(Peer::Own));
        let opened = if child < 0 {
            ptr::null_mut()
        } else {
            stdio::fdopen(ours, if reads { c"r" } else { c"w" }.as_ptr(), pc)
        };
        if opened.is_null() {
            sys::call(libc::SYS_close, [ours as usize, 0, 0, 0, 0, 0]);
            return Err(if child < 0 { child } else { -libc::ENOMEM as isize });
        }
        if !closes {
            sys::call(libc::SYS_fcntl, [ours as usize, libc::F_SETFD as usize, 0, 0, 0, 0]);
        }
        shells().streams.push((opened as usize, child as i32));
        Ok(opened)
    }
}

hooks! {
    fn system(command: *const c_char) -> i32, |runtime, pc| {
        // It starts a shell to see whether there is one.
        if command.is_null() { return time_stamp::without_faults(|| real::system(command)) }
        run(runtime, command, pc)
    }

    fn popen(command: *const c_char, mode: *const c_char) -> *mut File, |runtime, pc| {
        match open_stream(runtime, command, mode, pc) {
            Ok(file) => file,
            Err(error) => {
                finish(Ok(error));
                ptr::null_mut()
            }
        }
    }

    fn pclose(file: *mut File) -> i32, |runtime, pc| {
        let streams = &mut shells().streams;
        let Some(at) = streams.iter().position(|&(stream, _)| stream == file as usize) else {
            return real::pclose(file);
        };
        let (_, child) = streams.remove(at);
        with_call_site(pc, || close::fclose(file));
        match status_of(runtime, child, pc) {
            Ok(status) => status,
            Err(error) => finish(Ok(error)) as i32,
        }
    }
}
