//! Starting a process and waiting for its end.

use crate::{Error, library};
use std::{
    ffi::OsString,
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
    time::{Duration, Instant},
};
use unsnarl_model::Program;
use unsnarl_wire::{DESCRIPTOR, Request, SERVICE, SNAPSHOTS, SPIN_COUNT, TIME_IS_UP, VARIABLE};

/// The target's standard streams.
pub(crate) struct Streams {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
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
    id: i32,
    watch: Watch<'a>,
    ended: bool,
}

/// Who tells of the end.
enum Watch<'a> {
    /// The kernel: the process is our own child.
    Child(std::process::Child, OwnedFd),
    /// The server, whose child it is.
    Server(&'a mut Channel),
}

impl<'a> Process<'a> {
    /// Starts the program with the runtime in it.
    pub(crate) fn start(program: &Program, memory: RawFd, streams: &Streams) -> Result<Self, Error> {
        let mut child = spawn(program, memory, &[], streams)?;
        let id = child.id() as i32;
        let handle = watch(id).map_err(|cause| {
            let _ = child.kill();
            let _ = child.wait();
            Error::System { what: "cannot watch the program (Linux 5.3 or later is needed)", cause }
        })?;
        Ok(Self { id, watch: Watch::Child(child, handle), ended: false })
    }

    /// Has a server make a run: the target before main, or a snapshot of it.
    pub(crate) fn serve(server: &'a mut Channel) -> Result<Self, Error> {
        let id = server.request(Request::Run)?;
        Ok(Self { id, watch: Watch::Server(server), ended: false })
    }

    /// Waits for the end, but not longer than this.
    pub(crate) fn wait(&mut self, most: Duration) -> Result<Waited, Error> {
        let handle = match &self.watch {
            Watch::Child(_, handle) => handle.as_raw_fd(),
            Watch::Server(server) => server.0.as_raw_fd(),
        };
        if !readable(handle, most) {
            return Ok(Waited::NotYet);
        }
        let failed = |cause| Error::System { what: "cannot wait for the program", cause };
        let status = match &mut self.watch {
            Watch::Child(child, _) => child.wait().map_err(failed)?,
            Watch::Server(server) => ExitStatus::from_raw(server.answer()?),
        };
        self.ended = true;
        Ok(Waited::Ended(status))
    }

    /// Time is up: asks the runtime to say where it is; if it does not answer, ends it.
    pub(crate) fn stop(&mut self) -> Result<ExitStatus, Error> {
        self.signal(TIME_IS_UP);
        for _ in 0..2 {
            if let Waited::Ended(status) = self.wait(Duration::from_secs(2))? {
                return Ok(status);
            }
            self.kill();
        }
        Ok(ExitStatus::from_raw(libc::SIGKILL))
    }

    /// How many bytes of memory it has that it shares with nobody.
    pub(crate) fn memory(&self) -> u64 {
        // Pages: all, in memory, of those shared.
        let figures = std::fs::read_to_string(format!("/proc/{}/statm", self.id)).unwrap_or_default();
        let mut pages = figures.split(' ').skip(1).map(|figure| figure.parse().unwrap_or(0));
        let (resident, shared): (u64, u64) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
        resident.saturating_sub(shared) * 4096
    }

    /// Whether it takes processor time, and does not wait in the kernel.
    pub(crate) fn is_running(&self) -> bool {
        let told = std::fs::read_to_string(format!("/proc/{}/stat", self.id)).unwrap_or_default();
        // Its name, which may hold anything, ends with the last parenthesis.
        told.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('R'))
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the process was not waited for yet, so the number is still its own.
        unsafe { libc::kill(self.id, signal) };
    }

    /// Ends the process and all that it started in its group.
    fn kill(&self) {
        self.kill_group();
        self.signal(libc::SIGKILL);
    }

    /// Ends all that it started in its group.
    fn kill_group(&self) {
        // SAFETY: the group is the target's own, also when the target is gone: as long as there is somebody in it, nobody
        // else gets its number.
        unsafe { libc::kill(-self.id, libc::SIGKILL) };
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        if self.ended {
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
    pub(crate) fn start(program: &Program, memory: RawFd, streams: &Streams) -> Result<Self, Error> {
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for fd in std::iter::once(SERVICE).chain(SNAPSHOTS) {
            let failed = |cause| Error::System { what: "cannot talk with the program", cause };
            let (our, their) = UnixStream::pair().map_err(failed)?;
            ours.push(Channel(our));
            theirs.push((their, fd));
        }
        let child = spawn(program, memory, &theirs, streams)?;
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
    /// Asks for a process, whose number is the answer.
    fn request(&mut self, request: Request) -> Result<i32, Error> {
        // A program that is gone says more itself.
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::BrokenPipe => Error::NotServing,
            _ => Error::System { what: "cannot ask for a run", cause },
        };
        self.0.write_all(&[request.byte()]).map_err(failed)?;
        match self.answer()? {
            process if process > 0 => Ok(process),
            _ => Err(Error::System {
                what: "the program cannot be forked",
                cause: io::Error::other("is a limit on memory or processes reached?"),
            }),
        }
    }

    /// The next number from the server.
    fn answer(&mut self) -> Result<i32, Error> {
        let mut bytes = [0; 4];
        self.0.read_exact(&mut bytes).map_err(|_| Error::NotServing)?;
        Ok(i32::from_le_bytes(bytes))
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
    /// Has a server make a snapshot by the plan that is laid out; `None` if it did not get to the plan's end within
    /// this time, or cannot wait there.
    pub(crate) fn start(
        server: &mut Channel,
        (number, mut channel): (u8, Channel),
        most: Duration,
    ) -> Result<Result<Self, (u8, Channel)>, Error> {
        let id = server.request(Request::Snapshot(number))?;
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
            either_readable(channel.0.as_raw_fd(), handle.as_raw_fd(), left);
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

/// Waits until there is something to read at one of them, but not longer than this.
fn either_readable(a: RawFd, b: RawFd, most: Duration) {
    let mut polls = [a, b].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let millis = i32::try_from(most.as_millis() + 1).unwrap_or(i32::MAX);
    // SAFETY: two valid entries.
    unsafe { libc::poll(polls.as_mut_ptr(), 2, millis) };
}

/// Whether there is something to read, or an end, within this time.
fn readable(fd: RawFd, most: Duration) -> bool {
    let until = Instant::now() + most;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let millis = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
        // SAFETY: one valid entry.
        match unsafe { libc::poll(&raw mut poll, 1, millis) } {
            1 => return true,
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
fn spawn(
    program: &Program,
    memory: RawFd,
    channels: &[(UnixStream, RawFd)],
    streams: &Streams,
) -> Result<std::process::Child, Error> {
    let mut command = command(program, streams)?;
    let controller = std::process::id();
    let channels: Vec<(RawFd, RawFd)> = channels.iter().map(|(their, fd)| (their.as_raw_fd(), *fd)).collect();
    // SAFETY: only system calls that are allowed between fork and exec.
    unsafe { command.pre_exec(move || become_target(memory, &channels, controller)) };
    command.spawn().map_err(|cause| not_started(program, cause))
}

/// Goes on as the program with the runtime in it, in the place of this one: for a debugger, whose child it is then.
pub(crate) fn replace(program: &Program, memory: RawFd, streams: &Streams) -> Error {
    let mut command = match command(program, streams) {
        Ok(command) => command,
        Err(error) => return error,
    };
    // SAFETY: only system calls.
    unsafe { command.pre_exec(move || keep_addresses(memory)) };
    not_started(program, command.exec())
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

/// The program with its arguments, its surroundings and the runtime in it.
fn command(program: &Program, streams: &Streams) -> Result<Command, Error> {
    let runtime = library::runtime()?;
    let mut command = Command::new(&program.path);
    let text = |bytes: &Vec<u8>| OsString::from_vec(bytes.clone());
    if let Some((name, rest)) = program.args.split_first() {
        command.arg0(text(name)).args(rest.iter().map(text));
    }
    command.env_clear().current_dir(&program.cwd);
    let mut preload = runtime.into_os_string();
    for entry in &program.env {
        let at = entry.iter().position(|&b| b == b'=').unwrap_or(entry.len());
        let (name, value) = (&entry[..at], &entry[(at + 1).min(entry.len())..]);
        if name == b"LD_PRELOAD" && !value.is_empty() {
            preload.push(":");
            preload.push(OsString::from_vec(value.to_vec()));
        } else {
            command.env(OsString::from_vec(name.to_vec()), OsString::from_vec(value.to_vec()));
        }
    }
    command.env("LD_PRELOAD", preload).env(VARIABLE, "1");
    if let Some((name, value)) = SPIN_COUNT.split_once('=') {
        command.env(name, value);
    }
    let duplicate = |fd: &OwnedFd| {
        fd.try_clone()
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
