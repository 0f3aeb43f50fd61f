//! Starts target processes and waits for their end.

use crate::{Error, binding::Binding, library, signals, streams::Streams};
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
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};
use unsnarl_model::Program;
use unsnarl_wire::{
    AddedValue, BIND_NOW, DESCRIPTOR, NO_LEAK_DETECTION, RUNTIME_MEMORY, Request, SERVICE, SNAPSHOTS,
    SPIN_CHECK_SIGNAL, SPIN_COUNT, TIMEOUT_SIGNAL, UNLIMITED_STACK, WIRE_VARIABLE,
};

/// The program to start and its environment.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a Program,
    pub(crate) binding: &'a Binding,
    pub(crate) streams: &'a Streams,
    /// The descriptor of the shared memory.
    pub(crate) memory: RawFd,
}

/// Result of a wait.
pub(crate) enum WaitResult {
    /// The process has ended.
    Ended(ExitStatus),
    /// The process still runs.
    StillRunning,
}

/// A running target; killed when dropped.
pub(crate) struct Process<'a> {
    end_source: EndSource<'a>,
    ended: bool,
    /// The process was rewound and waits for the next run.
    awaits_next_run: bool,
}

/// A target that waits before main or at the end of a plan, and forks a process per run.
pub(crate) struct Service<'a> {
    pub(crate) channel: &'a mut ServerChannel,
    /// Its process id.
    pub(crate) id: u32,
    /// Its process handle, if the channel does not report its end.
    pub(crate) handle: Option<&'a Handle>,
}

impl Service<'_> {
    /// Waits up to `most` for a message and returns whether there is one; an error if the server has ended silently.
    /// Other processes hold the far end of a snapshot's channel, so that channel does not report the snapshot's end.
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

/// The means by which the end of a target is reported.
enum EndSource<'a> {
    /// By the kernel: the process is our own child.
    Child(std::process::Child, Handle),
    /// By the server, whose child it is.
    Server(Service<'a>, ForkedProcess<'a>),
}

/// The process that a server forked. The server writes its id to the shared memory at once, and sends it through the
/// channel when the process has ended.
struct ForkedProcess<'a> {
    shared_id: &'a AtomicU32,
    reported_id: Option<i32>,
}

impl ForkedProcess<'_> {
    /// Returns the process id, if it is known. The target can corrupt the shared memory, so an id found there must
    /// belong to a child of the server.
    fn id(&self, server: u32) -> Option<i32> {
        self.reported_id.or_else(|| {
            let id = self.shared_id.load(Ordering::Acquire) as i32;
            (id > 1 && parent(id) == Some(server)).then_some(id)
        })
    }
}

/// Reads the fields of `/proc/PID/stat` from the state on.
pub(crate) fn status(process: i32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The process name can hold any characters; it ends with the last parenthesis.
    text.rsplit_once(") ").map(|(_, rest)| rest.to_owned())
}

/// Adds up the private memory of the runtime's mappings in the text of `/proc/PID/smaps`.
fn runtime_memory(smaps: &str) -> u64 {
    let (mut is_runtime, mut kib) = (false, 0);
    for line in smaps.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some((start, _)) = first.split_once('-') {
            let start = u64::from_str_radix(start, 16).unwrap_or(0);
            is_runtime = RUNTIME_MEMORY.iter().any(|range| range.contains(&start));
        } else if is_runtime && matches!(first, "Private_Clean:" | "Private_Dirty:") {
            kib += rest.trim().trim_end_matches(" kB").parse().unwrap_or(0);
        }
    }
    kib * 1024
}

fn parent(process: i32) -> Option<u32> {
    status(process)?.split(' ').nth(1)?.parse().ok()
}

impl<'a> Process<'a> {
    /// Starts the program with the runtime preloaded.
    pub(crate) fn start(launch: Launch<'_>) -> Result<Self, Error> {
        let mut child = spawn(launch, &[])?;
        let handle = open_process_handle(child.id() as i32).map_err(|cause| {
            end_child(&mut child);
            Error::System { action: "cannot watch the program", cause }
        })?;
        Ok(Self { end_source: EndSource::Child(child, handle), ended: false, awaits_next_run: false })
    }

    /// Has a server fork a process for a run: the server waits before main, or at a snapshot. It writes the process id
    /// to the shared memory.
    pub(crate) fn serve(server: Service<'a>, shared_id: &'a AtomicU32, rewind: bool) -> Result<Self, Error> {
        server.channel.send(if rewind { Request::Rewind } else { Request::Run })?;
        let end_source = EndSource::Server(server, ForkedProcess { shared_id, reported_id: None });
        Ok(Self { end_source, ended: false, awaits_next_run: false })
    }

    /// Returns whether the process was rewound after its end.
    pub(crate) fn awaits_next_run(&self) -> bool {
        self.awaits_next_run
    }

    /// Spins for the end for a while, because waking up takes longer than a short run.
    pub(crate) fn poll_for_end(&self) {
        const AT_MOST: Duration = Duration::from_millis(5);
        let begin = Instant::now();
        let mut pauses = 16;
        if let EndSource::Server(server, _) = &self.end_source {
            while !server.channel.has_input() && begin.elapsed() < AT_MOST {
                // Pauses grow: after a long wait a delay matters less, and the run may use the same core's other
                // hardware thread.
                (0..pauses).for_each(|_| std::hint::spin_loop());
                pauses = (pauses * 9 / 8).min(512);
            }
        }
    }

    /// Returns the process id, if it is known.
    pub(crate) fn id(&self) -> Option<i32> {
        match &self.end_source {
            EndSource::Child(child, _) => Some(child.id() as i32),
            EndSource::Server(server, forked) => forked.id(server.id),
        }
    }

    /// Waits for the end, but no longer than `most`.
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
                // Without a process there is nothing to wait for.
                self.ended = process <= 0;
                forked.reported_id = Some(started_process(process)?);
                self.awaits_next_run = awaits_next_run != 0;
                ExitStatus::from_raw(status)
            }
        };
        self.ended = true;
        Ok(WaitResult::Ended(status))
    }

    /// Asks the runtime to report its position because time is up; kills the process if it does not answer.
    pub(crate) fn stop(&mut self) -> Result<ExitStatus, Error> {
        self.signal(TIMEOUT_SIGNAL);
        for _ in 0..2 {
            if let WaitResult::Ended(status) = self.wait(Duration::from_secs(2))? {
                // The signal may have arrived after the end of the run.
                self.awaits_next_run = false;
                return Ok(status);
            }
            self.kill();
        }
        Ok(ExitStatus::from_raw(libc::SIGKILL))
    }

    /// Returns the bytes of memory that the process does not share.
    pub(crate) fn memory(&self) -> u64 {
        // The file counts pages: total, resident, and shared.
        let Some(id) = self.id() else { return 0 };
        let figures = std::fs::read_to_string(format!("/proc/{id}/statm")).unwrap_or_default();
        let mut pages = figures.split(' ').skip(1).map(|figure| figure.parse().unwrap_or(0));
        let (resident, shared): (u64, u64) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
        resident.saturating_sub(shared) * 4096
    }

    /// Returns the bytes of private memory in the address ranges of the runtime.
    pub(crate) fn runtime_memory(&self) -> u64 {
        let Some(id) = self.id() else { return 0 };
        runtime_memory(&std::fs::read_to_string(format!("/proc/{id}/smaps")).unwrap_or_default())
    }

    /// Returns whether the process uses the processor instead of waiting in the kernel.
    pub(crate) fn is_running(&self) -> bool {
        self.id().and_then(status).is_some_and(|status| status.starts_with('R'))
    }

    /// Asks the process to check whether it spins, if it runs and handles the signal. A program that another one
    /// replaced by `exec` does not.
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
            // It may have ended meanwhile.
            let _ = signals::send(id, signal);
        }
    }

    /// Kills the process and all members of its group.
    fn kill(&self) {
        self.kill_group();
        self.signal(libc::SIGKILL);
    }

    /// Kills all members of its group.
    fn kill_group(&self) {
        if let Some(id) = self.id() {
            // The group belongs to the target, even after the target's end.
            signals::send_to_group(id, libc::SIGKILL);
        }
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        if self.awaits_next_run {
            // A rewound process has started no other processes.
        } else if self.ended {
            // A run must not leave processes behind that could disturb the next one.
            self.kill_group();
        } else {
            self.kill();
            let _ = self.wait(Duration::from_secs(10));
        }
    }
}

/// A target that was loaded once and forks a process per run before main.
pub(crate) struct Server {
    pub(crate) child: std::process::Child,
    pub(crate) channel: ServerChannel,
    /// Unused channels for snapshots, with their numbers.
    pub(crate) free: Vec<(u8, ServerChannel)>,
}

impl Server {
    /// Returns the service for runs from the beginning.
    pub(crate) fn service(&mut self) -> Service<'_> {
        Service { channel: &mut self.channel, id: self.child.id(), handle: None }
    }

    pub(crate) fn start(launch: Launch<'_>) -> Result<Self, Error> {
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for fd in std::iter::once(SERVICE).chain(SNAPSHOTS) {
            let failed = |cause| Error::System { action: "cannot communicate with the program", cause };
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
        end_child(&mut self.child);
    }
}

/// Kills a child and waits for its end.
fn end_child(child: &mut std::process::Child) {
    if signals::send(child.id() as i32, libc::SIGKILL).is_ok() {
        let _ = child.wait();
    }
}

/// The channel on which a server is asked for runs.
#[derive(Debug)]
pub(crate) struct ServerChannel(UnixStream);

impl ServerChannel {
    fn send(&mut self, request: Request) -> Result<(), Error> {
        // If the program has ended, its own error message is better.
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::BrokenPipe => Error::NotServing,
            _ => Error::System { action: "cannot ask for a run", cause },
        };
        self.0.write_all(&[request.byte()]).map_err(failed)
    }

    /// Reads the next number from the server.
    fn answer(&mut self) -> Result<i32, Error> {
        self.answers().map(|[number]| number)
    }

    /// Reads the next numbers.
    fn answers<const N: usize>(&mut self) -> Result<[i32; N], Error> {
        let mut bytes = [[0; 4]; N];
        self.0.read_exact(bytes.as_flattened_mut()).map_err(|_| Error::NotServing)?;
        Ok(bytes.map(i32::from_le_bytes))
    }

    /// Returns whether there is something to read now.
    fn has_input(&self) -> bool {
        let mut byte = 0u8;
        let (fd, flags) = (self.0.as_raw_fd(), libc::MSG_PEEK | libc::MSG_DONTWAIT);
        // SAFETY: there is room for one byte, and the call does not block.
        unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, flags) > 0 }
    }
}

/// Converts a server's answer to a request for a process.
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

/// A process that waits at a snapshot for runs to resume from it; ends when dropped.
#[derive(Debug)]
pub(crate) struct SnapshotProcess {
    pub(crate) number: u8,
    pub(crate) channel: ServerChannel,
    handle: Handle,
    /// Process id and process group.
    id: i32,
}

/// The result of [`SnapshotProcess::start`].
pub(crate) enum SnapshotStart {
    /// The process waits at the plan's end.
    Waiting(SnapshotProcess),
    /// The run did not reach the plan's end in time, or cannot wait there: the channel is unused again.
    Ended { number: u8, channel: ServerChannel },
}

impl SnapshotProcess {
    /// Returns the service for runs that resume from it.
    pub(crate) fn service(&mut self) -> Service<'_> {
        Service { channel: &mut self.channel, id: self.id as u32, handle: Some(&self.handle) }
    }

    /// Returns whether the process was ended from outside.
    pub(crate) fn is_gone(&self) -> bool {
        self.handle.ends_within(Duration::ZERO)
    }

    /// Recovers the channel of a process that ended silently. Its unread answers are discarded here; unread requests
    /// are discarded by the next process.
    pub(crate) fn into_lost_channel(self) -> (u8, ServerChannel) {
        end_group(self.id as u32, true);
        let mut byte = 0u8;
        let channel = self.channel.0.as_raw_fd();
        // SAFETY: there is room for one byte, and the call does not block.
        while unsafe { libc::recv(channel, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) } > 0 {}
        (self.number, self.channel)
    }

    /// Has a server make a snapshot by the plan in the shared memory.
    pub(crate) fn start(
        server: Service<'_>,
        (number, mut channel): (u8, ServerChannel),
        most: Duration,
    ) -> Result<SnapshotStart, Error> {
        server.channel.send(Request::Snapshot(number))?;
        if !server.is_there(most)? {
            return Err(Error::NotServing);
        }
        let id = started_process(server.channel.answer()?)?;
        let Ok(handle) = open_process_handle(id) else { return Ok(SnapshotStart::Ended { number, channel }) };
        // The process gets ready, refuses, or dies.
        let until = Instant::now() + most;
        loop {
            if readable(channel.0.as_raw_fd(), Duration::ZERO) {
                let is_ready = channel.answer()? != 0;
                let waiting = Self { number, channel, handle, id };
                if is_ready {
                    return Ok(SnapshotStart::Waiting(waiting));
                }
                let (number, channel) = waiting.into_channel();
                return Ok(SnapshotStart::Ended { number, channel });
            }
            let left = until.saturating_duration_since(Instant::now());
            let ended = handle.ends_within(Duration::ZERO);
            if left.is_zero() || ended && !readable(channel.0.as_raw_fd(), Duration::ZERO) {
                // It may have ended by itself.
                let _ = signals::send(id, libc::SIGKILL);
                handle.ends_within(Duration::from_secs(10));
                end_group(id as u32, true);
                return Ok(SnapshotStart::Ended { number, channel });
            }
            any_readable(Some(channel.0.as_raw_fd()), Some(&handle), left);
        }
    }

    /// Ends the process and returns its channel for reuse.
    pub(crate) fn end(mut self) -> (u8, ServerChannel) {
        let _ = self.channel.0.write_all(&[Request::End.byte()]);
        self.into_channel()
    }

    /// Waits for the process to end by itself and returns its channel for reuse. Nothing may be left in it that the
    /// next process would read.
    fn into_channel(self) -> (u8, ServerChannel) {
        if !self.handle.ends_within(Duration::from_secs(10)) {
            self.handle.kill();
        }
        // Children that it started would wait for ever.
        end_group(self.id as u32, true);
        (self.number, self.channel)
    }
}

/// A handle that reports the end of a process.
#[derive(Debug)]
pub(crate) enum Handle {
    Descriptor(OwnedFd),
    /// The fallback for systems without pidfds: the end is polled for. The start time distinguishes the process from a
    /// later one with the same id.
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

    /// Returns whether the process has ended, for handles without a descriptor.
    fn is_seen_to_have_ended(&self) -> bool {
        let Self::Number { process, started } = self else { return false };
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: the struct holds only integers, for which zeros are valid.
        let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `found` has room for the result, and the call does not block.
        if unsafe { libc::waitid(libc::P_PID, *process as libc::id_t, &raw mut found, options) } == 0 {
            // SAFETY: the kernel filled the field in, or left it zero if the child still runs.
            return unsafe { found.si_pid() } != 0;
        }
        // The process is the child of another process.
        let Some(now) = status(*process) else { return true };
        now.starts_with(['Z', 'X']) || start_time(&now) != started.as_deref()
    }

    /// Returns whether the process has ended or ends within `most`.
    fn ends_within(&self, most: Duration) -> bool {
        any_readable(None, Some(self), most)
    }

    fn kill(&self) {
        match self {
            Self::Descriptor(handle) => {
                let handle = handle.as_raw_fd();
                // SAFETY: the signal goes to this very process or to none.
                unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle, libc::SIGKILL, 0, 0) };
            }
            Self::Number { process, .. } if !self.is_seen_to_have_ended() => {
                let _ = signals::send(*process, libc::SIGKILL);
            }
            Self::Number { .. } => {}
        }
    }
}

/// Returns the start time, from the fields of `/proc/PID/stat` from the state on.
fn start_time(status: &str) -> Option<&str> {
    status.split(' ').nth(19)
}

/// Opens a handle for a process.
fn open_process_handle(process: i32) -> io::Result<Handle> {
    // SAFETY: the call opens a descriptor.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) } as RawFd;
    if handle >= 0 {
        // SAFETY: the descriptor was just opened and has no other owner.
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

/// Returns the processor time used by this process and by its children that have ended.
#[must_use]
pub fn processor_time() -> Duration {
    let used = |target| {
        // SAFETY: the struct holds only integers, for which zeros are valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` has room for the result.
        unsafe { libc::getrusage(target, &raw mut usage) };
        let time = |at: libc::timeval| {
            Duration::from_secs(at.tv_sec as u64) + Duration::from_micros(at.tv_usec as u64)
        };
        time(usage.ru_utime) + time(usage.ru_stime)
    };
    used(libc::RUSAGE_SELF) + used(libc::RUSAGE_CHILDREN)
}

/// Returns whether `fd` has input or is at its end within `most`.
fn readable(fd: RawFd, most: Duration) -> bool {
    any_readable(Some(fd), None, most)
}

/// Returns true if [`readable`] would, or if the process of `handle` has ended.
fn any_readable(fd: Option<RawFd>, handle: Option<&Handle>, most: Duration) -> bool {
    let until = Instant::now() + most;
    let descriptor = handle.and_then(Handle::descriptor);
    // `poll` ignores negative descriptors.
    let mut polls =
        [fd, descriptor].map(|fd| libc::pollfd { fd: fd.unwrap_or(-1), events: libc::POLLIN, revents: 0 });
    // Without a descriptor the end of the process is polled for.
    let longest = if handle.is_some() && descriptor.is_none() { 1 } else { i32::MAX };
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let millis = if left.is_zero() { 0 } else { i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX) };
        // SAFETY: both entries are valid.
        match unsafe { libc::poll(polls.as_mut_ptr(), 2, millis.min(longest)) } {
            1.. => return true,
            _ if handle.is_some_and(Handle::is_seen_to_have_ended) => return true,
            _ if left.is_zero() => return false,
            _ => {}
        }
    }
}

/// Waits until there is something to read, but no longer than `most`.
pub(crate) fn wait_readable(fd: RawFd, most: Duration) {
    readable(fd, most);
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

/// Ends a process group: with SIGKILL if `at_once`, otherwise with SIGTERM. The leader is a child that was not reaped, or
/// a process whose group is still its own.
pub(crate) fn end_group(leader: u32, at_once: bool) {
    let signal = if at_once { libc::SIGKILL } else { libc::SIGTERM };
    signals::send_to_group(leader as i32, signal);
}

/// Starts the program with the runtime preloaded; with channels, as a server.
fn spawn(launch: Launch<'_>, channels: &[(UnixStream, RawFd)]) -> Result<std::process::Child, Error> {
    let mut command = command(launch, layout())?;
    let memory = launch.memory;
    let controller = std::process::id();
    let is_server = !channels.is_empty();
    let channels: Vec<(RawFd, RawFd)> = channels.iter().map(|(their, fd)| (their.as_raw_fd(), *fd)).collect();
    // SAFETY: the closure makes only system calls that are allowed between fork and exec.
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
    unsafe { command.pre_exec(move || then_restore_descriptor_limit(|| keep_addresses(memory))) };
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

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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

/// The limit on open files that the user set, if this process raised its own.
static USERS_DESCRIPTOR_LIMIT: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the limit on open files of this process to what it and controlled programs need. Programs get the user's
/// limit.
///
/// # Errors
/// Returns an error if the limit is too low and cannot be raised.
pub fn raise_descriptor_limit() -> Result<(), Error> {
    const ENOUGH: u64 = 256;
    let needed = SNAPSHOTS.into_iter().chain([DESCRIPTOR, SERVICE]).max().unwrap_or(0) as u64 + 1;
    let mut users = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let failed = |cause| Error::System { action: "cannot read the limit on open files", cause };
    // SAFETY: `users` has room for the result.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut users) }).map_err(failed)?;
    if users.rlim_cur >= ENOUGH {
        return Ok(());
    }
    let more = libc::rlimit { rlim_cur: ENOUGH, rlim_max: users.rlim_max.max(ENOUGH) };
    // SAFETY: the kernel only reads the limits.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const more) } == 0 {
        USERS_DESCRIPTOR_LIMIT.get_or_init(|| users);
        Ok(())
    } else if users.rlim_cur >= needed {
        Ok(())
    } else {
        Err(Error::Descriptors(users.rlim_max))
    }
}

/// Gives the target the user's limit on open files after `job` has created descriptors with fixed numbers. They stay
/// usable.
fn then_restore_descriptor_limit(job: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    job()?;
    USERS_DESCRIPTOR_LIMIT.get().map_or(Ok(()), |users| {
        // SAFETY: the kernel only reads the limits.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, users) })
    })
}

/// Checks that this process, and so the program, may start threads.
///
/// # Errors
/// If it may not, with the reason.
pub fn check_threads() -> Result<(), Error> {
    let failed = |cause| Error::System { action: "cannot start a thread", cause };
    let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(|| {}).map_err(failed)?;
    let _ = thread.join();
    Ok(())
}

/// Ignores SIGXFSZ, so that reaching the file size limit (`ulimit -f`) is an error instead of the death of this
/// process.
pub fn ignore_file_size_signal() {
    // SAFETY: ignores a signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// The component that decides where the program and its libraries are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The kernel, without randomisation.
    Kernel,
    /// Our own library, because the kernel's randomisation cannot be disabled.
    Own,
}

/// Returns how programs get the same addresses in every run on this system.
#[must_use]
pub fn layout() -> Layout {
    static LAYOUT: OnceLock<Layout> = OnceLock::new();
    const ASK: libc::c_ulong = 0xffff_ffff;
    *LAYOUT.get_or_init(|| {
        // For tests and benchmarks, and to reproduce the layout of a container on an ordinary machine.
        if std::env::var_os("UNSNARL_LAYOUT").is_some_and(|value| value == "own") {
            return Layout::Own;
        }
        // SAFETY: sets a flag of the calling thread that affects only programs that it starts, and restores it.
        let is_allowed = unsafe {
            let now = libc::personality(ASK).max(0);
            let is_allowed = libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) >= 0;
            libc::personality(now as libc::c_ulong);
            is_allowed
        };
        if is_allowed { Layout::Kernel } else { Layout::Own }
    })
}

/// Prepares the target process between fork and exec.
fn become_target(memory: RawFd, channels: &[(RawFd, RawFd)], controller: u32) -> io::Result<()> {
    then_restore_descriptor_limit(|| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_memory_of_the_runtime_is_its_own() {
        let smaps = "100000000000-100000003000 rw-p 00000000 00:00 0\n\
                     Rss:                 512 kB\n\
                     Shared_Dirty:          4 kB\n\
                     Private_Clean:         8 kB\n\
                     Private_Dirty:        16 kB\n\
                     555555554000-555555555000 rw-p 00000000 08:01 7 /bin/program\n\
                     Private_Dirty:      1024 kB\n\
                     680000000000-680000010000 rw-p 00000000 00:00 0\n\
                     Private_Dirty:        32 kB\n";
        assert_eq!(runtime_memory(smaps), (8 + 16 + 32) << 10);
        assert_eq!(runtime_memory(""), 0);
    }
}
