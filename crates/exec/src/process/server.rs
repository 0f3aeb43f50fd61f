//! Servers: targets that were loaded once, wait before main or at a snapshot, and fork a process per run.

use super::{
    Handle, Launch, end_group,
    handle::{any_readable, open_process_handle, readable},
    launch::spawn,
};
use crate::{Error, signals};
use std::{
    io::{self, Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    time::{Duration, Instant},
};
use unsnarl_wire::{Request, SERVICE, SNAPSHOTS};

/// A target that waits before main or at the end of a plan, and forks a process per run.
pub(crate) struct Service<'a> {
    pub(crate) channel: &'a mut ServerChannel,
    /// Its process id.
    pub(crate) id: u32,
    /// Its process handle, if the channel does not report its end.
    pub(crate) handle: Option<&'a Handle>,
}

impl Service<'_> {
    /// Waits up to `timeout` for a message and returns whether there is one; an error if the server has ended silently.
    /// Other processes hold the far end of a snapshot's channel, so that channel does not report the snapshot's end.
    pub(super) fn wait_for_message(&self, timeout: Duration) -> Result<bool, Error> {
        if self.channel.has_input() {
            return Ok(true);
        }
        let channel = self.channel.0.as_raw_fd();
        if !any_readable(Some(channel), self.handle, timeout) {
            return Ok(false);
        }
        if readable(channel, Duration::ZERO) { Ok(true) } else { Err(Error::NotServing) }
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
        let mut own_ends = Vec::new();
        let mut program_ends = Vec::new();
        for fd in std::iter::once(SERVICE).chain(SNAPSHOTS) {
            let failed = |cause| Error::System { action: "cannot communicate with the program", cause };
            let (our, their) = UnixStream::pair().map_err(failed)?;
            own_ends.push(ServerChannel(our));
            program_ends.push((their, fd));
        }
        let child = spawn(launch, &program_ends)?;
        let mut own_ends = own_ends.into_iter();
        let Some(channel) = own_ends.next() else { unreachable!("the service is one of the channels") };
        Ok(Self { child, channel, free: (1..).zip(own_ends).collect() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end_child(&mut self.child);
    }
}

/// Kills a child and waits for its end.
pub(super) fn end_child(child: &mut std::process::Child) {
    if signals::send(child.id() as i32, libc::SIGKILL).is_ok() {
        let _ = child.wait();
    }
}

/// The channel on which a server is asked for runs.
#[derive(Debug)]
pub(crate) struct ServerChannel(UnixStream);

impl ServerChannel {
    pub(super) fn send(&mut self, request: Request) -> Result<(), Error> {
        // If the program has ended, its own error message is better.
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::NotServing,
            _ => Error::System { action: "cannot ask for a run", cause },
        };
        self.0.write_all(&[request.byte()]).map_err(failed)
    }

    /// Reads the next number from the server.
    pub(super) fn answer(&mut self) -> Result<i32, Error> {
        self.answers().map(|[number]| number)
    }

    /// Reads the next numbers.
    pub(super) fn answers<const N: usize>(&mut self) -> Result<[i32; N], Error> {
        let mut bytes = [[0; 4]; N];
        self.0.read_exact(bytes.as_flattened_mut()).map_err(|_| Error::NotServing)?;
        Ok(bytes.map(i32::from_le_bytes))
    }

    /// Returns whether there is something to read now.
    pub(super) fn has_input(&self) -> bool {
        let mut byte = 0u8;
        let (fd, flags) = (self.0.as_raw_fd(), libc::MSG_PEEK | libc::MSG_DONTWAIT);
        // SAFETY: there is room for one byte, and the call does not block.
        unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, flags) > 0 }
    }
}

/// Converts a server's answer to a request for a process.
pub(super) fn started_process(answer: i32) -> Result<i32, Error> {
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
        timeout: Duration,
    ) -> Result<SnapshotStart, Error> {
        server.channel.send(Request::Snapshot(number))?;
        if !server.wait_for_message(timeout)? {
            return Err(Error::NotServing);
        }
        let id = started_process(server.channel.answer()?)?;
        let Ok(handle) = open_process_handle(id) else { return Ok(SnapshotStart::Ended { number, channel }) };
        // The process gets ready, refuses, or dies.
        let until = Instant::now() + timeout;
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
