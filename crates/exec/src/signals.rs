//! Sends signals to processes and process groups.
//!
//! A sandbox may forbid `kill`. Then signals go through process descriptors, and the members of a group are found in
//! `/proc`.

use crate::{
    Error,
    process::{check, status},
};
use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

/// Sends a signal to a process that has not been reaped.
pub(crate) fn send(process: i32, signal: i32) -> io::Result<()> {
    // SAFETY: a signal does not affect this process's memory.
    match check(unsafe { libc::kill(process, signal) }) {
        Err(error) if is_forbidden(&error) => send_by_descriptor(process, signal),
        sent => sent,
    }
}

/// Sends a signal to all processes of a group. The group's number is not reused while the group has members.
pub(crate) fn send_to_group(leader: i32, signal: i32) {
    // SAFETY: as above.
    match check(unsafe { libc::kill(-leader, signal) }) {
        Err(error) if is_forbidden(&error) => send_to_each_member(leader, signal),
        _ => {}
    }
}

/// Checks that this process may end the programs it starts.
///
/// # Errors
/// If it may not, with the reason.
pub(crate) fn check_allowed() -> Result<(), Error> {
    let own = std::process::id() as i32;
    send(own, 0).map_err(|cause| Error::System { action: "cannot end programs", cause })
}

/// Returns whether `kill` is allowed; otherwise processes are ended one by one.
#[must_use]
pub fn has_kill() -> bool {
    // SAFETY: signal 0 is only checked, not sent.
    check(unsafe { libc::kill(libc::getpid(), 0) }).is_ok()
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::ENOSYS))
}

fn send_by_descriptor(process: i32, signal: i32) -> io::Result<()> {
    // SAFETY: the call opens a descriptor.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) } as i32;
    check(opened)?;
    // SAFETY: the descriptor was just opened and has no other owner.
    let descriptor = unsafe { OwnedFd::from_raw_fd(opened) };
    // SAFETY: without further information the signal is as from `kill`.
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, descriptor.as_raw_fd(), signal, 0, 0) } as i32)
}

/// Signals the members of a group until a look at all processes finds no new one: members may start others meanwhile.
fn send_to_each_member(leader: i32, signal: i32) {
    let mut signalled = Vec::new();
    loop {
        let new: Vec<i32> = members(leader).filter(|member| !signalled.contains(member)).collect();
        if new.is_empty() {
            return;
        }
        for &member in &new {
            // It may have ended meanwhile.
            let _ = send(member, signal);
        }
        signalled.extend(new);
    }
}

/// Returns the processes of a group that have not ended.
fn members(leader: i32) -> impl Iterator<Item = i32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(move |&process| {
        status(process).is_some_and(|status| {
            !status.starts_with(['Z', 'X']) && status.split(' ').nth(2) == Some(leader.to_string().as_str())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::process::{CommandExt, ExitStatusExt},
        process::Command,
    };

    #[test]
    fn group_is_ended_without_kill() {
        let mut leader = Command::new("sleep").arg("1000").process_group(0).spawn().expect("a child");
        let group = leader.id() as i32;
        let mut member = Command::new("sleep").arg("1000").process_group(group).spawn().expect("a child");
        send_to_each_member(group, libc::SIGKILL);
        for child in [&mut leader, &mut member] {
            assert_eq!(child.wait().expect("a child").signal(), Some(libc::SIGKILL));
        }
    }
}
