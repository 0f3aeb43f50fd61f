//! Starting a process and waiting for its end.

use crate::{Error, library};
use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::{
            ffi::OsStringExt,
            process::{CommandExt, ExitStatusExt},
        },
    },
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};
use unsnarl_model::Program;
use unsnarl_wire::{DESCRIPTOR, TIME_IS_UP, VARIABLE};

/// The target's standard streams.
pub(crate) struct Streams {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// A running target; killed when dropped.
pub(crate) struct Process {
    child: std::process::Child,
    handle: OwnedFd,
    ended: Option<ExitStatus>,
}

/// How the wait ended.
pub(crate) enum Waited {
    /// The process is gone.
    Ended(ExitStatus),
    /// It is still there.
    NotYet,
}

impl Process {
    /// Starts the program with the runtime in it.
    pub(crate) fn start(program: &Program, memory: RawFd, streams: &Streams) -> Result<Self, Error> {
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
        let duplicate = |fd: &OwnedFd| {
            fd.try_clone()
                .map(Stdio::from)
                .map_err(|cause| Error::System { what: "cannot pass a stream on", cause })
        };
        command
            .stdin(duplicate(&streams.stdin)?)
            .stdout(duplicate(&streams.stdout)?)
            .stderr(duplicate(&streams.stderr)?);
        let controller = std::process::id();
        // SAFETY: only system calls that are allowed between fork and exec.
        unsafe { command.pre_exec(move || become_target(memory, controller)) };
        let child = command.spawn().map_err(|cause| {
            if std::path::Path::new(&program.cwd).is_dir() {
                Error::System { what: "cannot start the program", cause }
            } else {
                Error::Directory { directory: program.cwd.clone(), cause }
            }
        })?;
        // SAFETY: asks for a handle of our own child.
        let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) } as RawFd;
        if handle < 0 {
            let cause = io::Error::last_os_error();
            let mut child = child;
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::System {
                what: "cannot watch the program (Linux 5.3 or later is needed)",
                cause,
            });
        }
        // SAFETY: just made, owned by nobody else.
        let handle = unsafe { OwnedFd::from_raw_fd(handle) };
        Ok(Self { child, handle, ended: None })
    }

    /// Waits for the end, but not longer than this.
    pub(crate) fn wait(&mut self, most: Duration) -> Result<Waited, Error> {
        let until = Instant::now() + most;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut poll = libc::pollfd { fd: self.handle.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let millis = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
            // SAFETY: one valid entry.
            match unsafe { libc::poll(&raw mut poll, 1, millis) } {
                1 => {
                    let status =
                        self.child.wait().map_err(|cause| Error::System { what: "cannot wait", cause })?;
                    self.ended = Some(status);
                    return Ok(Waited::Ended(status));
                }
                _ if left.is_zero() => return Ok(Waited::NotYet),
                _ => {}
            }
        }
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

    fn signal(&self, signal: i32) {
        // SAFETY: our own child, not waited for yet, so the number is still its own.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Ends the process and all that it started in its group.
    fn kill(&self) {
        // SAFETY: as above; the group is the child's own.
        unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        self.signal(libc::SIGKILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

/// Between fork and exec.
fn become_target(memory: RawFd, controller: u32) -> io::Result<()> {
    let check = |result: i32| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: system calls on ourselves.
    unsafe {
        check(libc::dup2(memory, DESCRIPTOR))?;
        // The same addresses in every run.
        check(libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong))?;
        check(libc::setpgid(0, 0))?;
        // No core dumps: they take long, and the trace says more.
        check(libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }))?;
        // A killed controller takes its target with it.
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if libc::getppid() as u32 != controller {
            return Err(io::Error::other("the controller is gone"));
        }
    }
    Ok(())
}
