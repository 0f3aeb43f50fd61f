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
    process::{Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};
use unsnarl_model::Program;
use unsnarl_wire::{BIND_NOW, DESCRIPTOR, Request, SERVICE, SNAPSHOTS, SPIN_COUNT, SPINS, TIME_IS_UP, VARIABLE};

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
pub(crate) enum Waited {
    /// The process is gone.
    Ended(ExitStatus),
    /// It is still there.
    NotYet,
}

/// A running target; killed when dropped.
pub(crate) struct Process<'a> {
    watch: Watch<'a>,
    ended: bool,
    /// It was rewound, and waits for the next run.
    stays: bool,
}

/// A target that was loaded, or came to the end of a plan, and makes runs by forking.
pub(crate) struct Service<'a> {
    pub(crate) channel: &'a mut Channel,
    /// Its process.
    pub(crate) id: u32,
    /// A handle of it, if the channel does not tell of its end.
    pub(crate) handle: Option<RawFd>,
}

impl Service<'_> {
    /// Whether it says something within this time; an error if it is gone without a word. Others hold the other end of a
    /// snapshot's channel, which therefore says nothing of its end.
    fn is_there(&self, most: Duration) -> Result<bool, Error> {
        if self.channel.has_something() {
            return Ok(true);
        }
        let channel = self.channel.0.as_raw_fd();
        if !any_readable(&[Some(channel), self.handle], most) {
            return Ok(false);
        }
        if readable(channel, Duration::ZERO) { Ok(true) } else { Err(Error::NotServing) }
    }
}

/// Who tells of the end.
enum Watch<'a> {
    /// The kernel: the process is our own child.
    Child(std::process::Child, OwnedFd),
    /// The server, whose child it is.
    Server(Service<'a>, Forked<'a>),
}

/// Which process a server made. It says so in the shared memory at once, and through its channel when the process has ended.
struct Forked<'a> {
    soon: &'a AtomicU32,
    told: Option<i32>,
}

impl Forked<'_> {
    /// Its number, if it is known. What is in the shared memory the target can spoil: it must be that of a child of the server's.
    fn id(&self, server: u32) -> Option<i32> {
        self.told.or_else(|| {
            let id = self.soon.load(Ordering::Acquire) as i32;
            (id > 1 && parent(id) == Some(server)).then_some(id)
        })
    }
}

/// What `/proc` tells of a process, from its state on.
fn status(process: i32) -> Option<String> {
    let told = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Its name, which may hold anything, ends with the last parenthesis.
    told.rsplit_once(") ").map(|(_, rest)| rest.to_owned())
}

fn parent(process: i32) -> Option<u32> {
    status(process)?.split(' ').nth(1)?.parse().ok()
}

impl<'a> Process<'a> {
    /// Starts the program with the runtime in it.
    pub(crate) fn start(launch: Launch<'_>) -> Result<Self, Error> {
        let mut child = spawn(launch, &[])?;
        let handle = watch(child.id() as i32).map_err(|cause| {
            let _ = child.kill();
            let _ = child.wait();
            Error::System { what: "cannot watch the program (Linux 5.3 or later is needed)", cause }
        })?;
        Ok(Self { watch: Watch::Child(child, handle), ended: false, stays: false })
    }

    /// Has a server make a run: the target before main, or a snapshot of it. Which process that is it says in the shared
    /// memory.
    pub(crate) fn serve(server: Service<'a>, soon: &'a AtomicU32, rewind: bool) -> Result<Self, Error> {
        server.channel.ask(if rewind { Request::Rewind } else { Request::Run })?;
        let watch = Watch::Server(server, Forked { soon, told: None });
        Ok(Self { watch, ended: false, stays: false })
    }

    /// Whether it was rewound after its end.
    pub(crate) fn stays(&self) -> bool {
        self.stays
    }

    /// Looks for its end a while without sleeping: to be woken takes longer than a short run.
    pub(crate) fn look_for_end(&self) {
        const AT_MOST: Duration = Duration::from_millis(5);
        let begin = Instant::now();
        let mut pauses = 16;
        if let Watch::Server(server, _) = &self.watch {
            while !server.channel.has_something() && begin.elapsed() < AT_MOST {
                // The longer it takes, the less it matters when it is seen; and the run may be on the other half of this processor.
                (0..pauses).for_each(|_| std::hint::spin_loop());
                pauses = (pauses * 9 / 8).min(512);
            }
        }
    }

    /// The process's number, if it is known.
    pub(crate) fn id(&self) -> Option<i32> {
        match &self.watch {
            Watch::Child(child, _) => Some(child.id() as i32),
            Watch::Server(server, forked) => forked.id(server.id),
        }
    }

    /// Waits for the end, but not longer than this.
    pub(crate) fn wait(&mut self, most: Duration) -> Result<Waited, Error> {
        let there = match &self.watch {
            Watch::Child(_, handle) => readable(handle.as_raw_fd(), most),
            Watch::Server(server, _) => server.is_there(most)?,
        };
        if !there {
            return Ok(Waited::NotYet);
        }
        let failed = |cause| Error::System { what: "cannot wait for the program", cause };
        let status = match &mut self.watch {
            Watch::Child(child, _) => child.wait().map_err(failed)?,
            Watch::Server(server, forked) => {
                let [process, status, stays] = server.channel.answers()?;
                forked.told = Some(made(process)?);
                self.stays = stays != 0;
                ExitStatus::from_raw(status)
            }
        };
        self.ended = true;
        Ok(Waited::Ended(status))
    }

    /// Time is up: asks the runtime to say where it is; if it does not answer, ends it.
    pub(crate) fn stop(&mut self) -> Result<ExitStatus, Error> {
        self.signal(TIME_IS_UP);
        for _ in 0..2 {
            if let Waited::Ended(status) = self.wait(Duration::from_secs(2))? {
                // The signal may have come after its end.
                self.stays = false;
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
    pub(crate) fn look_for_spin(&self) {
        let expects = |id| {
            let told = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
            let caught = told.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            u64::from_str_radix(caught.trim(), 16).ok().map(|caught| caught & 1 << (SPINS - 1) != 0)
        };
        if self.is_running() && self.id().and_then(expects) == Some(true) {
            self.signal(SPINS);
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
        if self.stays {
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
    pub(crate) channel: Channel,
    /// Our ends of the channels for snapshots, until one takes it.
    pub(crate) free: Vec<(u8, Channel)>,
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
            let failed = |cause| Error::System { what: "cannot talk with the program", cause };
            let (our, their) = UnixStream::pair().map_err(failed)?;
            ours.push(Channel(our));
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
pub(crate) struct Channel(UnixStream);

impl Channel {
    fn ask(&mut self, request: Request) -> Result<(), Error> {
        // A program that is gone says more itself.
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::BrokenPipe => Error::NotServing,
            _ => Error::System { what: "cannot ask for a run", cause },
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
    fn has_something(&self) -> bool {
        let mut byte = 0u8;
        let (fd, flags) = (self.0.as_raw_fd(), libc::MSG_PEEK | libc::MSG_DONTWAIT);
        // SAFETY: room for one byte; it does not wait.
        unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, flags) > 0 }
    }
}

/// What a server that was asked for a process says of it.
fn made(answer: i32) -> Result<i32, Error> {
    match answer {
        process @ 1.. => Ok(process),
        _ => Err(Error::System {
            what: "the program cannot be forked",
            cause: io::Error::other("is a limit on memory or processes reached?"),
        }),
    }
}

/// A run that waits somewhere for others to go on from there; ends when dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) number: u8,
    pub(crate) channel: Channel,
    handle: OwnedFd,
    /// Also the number of its group.
    id: i32,
}

impl Waiting {
    /// For runs that go on from it.
    pub(crate) fn service(&mut self) -> Service<'_> {
        Service { channel: &mut self.channel, id: self.id as u32, handle: Some(self.handle.as_raw_fd()) }
    }

    /// Whether somebody ended it.
    pub(crate) fn is_gone(&self) -> bool {
        readable(self.handle.as_raw_fd(), Duration::ZERO)
    }

    /// It is gone without a word. Its channel can be used again: what it said is thrown away here, what it was told, by the next one.
    pub(crate) fn lost(self) -> (u8, Channel) {
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
        (number, mut channel): (u8, Channel),
        most: Duration,
    ) -> Result<Result<Self, (u8, Channel)>, Error> {
        server.channel.ask(Request::Snapshot(number))?;
        if !server.is_there(most)? {
            return Err(Error::NotServing);
        }
        let id = made(server.channel.answer()?)?;
        let Ok(handle) = watch(id) else { return Ok(Err((number, channel))) };
        // Ready, refused, or dead.
        let until = Instant::now() + most;
        loop {
            if readable(channel.0.as_raw_fd(), Duration::ZERO) {
                let is_ready = channel.answer()? != 0;
                let waiting = Self { number, channel, handle, id };
                return Ok(if is_ready { Ok(waiting) } else { Err(waiting.gone()) });
            }
            let left = until.saturating_duration_since(Instant::now());
            let ended = readable(handle.as_raw_fd(), Duration::ZERO);
            if left.is_zero() || ended && !readable(channel.0.as_raw_fd(), Duration::ZERO) {
                // SAFETY: the process was not waited for yet, so the number is still its own.
                unsafe { libc::kill(id, libc::SIGKILL) };
                readable(handle.as_raw_fd(), Duration::from_secs(10));
                end_group(id as u32, true);
                return Ok(Err((number, channel)));
            }
            any_readable(&[Some(channel.0.as_raw_fd()), Some(handle.as_raw_fd())], left);
        }
    }

    /// Lets it end; its channel can be used again.
    pub(crate) fn end(mut self) -> (u8, Channel) {
        let _ = self.channel.0.write_all(&[Request::End.byte()]);
        self.gone()
    }

    /// It ends by itself; its channel can be used again. Nothing may be left in there that the next one would read.
    fn gone(self) -> (u8, Channel) {
        if !readable(self.handle.as_raw_fd(), Duration::from_secs(10)) {
            // SAFETY: a handle of that very process.
            unsafe {
                libc::syscall(libc::SYS_pidfd_send_signal, self.handle.as_raw_fd(), libc::SIGKILL, 0, 0)
            };
        }
        // Children that it started would wait for ever.
        end_group(self.id as u32, true);
        (self.number, self.channel)
    }
}

/// A handle of a process that can be waited for.
fn watch(process: i32) -> io::Result<OwnedFd> {
    // SAFETY: asks for a handle.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) } as RawFd;
    if handle < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(handle) })
}

/// The processors' time that this process has used, and those that it started and that have ended.
#[must_use]
pub fn processor_time() -> Duration {
    let used = |who| {
        // SAFETY: numbers, for which zeros are as good as any.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: room for what is written.
        unsafe { libc::getrusage(who, &raw mut usage) };
        let time = |at: libc::timeval| {
            Duration::from_secs(at.tv_sec as u64) + Duration::from_micros(at.tv_usec as u64)
        };
        time(usage.ru_utime) + time(usage.ru_stime)
    };
    used(libc::RUSAGE_SELF) + used(libc::RUSAGE_CHILDREN)
}

/// Whether there is something to read, or an end, within this time.
fn readable(fd: RawFd, most: Duration) -> bool {
    any_readable(&[Some(fd), None], most)
}

/// The same at one of them.
fn any_readable(fds: &[Option<RawFd>; 2], most: Duration) -> bool {
    let until = Instant::now() + most;
    // One that is negative is not looked at.
    let mut polls = fds.map(|fd| libc::pollfd { fd: fd.unwrap_or(-1), events: libc::POLLIN, revents: 0 });
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let millis = if left.is_zero() { 0 } else { i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX) };
        // SAFETY: valid entries.
        match unsafe { libc::poll(polls.as_mut_ptr(), 2, millis) } {
            1.. => return true,
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
pub(crate) fn end_with_us(command: &mut Command) {
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
    let mut command = command(launch)?;
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
    let mut command = match command(launch) {
        Ok(command) => command,
        Err(error) => return error,
    };
    // SAFETY: only system calls.
    unsafe { command.pre_exec(move || keep_addresses(memory)) };
    not_started(launch.program, command.exec())
}

fn not_started(program: &Program, cause: io::Error) -> Error {
    if cause.raw_os_error() == Some(NO_PERSONALITY) {
        Error::Refused(
            "the system does not let it switch address randomisation off; in a container, allow `personality` (docker run \
             --security-opt seccomp=unconfined)"
                .into(),
        )
    } else if std::path::Path::new(&program.cwd).is_dir() {
        Error::System { what: "cannot start the program", cause }
    } else {
        Error::Directory { directory: program.cwd.clone(), cause }
    }
}

/// Gives a command this environment and the runtime, which is loaded before whatever else is.
pub(crate) fn preload(command: &mut Command, env: &[Vec<u8>]) -> Result<(), Error> {
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let mut libraries = library::runtime()?.into_os_string();
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
fn command(launch: Launch<'_>) -> Result<Command, Error> {
    let Launch { program, binding, streams, .. } = launch;
    let mut command = Command::new(&program.path);
    let text = |bytes: &Vec<u8>| OsString::from_vec(bytes.clone());
    if let Some((name, rest)) = program.args.split_first() {
        command.arg0(text(name)).args(rest.iter().map(text));
    }
    command.current_dir(&program.cwd);
    preload(&mut command, &program.env)?;
    command.env(VARIABLE, "1");
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
            .map_err(|cause| Error::System { what: "cannot pass a stream on", cause })
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
        if libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) < 0 {
            return Err(io::Error::from_raw_os_error(NO_PERSONALITY));
        }
        // Which signals are ignored comes from whoever started us, and from what we handle ourselves in one command and not in
        // the other: a program that asks shall find the same in every run.
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        // No core dumps: they take long, and the trace says more.
        check(libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }))
    }
}

/// From now on, a file that may not grow any more (`ulimit -f`) is an error to be told, not this process's death.
pub fn outlive_file_limit() {
    // SAFETY: ignores a signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// An error that no other call here has.
const NO_PERSONALITY: i32 = libc::ENOEXEC;

/// Between fork and exec.
fn become_target(memory: RawFd, channels: &[(RawFd, RawFd)], controller: u32) -> io::Result<()> {
    keep_addresses(memory)?;
    // SAFETY: system calls on ourselves.
    unsafe {
        for &(channel, fd) in channels {
            check(libc::dup2(channel, fd))?;
        }
        check(libc::setpgid(0, 0))?;
        // A killed controller takes its target with it.
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if libc::getppid() as u32 != controller {
            return Err(io::Error::other("the controller is gone"));
        }
    }
    Ok(())
}
