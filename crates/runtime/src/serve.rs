//! Serving runs: the program is loaded once, and each run is a fork of it from before main.

use crate::{real::real, sys};
use unsnarl_wire::SERVICE;

real! {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
}

/// Returns in a new process for each run that is asked for; never in this one.
pub(crate) fn wait_for_a_run() {
    let mut request = 0u8;
    // SAFETY: room for one byte.
    while unsafe { sys::call(libc::SYS_read, [SERVICE as usize, &raw mut request as usize, 1, 0, 0, 0]) } == 1
    {
        // SAFETY: only this thread exists, and it holds no lock.
        match unsafe { fork() } {
            0 => {
                become_a_run();
                return;
            }
            child => {
                answer(child);
                let mut status = 0;
                // SAFETY: our own child.
                while child > 0 && unsafe { waitpid(child, &raw mut status, 0) } != child {}
                answer(status);
            }
        }
    }
    // The controller is gone.
    sys::exit(0)
}

fn become_a_run() {
    // SAFETY: system calls on ourselves: an end with the server's, a group of our own, its channel closed.
    unsafe {
        sys::call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0, 0, 0]);
        sys::call(libc::SYS_setpgid, [0; 6]);
        sys::call(libc::SYS_close, [SERVICE as usize, 0, 0, 0, 0, 0]);
    }
}

fn answer(number: i32) {
    let bytes = number.to_le_bytes();
    // SAFETY: the kernel only reads the bytes.
    unsafe { sys::call(libc::SYS_write, [SERVICE as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) };
}
