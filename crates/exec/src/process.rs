//! Target processes: how they are started, waited for and ended.

mod handle;
mod launch;
mod layout;
mod private;
mod server;
mod this_process;

pub(crate) use handle::{Handle, wait_readable};
pub(crate) use launch::{Launch, kill_with_parent, preload, replace, standard_error};
pub use layout::{Layout, layout};
pub(crate) use private::PrivateView;
pub(crate) use server::{Server, Service, SnapshotProcess, SnapshotStart};
use this_process::with_users_descriptor_limit;
pub use this_process::{check_threads, ignore_file_size_signal, processor_time, raise_descriptor_limit};

use crate::{Error, signals};
use handle::open_process_handle;
use launch::spawn;
use server::{end_child, started_process};
use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};
use unsnarl_wire::{RUNTIME_MEMORY, Request, SPIN_CHECK_SIGNAL, TIMEOUT_SIGNAL};

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
        const MAX_POLLING: Duration = Duration::from_millis(5);
        let begin = Instant::now();
        let mut pauses = 16;
        if let EndSource::Server(server, _) = &self.end_source {
            while !server.channel.has_input() && begin.elapsed() < MAX_POLLING {
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

    /// Waits for the end, but no longer than `timeout`.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<WaitResult, Error> {
        let there = match &self.end_source {
            EndSource::Child(_, handle) => handle.ends_within(timeout),
            EndSource::Server(server, _) => server.wait_for_message(timeout)?,
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

/// Ends a process group: with SIGKILL if `at_once`, otherwise with SIGTERM. The leader is a child that was not reaped, or
/// a process whose group is still its own.
pub(crate) fn end_group(leader: u32, at_once: bool) {
    let signal = if at_once { libc::SIGKILL } else { libc::SIGTERM };
    signals::send_to_group(leader as i32, signal);
}

/// Converts the result of a system call.
pub(crate) fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
