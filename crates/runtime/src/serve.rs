//! The fork server: the program is loaded once, and each run is a fork of it, from before main or from a
//! waiting snapshot. A fork of a snapshot may make many runs ([`crate::rewind`]).

use crate::{rewind, sys};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use unsnarl_wire::{Header, Request, SERVICE, SNAPSHOTS};

/// Returns for each run that is requested on this channel, in a new process. The header describes the run.
/// `can_rewind`: a process may be rewound to here.
pub(crate) fn wait_for_run(channel: i32, header: *const Header, can_rewind: bool) {
    // SAFETY: the controller's memory is mapped for the process's lifetime.
    let process = unsafe { &(*header).process };
    let mut snapshots = Vec::new();
    let mut request = 0u8;
    // SAFETY: there is room for one byte.
    while unsafe { sys::call(libc::SYS_read, [channel as usize, &raw mut request as usize, 1, 0, 0, 0]) } == 1
    {
        // Snapshots that were asked to end are gone by now.
        snapshots.retain(|&snapshot| wait_for_child(snapshot, libc::WNOHANG).is_none());
        let request = match Request::from_byte(request) {
            Request::End => break,
            Request::Rewind if !can_rewind => Request::Run,
            request => request,
        };
        // A run begins on the processor whose caches hold its memory, so no other processor has to be woken.
        let affinity_guard = sys::OneProcessor::pin();
        // Not through the C library: the program's fork handlers must not run now.
        // SAFETY: the only thread, which holds no lock.
        let forked = unsafe { sys::call(libc::SYS_fork, [0; 6]) } as i32;
        drop(affinity_guard);
        match forked {
            0 => {
                let saved_channel = match request {
                    Request::Snapshot(number) => self::channel(number),
                    Request::Rewind => Some(channel),
                    Request::Run | Request::End => None,
                };
                if let (Request::Snapshot(_), Some(fd)) = (request, saved_channel) {
                    discard_requests(fd);
                }
                start_run(saved_channel);
                if request == Request::Rewind {
                    process.store(sys::process() as u32, Ordering::Release);
                    if !rewind::enter_checkpoint(channel, header) {
                        close(channel);
                    }
                }
                return;
            }
            child if matches!(request, Request::Snapshot(_)) => {
                send_answer(channel, &[child]);
                snapshots.push(child);
            }
            child if child > 0 => {
                if request == Request::Run {
                    // The controller is not woken before the run is over; it finds the pid here if it must
                    // kill the run.
                    process.store(child as u32, Ordering::Release);
                }
                let status = wait_for_child(child, 0).unwrap_or(0);
                // A rewound process that is waiting has answered already.
                if request == Request::Run || process.load(Ordering::Acquire) == child as u32 {
                    send_answer(channel, &[child, status, 0]);
                }
            }
            failed => {
                send_answer(channel, &[failed, 0, 0]);
            }
        }
    }
    // The controller is gone, or no longer needs this process.
    sys::exit(0)
}

/// Returns the status of a child that has ended.
fn wait_for_child(child: i32, options: i32) -> Option<i32> {
    let mut status = 0i32;
    loop {
        let args = [child as usize, &raw mut status as usize, options as usize, 0, 0, 0];
        // SAFETY: a child of this process, and there is room for its status.
        match unsafe { sys::call(libc::SYS_wait4, args) } {
            got if got == child as isize => return Some(status),
            interrupted if interrupted == -(libc::EINTR as isize) => {}
            _ => return None,
        }
    }
}

fn start_run(saved_channel: Option<i32>) {
    // SAFETY: affects only this process: it dies with the server and gets its own process group.
    unsafe {
        sys::call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0, 0, 0]);
        sys::call(libc::SYS_setpgid, [0; 6]);
    }
    SNAPSHOTS.into_iter().chain([SERVICE]).filter(|&fd| Some(fd) != saved_channel).for_each(close);
}

/// Closes a channel, if it is open.
fn close(channel: i32) {
    // SAFETY: the runtime's descriptor.
    unsafe { sys::call(libc::SYS_close, [channel as usize, 0, 0, 0, 0, 0]) };
}

/// Discards requests to another snapshot that it did not live to read.
fn discard_requests(channel: i32) {
    let mut byte = 0u8;
    let args = [channel as usize, &raw mut byte as usize, 1, libc::MSG_DONTWAIT as usize, 0, 0];
    // SAFETY: there is room for one byte; does not wait.
    while unsafe { sys::call(libc::SYS_recvfrom, args) } > 0 {}
}

/// Returns the channel of the snapshot with this number.
pub(crate) fn channel(number: u8) -> Option<i32> {
    SNAPSHOTS.get(usize::from(number).checked_sub(1)?).copied()
}

/// Sends an answer; returns whether the controller got it.
pub(crate) fn send_answer(channel: i32, numbers: &[i32]) -> bool {
    let size = size_of_val(numbers);
    let args = [channel as usize, numbers.as_ptr() as usize, size, 0, 0, 0];
    // SAFETY: the kernel only reads the numbers.
    unsafe { sys::call(libc::SYS_write, args) == size as isize }
}
