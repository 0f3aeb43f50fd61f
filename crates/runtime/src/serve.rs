//! Serving runs: the program is loaded once, and each run is a fork of it: from before main, or from where a
//! snapshot waits.

use crate::sys;
use alloc::vec::Vec;
use unsnarl_wire::{Request, SERVICE, SNAPSHOTS};

/// Returns in a new process for each run that is asked for at this channel; never in this one.
pub(crate) fn wait_for_a_run(channel: i32) {
    let mut snapshots = Vec::new();
    let mut request = 0u8;
    // SAFETY: room for one byte.
    while unsafe { sys::call(libc::SYS_read, [channel as usize, &raw mut request as usize, 1, 0, 0, 0]) } == 1
    {
        // Those that were told to end are gone by now.
        snapshots.retain(|&snapshot| wait_for(snapshot, libc::WNOHANG).is_none());
        let request = Request::from_byte(request);
        if request == Request::End {
            break;
        }
        // Not by way of the C library: what the program wants to be done when it forks is not wanted now.
        // SAFETY: the one thread there is, and it holds no lock.
        match unsafe { sys::call(libc::SYS_fork, [0; 6]) } as i32 {
            0 => {
                become_a_run(request);
                return;
            }
            child => {
                answer(channel, child);
                if request != Request::Run {
                    snapshots.push(child);
                } else if child > 0 {
                    answer(channel, wait_for(child, 0).unwrap_or(0));
                }
            }
        }
    }
    // The controller is gone, or needs this one no more.
    sys::exit(0)
}

/// The status of a child that is gone.
fn wait_for(child: i32, options: i32) -> Option<i32> {
    let mut status = 0i32;
    loop {
        let args = [child as usize, &raw mut status as usize, options as usize, 0, 0, 0];
        // SAFETY: our own child, and room for its status.
        match unsafe { sys::call(libc::SYS_wait4, args) } {
            got if got == child as isize => return Some(status),
            interrupted if interrupted == -(libc::EINTR as isize) => {}
            _ => return None,
        }
    }
}

fn become_a_run(request: Request) {
    let kept = if let Request::Snapshot(number) = request { channel(number) } else { None };
    // SAFETY: system calls on ourselves: an end with the server's, a group of our own, its channels closed.
    unsafe {
        sys::call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0, 0, 0]);
        sys::call(libc::SYS_setpgid, [0; 6]);
        for fd in SNAPSHOTS.into_iter().chain([SERVICE]).filter(|&fd| Some(fd) != kept) {
            sys::call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
        }
    }
}

/// Where the snapshot of this number talks with the controller.
pub(crate) fn channel(number: u8) -> Option<i32> {
    SNAPSHOTS.get(usize::from(number).checked_sub(1)?).copied()
}

/// Whether the controller got it.
pub(crate) fn answer(channel: i32, number: i32) -> bool {
    let bytes = number.to_le_bytes();
    let args = [channel as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0];
    // SAFETY: the kernel only reads the bytes.
    unsafe { sys::call(libc::SYS_write, args) == bytes.len() as isize }
}
