//! Starts the target: its command, its environment, and what happens between fork and exec.

use super::{Layout, PrivateView, check, layout, with_users_descriptor_limit};
use crate::{Error, binding::Binding, library, streams::Streams};
use std::{
    ffi::OsString,
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd, RawFd},
        unix::{ffi::OsStringExt, net::UnixStream, process::CommandExt},
    },
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
};
use unsnarl_model::Program;
use unsnarl_wire::{
    AddedValue, BIND_NOW, DESCRIPTOR, NO_LEAK_DETECTION, SPIN_COUNT, UNLIMITED_STACK, WIRE_VARIABLE,
};

/// The program to start and its environment.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a Program,
    pub(crate) binding: &'a Binding,
    pub(crate) streams: &'a Streams,
    /// The descriptor of the shared memory.
    pub(crate) memory: RawFd,
    /// The program's private view of files, if it has one.
    pub(crate) view: Option<&'a Arc<PrivateView>>,
}

/// Starts the program with the runtime preloaded; with channels, as a server.
pub(super) fn spawn(
    launch: Launch<'_>,
    channels: &[(UnixStream, RawFd)],
) -> Result<std::process::Child, Error> {
    let mut command = command(launch, layout())?;
    let memory = launch.memory;
    let controller = std::process::id();
    let is_server = !channels.is_empty();
    let channels: Vec<(RawFd, RawFd)> = channels.iter().map(|(their, fd)| (their.as_raw_fd(), *fd)).collect();
    if let Some(view) = launch.view.map(Arc::clone) {
        // SAFETY: the closure makes only system calls that are allowed between fork and exec.
        unsafe { command.pre_exec(move || view.enter()) };
    }
    // SAFETY: as above.
    unsafe { command.pre_exec(move || become_target(memory, &channels, controller)) };
    let child = if is_server { spawn_on_lasting_thread(command) } else { command.spawn() };
    child.map_err(|cause| not_started(launch.program, cause))
}

/// Spawns a server. The kernel kills it when the thread that spawned it ends, so that thread lasts as long as the process.
fn spawn_on_lasting_thread(mut command: Command) -> io::Result<std::process::Child> {
    type SpawnRequest = (Command, mpsc::Sender<io::Result<std::process::Child>>);
    static SPAWNER: Mutex<Option<mpsc::Sender<SpawnRequest>>> = Mutex::new(None);
    let mut spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
    if spawner.is_none() {
        let (sender, requests) = mpsc::channel::<SpawnRequest>();
        let serve = move || {
            for (mut command, answer) in requests {
                let _ = answer.send(command.spawn());
            }
        };
        match std::thread::Builder::new().spawn(serve) {
            Ok(_) => *spawner = Some(sender),
            Err(_) => return command.spawn(),
        }
    }
    let (answer, child) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts programs is gone");
    let sent = spawner.as_ref().is_some_and(|spawner| spawner.send((command, answer)).is_ok());
    if sent { child.recv().unwrap_or_else(|_| Err(gone())) } else { Err(gone()) }
}

/// Replaces this process with the program and the preloaded runtime, so that it is the child of the debugger that
/// started us.
pub(crate) fn replace(launch: Launch<'_>) -> Error {
    let memory = launch.memory;
    // A debugger expects the program where the kernel loaded it.
    let mut command = match command(launch, Layout::Kernel) {
        Ok(command) => command,
        Err(error) => return error,
    };
    // SAFETY: the closure makes only system calls.
    unsafe { command.pre_exec(move || with_users_descriptor_limit(|| keep_addresses(memory))) };
    not_started(launch.program, command.exec())
}

fn not_started(program: &Program, cause: io::Error) -> Error {
    if std::path::Path::new(&program.cwd).is_dir() {
        Error::System { action: "cannot start the program", cause }
    } else {
        Error::Directory { directory: program.cwd.clone(), cause }
    }
}

/// Sets a command's environment and preloads the runtime. It is loaded after `before` and before the program's own
/// libraries.
pub(crate) fn preload(command: &mut Command, before: Option<PathBuf>, env: &[Vec<u8>]) -> Result<(), Error> {
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let mut libraries = OsString::new();
    if let Some(before) = before {
        libraries.push(before);
        libraries.push(":");
    }
    libraries.push(library::runtime()?);
    command.env_clear();
    for entry in env {
        let at = entry.iter().position(|&b| b == b'=').unwrap_or(entry.len());
        let (name, value) = (&entry[..at], &entry[(at + 1).min(entry.len())..]);
        if name == b"LD_PRELOAD" && !value.is_empty() {
            libraries.push(":");
            libraries.push(text(value));
        } else {
            command.env(text(name), text(value));
        }
    }
    command.env("LD_PRELOAD", libraries);
    Ok(())
}

/// Returns the command for the program with its arguments, its environment and the runtime.
fn command(launch: Launch<'_>, layout: Layout) -> Result<Command, Error> {
    let Launch { program, binding, streams, .. } = launch;
    let mut command = Command::new(&program.path);
    let text = |bytes: &Vec<u8>| OsString::from_vec(bytes.clone());
    if let Some((name, rest)) = program.args.split_first() {
        command.arg0(text(name)).args(rest.iter().map(text));
    }
    command.current_dir(&program.cwd);
    let before = if layout == Layout::Own { Some(library::layout()?) } else { None };
    preload(&mut command, before, &program.env)?;
    command.env(WIRE_VARIABLE, "1");
    let set = |command: &mut Command, entry: &str| {
        if let Some((name, value)) = entry.split_once('=') {
            command.env(name, value);
        }
    };
    set(&mut command, SPIN_COUNT);
    let users_value = |name: &str| {
        program.env.iter().find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    let add = |command: &mut Command, added: AddedValue| {
        let mut value = users_value(added.name).map_or_else(Vec::new, |users| [users, b":"].concat());
        value.extend_from_slice(added.value.as_bytes());
        command.env(added.name, OsString::from_vec(value));
    };
    add(&mut command, NO_LEAK_DETECTION);
    // A value of the user's own has the same effect.
    if *binding == Binding::Eager && users_value(BIND_NOW.name).is_none_or(<[u8]>::is_empty) {
        add(&mut command, BIND_NOW);
    }
    let duplicate = |stream: &File| {
        stream
            .try_clone()
            .map(Stdio::from)
            .map_err(|cause| Error::System { action: "cannot pass a stream to the program", cause })
    };
    command
        .stdin(duplicate(&streams.stdin)?)
        .stdout(duplicate(&streams.stdout)?)
        .stderr(duplicate(&streams.stderr)?);
    Ok(command)
}

/// Returns this process's standard error, for the output of another process.
pub(crate) fn standard_error() -> Stdio {
    io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from)
}

/// Makes the kernel kill the process that `command` starts when its parent ends.
pub(crate) fn kill_with_parent(command: &mut Command) {
    let prepare = || {
        // SAFETY: the calls affect only the calling process.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))
        }
    };
    // SAFETY: the closure makes only system calls that are allowed between fork and exec.
    unsafe { command.pre_exec(prepare) };
}

/// Runs before exec: passes the shared memory at the expected descriptor, and makes addresses equal in every run.
fn keep_addresses(memory: RawFd) -> io::Result<()> {
    // SAFETY: the calls affect only the calling process.
    unsafe {
        check(libc::dup2(memory, DESCRIPTOR))?;
        // If this is forbidden, `Layout::Own` replaces it.
        libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
        limit_stack()?;
        // Ignored signals are inherited from the process that started us, and our own handlers differ between commands.
        // A program that queries them must find the same in every run.
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        // Core dumps take long, and the trace holds more information.
        check(libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }))
    }
}

/// Limits an unlimited stack, because the kernel would then place mappings outside the race detector's range. The
/// runtime removes the limit again.
fn limit_stack() -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` has room for the result.
    check(unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) })?;
    if limit.rlim_cur > UNLIMITED_STACK {
        limit.rlim_cur = UNLIMITED_STACK;
        // SAFETY: the kernel only reads the limit.
        check(unsafe { libc::setrlimit(libc::RLIMIT_STACK, &raw const limit) })?;
    }
    Ok(())
}

/// Prepares the target process between fork and exec.
fn become_target(memory: RawFd, channels: &[(RawFd, RawFd)], controller: u32) -> io::Result<()> {
    with_users_descriptor_limit(|| {
        keep_addresses(memory)?;
        // SAFETY: the calls copy descriptors that this process owns.
        channels.iter().try_for_each(|&(channel, fd)| check(unsafe { libc::dup2(channel, fd) }))
    })?;
    // SAFETY: the calls affect only the calling process.
    unsafe {
        check(libc::setpgid(0, 0))?;
        // The kernel kills the target if the controller is killed.
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if libc::getppid() as u32 != controller {
            return Err(io::Error::other("the controller is gone"));
        }
    }
    Ok(())
}
