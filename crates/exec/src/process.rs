//! Starting a process and waiting for its end.

use crate::{Error, binding::Binding, library};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::{
            ffi::OsStringExt,
            net::UnixStream,
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use unsnarl_model::Program;
use unsnarl_wire::{
    BIND_NOW, DESCRIPTOR, Request, SERVICE, SNAPSHOTS, SPIN_CHECK_SIGNAL, SPIN_COUNT, TIMEOUT_SIGNAL,
    UNLIMITED_STACK, WIRE_VARIABLE,
};

/// What is started, and with which surroundings.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a Program,
    pub(crate) binding: &'a Binding,
    pub(crate) streams: &'a Streams,
    /// The descriptor of the shared memory.
    pub(crate) memory: RawFd,
}

/// The target's standard streams.
pub(crate) struct Streams {
    pub(crate) stdin: File,
    pub(crate) stdout: File,
    pub(crate) stderr: File,
}

/// How the wait ended.
pub(crate) enum WaitResult {
    /// The process is gone.
    Ended(ExitStatus),
    /// It is still there.
    StillRunning,
}

/// A running target; killed when dropped.
pub(crate) struct Process<'a> {
    end_source: EndSource<'a>,
    ended: bool,
    /// It was rewound, and waits for the next run.
    awaits_next_run: bool,
}

/// A target that was loaded, or came to the end of a plan, and makes runs by forking.
pub(crate) struct Service<'a> {
    pub(crate) channel: &'a mut ServerChannel,
    /// Its process.
    pub(crate) id: u32,
    /// A handle of it, if the channel does not tell of its end.
    pub(crate) handle: Option<&'a Handle>,
}

impl Service<'_> {
    /// Whether it says something within this time; an error if it is gone without a word. Others hold the other end of a
    /// snapshot's channel, which therefore says nothing of its end.
    fn is_there(&self, most: Duration) -> Result<bool, Error> {
        if self.channel.has_input() {
            return Ok(true);
        }
        let channel = self.channel.0.as_raw_fd();
        if !any_readable(Some(channel), self.handle, most) {
            return Ok(false);
        }
        if readable(channel, Duration::ZERO) { Ok(true) } else { Err(Error::NotServing) }
    }
}

/// Who tells of the end.
enum EndSource<'a> {
    /// The kernel: the process is our own child.
    Child(std::process::Child, Handle),
    /// The server, whose child it is.
    Server(Service<'a>, ForkedProcess<'a>),
}

/// Which process a server made. It says so in the shared memory at once, and through its channel when the process has ended.
struct ForkedProcess<'a> {
    shared_id: &'a AtomicU32,
    reported_id: Option<i32>,
}

impl ForkedProcess<'_> {
    /// Its number, if it is known. What is in the shared memory the target can spoil: it must be that of a child of the server's.
    fn id(&self, server: u32) -> Option<i32> {
        self.reported_id.or_else(|| {
            let id = self.shared_id.load(Ordering::Acquire) as i32;
            (id > 1 && parent(id) == Some(server)).then_some(id)
        })
    }
}

/// What `/proc` tells of a process, from its state on.
fn status(process: i32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Its name, which may hold anything, ends with the last parenthesis.
    text.rsplit_once(") ").map(|(_, rest)| rest.to_owned())
}

fn parent(process: i32) -> Option<u32> {
    status(process)?.split(' ').nth(1)?.parse().ok()
}

impl<'a> Process<'a> {
    /// Starts the program with the runtime in it.
    pub(crate) fn start(launch: Launch<'_>) -> Result<Self, Error> {
        let mut child = spawn(launch, &[])?;
        let handle = open_process_handle(child.id() as i32).map_err(|cause| {
            let _ = child.kill();
            let _ = child.wait();
            Error::System { action: "cannot end_source the program", cause }
        })?;
        Ok(Self { end_source: EndSource::Child(child, handle), ended: false, awaits_next_run: false })
    }

    /// Has a server make a run: the target before main, or a snapshot of it. Which process that is it says in the shared
    /// memory.
    pub(crate) fn serve(server: Service<'a>, shared_id: &'a AtomicU32, rewind: bool) -> Result<Self, Error> {
        server.channel.send(if rewind { Request::Rewind } else { Request::Run })?;
        let end_source = EndSource::Server(server, ForkedProcess { shared_id, reported_id: None });
        Ok(Self { end_source, ended: false, awaits_next_run: false })
    }

    /// Whether it was rewound after its end.
    pub(crate) fn awaits_next_run(&self) -> bool {
        self.awaits_next_run
    }

    /// Looks for its end a while without sleeping: to be woken takes longer than a short run.
    pub(crate) fn poll_for_end(&self) {
        const AT_MOST: Duration = Duration::from_millis(5);
        let begin = Instant::now();
        let mut pauses = 16;
        if let EndSource::Server(server, _) = &self.end_source {
            while !server.channel.has_input() && begin.elapsed() < AT_MOST {
                // The longer it takes, the less it matters when it is seen; and the run may be on the other half of this processor.
                (0..pauses).for_each(|_| std::hint::spin_loop());
                pauses = (pauses * 9 / 8).min(512);
            }
        }
    }

    /// The process's number, if it is known.
    pub(crate) fn id(&self) -> Option<i32> {
        match &self.end_source {
            EndSource::Child(child, _) => Some(child.id() as i32),
            EndSource::Server(server, forked) => forked.id(server.id),
        }
    }

    /// Waits for the end, but not longer than this.
    pub(crate) fn wait(&mut self, most: Duration) -> Result<WaitResult, Error> {
        let there = match &self.end_source {
            EndSource::Child(_, handle) => handle.ends_within(most),
            EndSource::Server(server, _) => server.is_there(most)?,
        };
        if !there {
            return Ok(WaitResult::StillRunning);
        }
        let failed = |cause| Error::System { action: "cannot wait for the program", cause };
        let status = match &mut self.end_source {
            EndSource::Child(child, _) => child.wait().map_err(failed)?,
            EndSource::Server(server, forked) => {
                let [process, status, awaits_next_run] = server.channel.answers()?;
                // Where there is no process, nobody is to be waited for.
                self.ended = process <= 0;
                forked.reported_id = Some(started_process(process)?);
                self.awaits_next_run = awaits_next_run != 0;
                ExitStatus::from_raw(status)
            }
        };
        self.ended = true;
        Ok(WaitResult::Ended(status))
    }

    /// Time is up: asks the runtime to say where it is; if it does not answer, ends it.
    pub(crate) fn stop(&mut self) -> Result<ExitStatus, Error> {
        self.signal(TIMEOUT_SIGNAL);
        for _ in 0..2 {
            if let WaitResult::Ended(status) = self.wait(Duration::from_secs(2))? {
                // The signal may have come after its end.
                self.awaits_next_run = false;
                return Ok(status);
            }
            self.kill();
        }
        Ok(ExitStatus::from_raw(libc::SIGKILL))
    }

    /// How many bytes of memory it has that it shares with nobody.
    pub(crate) fn memory(&self) -> u64 {
        // Pages: all, in memory, of those shared.
        let Some(id) = self.id() else { return 0 };
        let figures = std::fs::read_to_string(format!("/proc/{id}/statm")).unwrap_or_default();
        let mut pages = figures.split(' ').skip(1).map(|figure| figure.parse().unwrap_or(0));
        let (resident, shared): (u64, u64) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
        resident.saturating_sub(shared) * 4096
    }

    /// Whether it takes processor time, and does not wait in the kernel.
    pub(crate) fn is_running(&self) -> bool {
        self.id().and_then(status).is_some_and(|status| status.starts_with('R'))
    }

    /// Has it look whether it waits in a loop, if it runs and expects to be asked. A program that was replaced by another one does not.
    pub(crate) fn request_spin_check(&self) {
        let expects = |id| {
            let text = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
            let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            u64::from_str_radix(caught.trim(), 16)
                .ok()
                .map(|caught| caught & 1 << (SPIN_CHECK_SIGNAL - 1) != 0)
        };
        if self.is_running() && self.id().and_then(expects) == Some(true) {
            self.signal(SPIN_CHECK_SIGNAL);
        }
    }

    fn signal(&self, signal: i32) {
        if let Some(id) = self.id() {
            // SAFETY: the process was not waited for yet, so the number is still its own.
            unsafe { libc::kill(id, signal) };
        }
    }

    /// Ends the process and all that it started in its group.
    fn kill(&self) {
        self.kill_group();
        self.signal(libc::SIGKILL);
    }

    /// Ends all that it started in its group.
    fn kill_group(&self) {
        if let Some(id) = self.id() {
            // SAFETY: the group is the target's own, also when the target is gone: as long as there is somebody in it,
            // nobody else gets its number.
            unsafe { libc::kill(-id, libc::SIGKILL) };
        }
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        if self.awaits_next_run {
            // It had nobody to leave behind.
        } else if self.ended {
            // A run leaves nobody behind who could disturb the next one.
            self.kill_group();
        } else {
            self.kill();
            let _ = self.wait(Duration::from_secs(10));
        }
    }
}

/// A target that was loaded once and makes runs by forking before main.
pub(crate) struct Server {
    pub(crate) child: std::process::Child,
    pub(crate) channel: ServerChannel,
    /// Our ends of the channels for snapshots, until one takes it.
    pub(crate) free: Vec<(u8, ServerChannel)>,
}

impl Server {
    /// For runs from the beginning.
    pub(crate) fn service(&mut self) -> Service<'_> {
        Service { channel: &mut self.channel, id: self.child.id(), handle: None }
    }

    pub(crate) fn start(launch: Launch<'_>) -> Result<Self, Error> {
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for fd in std::iter::once(SERVICE).chain(SNAPSHOTS) {
            let failed = |cause| Error::System { action: "cannot talk with the program", cause };
            let (our, their) = UnixStream::pair().map_err(failed)?;
            ours.push(ServerChannel(our));
            theirs.push((their, fd));
        }
        let child = spawn(launch, &theirs)?;
        let mut ours = ours.into_iter();
        let Some(channel) = ours.next() else { unreachable!("the service is one of the channels") };
        Ok(Self { child, channel, free: (1..).zip(ours).collect() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a server is asked for runs.
#[derive(Debug)]
pub(crate) struct ServerChannel(UnixStream);

impl ServerChannel {
    fn send(&mut self, request: Request) -> Result<(), Error> {
        // A program that is gone says more itself.
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::BrokenPipe => Error::NotServing,
            _ => Error::System { action: "cannot ask for a run", cause },
        };
        self.0.write_all(&[request.byte()]).map_err(failed)
    }

    /// The next number from the server.
    fn answer(&mut self) -> Result<i32, Error> {
        self.answers().map(|[number]| number)
    }

    /// The next numbers.
    fn answers<const N: usize>(&mut self) -> Result<[i32; N], Error> {
        let mut bytes = [[0; 4]; N];
        self.0.read_exact(bytes.as_flattened_mut()).map_err(|_| Error::NotServing)?;
        Ok(bytes.map(i32::from_le_bytes))
    }

    /// Whether there is something to read at once.
    fn has_input(&self) -> bool {
        let mut byte = 0u8;
        let (fd, flags) = (self.0.as_raw_fd(), libc::MSG_PEEK | libc::MSG_DONTWAIT);
        // SAFETY: room for one byte; it does not wait.
        unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, flags) > 0 }
    }
}

/// What a server that was asked for a process says of it.
fn started_process(answer: i32) -> Result<i32, Error> {
    match answer {
        process @ 1.. => Ok(process),
        _ => Err(Error::System {
            action: "the program cannot be forked",
            cause: io::Error::other(
                "is a limit on memory or processes reached? raise it (`ulimit -u`), or use -j 1",
            ),
        }),
    }
}

/// A run that waits somewhere for others to go on from there; ends when dropped.
#[derive(Debug)]
pub(crate) struct SnapshotProcess {
    pub(crate) number: u8,
    pub(crate) channel: ServerChannel,
    handle: Handle,
    /// Also the number of its group.
    id: i32,
}

impl SnapshotProcess {
    /// For runs that go on from it.
    pub(crate) fn service(&mut self) -> Service<'_> {
        Service { channel: &mut self.channel, id: self.id as u32, handle: Some(&self.handle) }
    }

    /// Whether somebody ended it.
    pub(crate) fn is_gone(&self) -> bool {
        self.handle.ends_within(Duration::ZERO)
    }

    /// It is gone without a word. Its channel can be used again: what it said is thrown away here, what it was told, by the next one.
    pub(crate) fn into_lost_channel(self) -> (u8, ServerChannel) {
        end_group(self.id as u32, true);
        let mut byte = 0u8;
        let channel = self.channel.0.as_raw_fd();
        // SAFETY: room for one byte; it does not wait.
        while unsafe { libc::recv(channel, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) } > 0 {}
        (self.number, self.channel)
    }

    /// Has a server make a snapshot by the plan that is laid out; `None` if it did not get to the plan's end within
    /// this time, or cannot wait there.
    pub(crate) fn start(
        server: Service<'_>,
        (number, mut channel): (u8, ServerChannel),
        most: Duration,
    ) -> Result<Result<Self, (u8, ServerChannel)>, Error> {
        server.channel.send(Request::Snapshot(number))?;
        if !server.is_there(most)? {
            return Err(Error::NotServing);
        }
        let id = started_process(server.channel.answer()?)?;
        let Ok(handle) = open_process_handle(id) else { return Ok(Err((number, channel))) };
        // Ready, refused, or dead.
        let until = Instant::now() + most;
        loop {
            if readable(channel.0.as_raw_fd(), Duration::ZERO) {
                let is_ready = channel.answer()? != 0;
                let waiting = Self { number, channel, handle, id };
                return Ok(if is_ready { Ok(waiting) } else { Err(waiting.into_channel()) });
            }
            let left = until.saturating_duration_since(Instant::now());
            let ended = handle.ends_within(Duration::ZERO);
            if left.is_zero() || ended && !readable(channel.0.as_raw_fd(), Duration::ZERO) {
                // SAFETY: the process was not waited for yet, so the number is still its own.
                unsafe { libc::kill(id, libc::SIGKILL) };
                handle.ends_within(Duration::from_secs(10));
                end_group(id as u32, true);
                return Ok(Err((number, channel)));
            }
            any_readable(Some(channel.0.as_raw_fd()), Some(&handle), left);
        }
    }

    /// Lets it end; its channel can be used again.
    pub(crate) fn end(mut self) -> (u8, ServerChannel) {
        let _ = self.channel.0.write_all(&[Request::End.byte()]);
        self.into_channel()
    }

    /// It ends by itself; its channel can be used again. Nothing may be left in there that the next one would read.
    fn into_channel(self) -> (u8, ServerChannel) {
        if !self.handle.ends_within(Duration::from_secs(10)) {
            self.handle.kill();
        }
        // Children that it started would wait for ever.
        end_group(self.id as u32, true);
        (self.number, self.channel)
    }
}

/// Tells of the end of a process.
#[derive(Debug)]
pub(crate) enum Handle {
    Descriptor(OwnedFd),
    /// For systems without such descriptors: the end is looked for again and again. The time of its start tells the process from a
    /// later one with the same number.
    Number {
        process: i32,
        started: Option<String>,
    },
}

impl Handle {
    fn descriptor(&self) -> Option<RawFd> {
        match self {
            Self::Descriptor(handle) => Some(handle.as_raw_fd()),
            Self::Number { .. } => None,
        }
    }

    /// Whether the process has ended, if no descriptor tells.
    fn is_seen_to_have_ended(&self) -> bool {
        let Self::Number { process, started } = self else { return false };
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: numbers, for which zeros are valid.
        let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: room for the answer; nobody is waited for.
        if unsafe { libc::waitid(libc::P_PID, *process as libc::id_t, &raw mut found, options) } == 0 {
            // SAFETY: the kernel filled it in, or left it zero if the child runs.
            return unsafe { found.si_pid() } != 0;
        }
        // It is the child of another process.
        let Some(now) = status(*process) else { return true };
        now.starts_with(['Z', 'X']) || start_time(&now) != started.as_deref()
    }

    /// Whether the process ends within this time, or has ended.
    fn ends_within(&self, most: Duration) -> bool {
        any_readable(None, Some(self), most)
    }

    fn kill(&self) {
        // SAFETY: that very process, or none.
        unsafe {
            match self {
                Self::Descriptor(handle) => {
                    libc::syscall(libc::SYS_pidfd_send_signal, handle.as_raw_fd(), libc::SIGKILL, 0, 0);
                }
                Self::Number { process, .. } if !self.is_seen_to_have_ended() => {
                    libc::kill(*process, libc::SIGKILL);
                }
                Self::Number { .. } => {}
            }
        }
    }
}

/// When a process began, of what `/proc` tells from its state on.
fn start_time(status: &str) -> Option<&str> {
    status.split(' ').nth(19)
}

/// A handle of a process that can be waited for.
fn open_process_handle(process: i32) -> io::Result<Handle> {
    // SAFETY: asks for a handle.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) } as RawFd;
    if handle >= 0 {
        // SAFETY: just made, owned by nobody else.
        return Ok(Handle::Descriptor(unsafe { OwnedFd::from_raw_fd(handle) }));
    }
    match io::Error::last_os_error() {
        gone if gone.raw_os_error() == Some(libc::ESRCH) => Err(gone),
        _ => {
            let started = status(process).and_then(|status| start_time(&status).map(str::to_owned));
            Ok(Handle::Number { process, started })
        }
    }
}

/// The processors' time that this process has used, and those that it started and that have ended.
#[must_use]
pub fn processor_time() -> Duration {
    let used = |target| {
        // SAFETY: numbers, for which zeros are as good as any.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: room for what is written.
        unsafe { libc::getrusage(target, &raw mut usage) };
        let time = |at: libc::timeval| {
            Duration::from_secs(at.tv_sec as u64) + Duration::from_micros(at.tv_usec as u64)
        };
        time(usage.ru_utime) + time(usage.ru_stime)
    };
    used(libc::RUSAGE_SELF) + used(libc::RUSAGE_CHILDREN)
}

/// Whether there is something to read, or an end, within this time.
fn readable(fd: RawFd, most: Duration) -> bool {
    any_readable(Some(fd), None, most)
}

/// The same, or the end of this process.
fn any_readable(fd: Option<RawFd>, handle: Option<&Handle>, most: Duration) -> bool {
    let until = Instant::now() + most;
    let descriptor = handle.and_then(Handle::descriptor);
    // One that is negative is not looked at.
    let mut polls =
        [fd, descriptor].map(|fd| libc::pollfd { fd: fd.unwrap_or(-1), events: libc::POLLIN, revents: 0 });
    // Without a descriptor the end of the process has to be looked for.
    let longest = if handle.is_some() && descriptor.is_none() { 1 } else { i32::MAX };
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let millis = if left.is_zero() { 0 } else { i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX) };
        // SAFETY: valid entries.
        match unsafe { libc::poll(polls.as_mut_ptr(), 2, millis.min(longest)) } {
            1.. => return true,
            _ if handle.is_some_and(Handle::is_seen_to_have_ended) => return true,
            _ if left.is_zero() => return false,
            _ => {}
        }
    }
}

/// Waits until there is something to read, but not longer than this.
pub(crate) fn wait_readable(fd: RawFd, most: Duration) {
    readable(fd, most);
}

/// Our own standard error, for somebody else's output.
pub(crate) fn standard_error() -> Stdio {
    io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from)
}

/// The process that this will start ends when we do.
pub(crate) fn kill_with_parent(command: &mut Command) {
    let prepare = || {
        // SAFETY: system calls on ourselves.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))
        }
    };
    // SAFETY: only system calls that are allowed between fork and exec.
    unsafe { command.pre_exec(prepare) };
}

/// Ends all of a group: asks them to, or does not ask.
pub(crate) fn end_group(leader: u32, at_once: bool) {
    let signal = if at_once { libc::SIGKILL } else { libc::SIGTERM };
    // SAFETY: a child of ours that was not waited for, or whose group is still its own.
    unsafe { libc::kill(-(leader as i32), signal) };
}

/// Starts the program with the runtime in it; with channels, as a server.
fn spawn(launch: Launch<'_>, channels: &[(UnixStream, RawFd)]) -> Result<std::process::Child, Error> {
    let mut command = command(launch, layout())?;
    let memory = launch.memory;
    let controller = std::process::id();
    let channels: Vec<(RawFd, RawFd)> = channels.iter().map(|(their, fd)| (their.as_raw_fd(), *fd)).collect();
    // SAFETY: only system calls that are allowed between fork and exec.
    unsafe { command.pre_exec(move || become_target(memory, &channels, controller)) };
    command.spawn().map_err(|cause| not_started(launch.program, cause))
}

/// Goes on as the program with the runtime in it, in the place of this one: for a debugger, whose child it is then.
pub(crate) fn replace(launch: Launch<'_>) -> Error {
    let memory = launch.memory;
    // A debugger looks for the program where the kernel loaded it.
    let mut command = match command(launch, Layout::Kernel) {
        Ok(command) => command,
        Err(error) => return error,
    };
    // SAFETY: only system calls.
    unsafe { command.pre_exec(move || with_room_for_descriptors(|| keep_addresses(memory))) };
    not_started(launch.program, command.exec())
}

fn not_started(program: &Program, cause: io::Error) -> Error {
    if std::path::Path::new(&program.cwd).is_dir() {
        Error::System { action: "cannot start the program", cause }
    } else {
        Error::Directory { directory: program.cwd.clone(), cause }
    }
}

/// Gives a command this environment and the runtime, which is loaded before the program's libraries and after those `before` it.
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

/// The program with its arguments, its surroundings and the runtime in it.
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
    let is_users_own = program.env.iter().any(|entry| entry.starts_with(b"LD_BIND_NOW=") && entry.len() > 12);
    if *binding == Binding::Eager && !is_users_own {
        set(&mut command, BIND_NOW);
    }
    let duplicate = |stream: &File| {
        stream
            .try_clone()
            .map(Stdio::from)
            .map_err(|cause| Error::System { action: "cannot pass a stream on", cause })
    };
    command
        .stdin(duplicate(&streams.stdin)?)
        .stdout(duplicate(&streams.stdout)?)
        .stderr(duplicate(&streams.stderr)?);
    Ok(command)
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Before exec: the memory where the runtime looks for it, and the same addresses in every run.
fn keep_addresses(memory: RawFd) -> io::Result<()> {
    // SAFETY: system calls on ourselves.
    unsafe {
        check(libc::dup2(memory, DESCRIPTOR))?;
        // Where this is forbidden, `Layout::Own` takes its place.
        libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
        limit_stack()?;
        // Which signals are ignored comes from whoever started us, and from what we handle ourselves in one command and not in
        // the other: a program that asks shall find the same in every run.
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        // No core dumps: they take long, and the trace says more.
        check(libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }))
    }
}

/// With an unlimited stack the kernel would put mappings where the race detector does not look for them. The runtime takes the limit
/// away again.
fn limit_stack() -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for the answer.
    check(unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) })?;
    if limit.rlim_cur > UNLIMITED_STACK {
        limit.rlim_cur = UNLIMITED_STACK;
        // SAFETY: the kernel reads the limit.
        check(unsafe { libc::setrlimit(libc::RLIMIT_STACK, &raw const limit) })?;
    }
    Ok(())
}

/// Does something that needs descriptors of fixed numbers. They stay usable when the limit is put back.
fn with_room_for_descriptors(job: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    const ENOUGH: u64 = 256;
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for the answer.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) })?;
    if before.rlim_cur >= ENOUGH {
        return job();
    }
    let more = libc::rlimit { rlim_cur: ENOUGH, rlim_max: before.rlim_max.max(ENOUGH) };
    // SAFETY: the kernel reads the limits; if it does not allow the first one, the job says what it lacks.
    unsafe {
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const more);
        job()?;
        check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const before))
    }
}

/// Whether this process, and with it the program, may start threads.
///
/// # Errors
/// If it may not, with the reason.
pub fn check_threads() -> Result<(), Error> {
    let failed = |cause| Error::System { action: "cannot start a thread", cause };
    let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(|| {}).map_err(failed)?;
    let _ = thread.join();
    Ok(())
}

/// From now on, a file that may not grow any more (`ulimit -f`) is an error to be told, not this process's death.
pub fn ignore_file_size_signal() {
    // SAFETY: ignores a signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Who decides where the program and its libraries are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The kernel, without randomisation.
    Kernel,
    /// Our own library, because the kernel's randomisation cannot be switched off.
    Own,
}

/// How programs get the same addresses in every run on this system.
#[must_use]
pub fn layout() -> Layout {
    static LAYOUT: OnceLock<Layout> = OnceLock::new();
    const ASK: libc::c_ulong = 0xffff_ffff;
    *LAYOUT.get_or_init(|| {
        // For tests and benchmarks, and to see on a usual machine what a container sees.
        if std::env::var_os("UNSNARL_LAYOUT").is_some_and(|value| value == "own") {
            return Layout::Own;
        }
        // SAFETY: switches a flag of the calling thread on that matters only to programs that it starts, and off again.
        let is_allowed = unsafe {
            let now = libc::personality(ASK).max(0);
            let is_allowed = libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) >= 0;
            libc::personality(now as libc::c_ulong);
            is_allowed
        };
        if is_allowed { Layout::Kernel } else { Layout::Own }
    })
}

/// Between fork and exec.
fn become_target(memory: RawFd, channels: &[(RawFd, RawFd)], controller: u32) -> io::Result<()> {
    with_room_for_descriptors(|| {
        keep_addresses(memory)?;
        // SAFETY: copies descriptors of ours.
        channels.iter().try_for_each(|&(channel, fd)| check(unsafe { libc::dup2(channel, fd) }))
    })?;
    // SAFETY: system calls on ourselves.
    unsafe {
        check(libc::setpgid(0, 0))?;
        // A killed controller takes its target with it.
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if libc::getppid() as u32 != controller {
            return Err(io::Error::other("the controller is gone"));
        }
    }
    Ok(())
}
