//! Semaphores, unnamed and named. The count is where glibc keeps it, in the first word.

use super::{cancel::exit_cancelled, mutex::deadline};
use crate::{gate::Gate, log::c_bytes, state::Runtime, sys, thread::Pending, turn::Turn};
use alloc::vec::Vec;
use core::{cell::UnsafeCell, ffi::c_char};
use unsnarl_model::{Flags, Misuse, Op};

type Semaphore = u32;
type Time = libc::timespec;

/// Waits for the semaphore; returns the error number (0 for none) and whether the thread was cancelled.
unsafe fn wait(runtime: &mut Runtime, semaphore: *mut Semaphore, pc: u64, deadline: u64) -> (i32, bool) {
    let gate = Gate::Semaphore(semaphore);
    let pending = Pending { op: Op::SemWait, pc, addr: semaphore as u64, gate, deadline, cancellable: true };
    let turn = runtime.wait_turn(pending);
    if turn != Turn::Go {
        runtime.log(Op::SemWait, turn.flags(), pc, semaphore as usize, 0);
        let error = if turn == Turn::Interrupted { libc::EINTR } else { libc::ETIMEDOUT };
        return (error, turn == Turn::Cancelled);
    }
    // SAFETY: the program's semaphore; the gate is open, so the count is positive.
    let count = unsafe {
        *semaphore -= 1;
        *semaphore
    };
    runtime.state.changed(semaphore as usize);
    runtime.log(Op::SemWait, Flags::NONE, pc, semaphore as usize, count.into());
    (0, false)
}

fn result(error: i32) -> i32 {
    if error == 0 {
        return 0;
    }
    sys::set_errno(error);
    -1
}

hooks! {
    fn sem_init(semaphore: *mut Semaphore, shared: i32, count: u32) -> i32, |runtime, pc| {
        runtime.turn(Op::SemInit, semaphore as usize, pc);
        if shared != 0 {
            runtime.state.warn(Misuse::NotModelled, pc, semaphore as usize, "a semaphore shared with other processes");
        }
        let error = real::sem_init(semaphore, shared, count);
        runtime.log(Op::SemInit, if error == 0 { Flags::NONE } else { Flags::FAILED }, pc, semaphore as usize, count.into());
        error
    }

    fn sem_destroy(semaphore: *mut Semaphore) -> i32, |runtime, pc| {
        runtime.turn(Op::SemDestroy, semaphore as usize, pc);
        let awaited = runtime.state.waiters(|gate| *gate == Gate::Semaphore(semaphore)).next().is_some();
        if awaited {
            runtime.state.warn(Misuse::DestroyBusy, pc, semaphore as usize, "");
        }
        runtime.log(Op::SemDestroy, Flags::NONE, pc, semaphore as usize, 0);
        0
    }

    fn sem_wait(semaphore: *mut Semaphore) -> i32, |runtime, pc| {
        let (error, cancelled) = wait(runtime, semaphore, pc, u64::MAX);
        if cancelled { exit_cancelled() }
        result(error)
    }

    fn sem_timedwait(semaphore: *mut Semaphore, at: *const Time) -> i32, |runtime, pc| {
        let Some(deadline) = deadline(&runtime.state.clock, libc::CLOCK_REALTIME, at) else { return result(libc::EINVAL) };
        let (error, cancelled) = wait(runtime, semaphore, pc, deadline);
        if cancelled { exit_cancelled() }
        result(error)
    }

    fn sem_clockwait(semaphore: *mut Semaphore, clock: i32, at: *const Time) -> i32, |runtime, pc| {
        let Some(deadline) = deadline(&runtime.state.clock, clock, at) else { return result(libc::EINVAL) };
        let (error, cancelled) = wait(runtime, semaphore, pc, deadline);
        if cancelled { exit_cancelled() }
        result(error)
    }

    fn sem_trywait(semaphore: *mut Semaphore) -> i32, |runtime, pc| {
        runtime.turn(Op::SemTryWait, semaphore as usize, pc);
        if *semaphore == 0 {
            runtime.log(Op::SemTryWait, Flags::FAILED, pc, semaphore as usize, 0);
            return result(libc::EAGAIN);
        }
        *semaphore -= 1;
        runtime.state.changed(semaphore as usize);
        runtime.log(Op::SemTryWait, Flags::NONE, pc, semaphore as usize, (*semaphore).into());
        0
    }

    fn sem_post(semaphore: *mut Semaphore) -> i32, |runtime, pc| {
        runtime.turn(Op::SemPost, semaphore as usize, pc);
        if *semaphore >= i32::MAX as u32 {
            runtime.log(Op::SemPost, Flags::FAILED, pc, semaphore as usize, 0);
            return result(libc::EOVERFLOW);
        }
        *semaphore += 1;
        runtime.state.changed(semaphore as usize);
        runtime.log(Op::SemPost, Flags::NONE, pc, semaphore as usize, (*semaphore).into());
        0
    }

    fn sem_getvalue(semaphore: *mut Semaphore, value: *mut i32) -> i32, |runtime, pc| {
        runtime.turn(Op::SemGet, semaphore as usize, pc);
        *value = *semaphore as i32;
        runtime.log(Op::SemGet, Flags::NONE, pc, semaphore as usize, (*semaphore).into());
        0
    }

    fn sem_open(name: *const c_char, flags: i32, mode: u32, count: u32) -> *mut Semaphore, |runtime, pc| {
        let known = named_semaphores().iter_mut().find(|n| n.linked && n.name == c_bytes(name));
        match known {
            Some(_) if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 => {
                sys::set_errno(libc::EEXIST);
                core::ptr::null_mut()
            }
            Some(known) => {
                known.opened += 1;
                known.place
            }
            None if flags & libc::O_CREAT != 0 && count > i32::MAX as u32 => {
                sys::set_errno(libc::EINVAL);
                core::ptr::null_mut()
            }
            None if flags & libc::O_CREAT != 0 => {
                // A fresh one that belongs to this run: one left in the system by another run would make this
                // run differ. It is the program's, so it is on the program's heap.
                let place: *mut Semaphore = libc::calloc(1, size_of::<libc::sem_t>()).cast();
                *place = count;
                runtime.turn(Op::SemInit, place as usize, pc);
                named_semaphores().push(NamedSemaphore { name: c_bytes(name).to_vec(), place, opened: 1, linked: true });
                runtime.log(Op::SemInit, Flags::NONE, pc, place as usize, count.into());
                place
            }
            None => {
                sys::set_errno(libc::ENOENT);
                core::ptr::null_mut()
            }
        }
    }

    fn sem_close(semaphore: *mut Semaphore) -> i32, |runtime, pc| {
        match named_semaphores().iter_mut().find(|n| n.place == semaphore && n.opened > 0) {
            Some(known) => {
                known.opened -= 1;
                0
            }
            // Opened before control began.
            None => real::sem_close(semaphore),
        }
    }

    fn sem_unlink(name: *const c_char) -> i32, |runtime, pc| {
        match named_semaphores().iter_mut().find(|n| n.linked && n.name == c_bytes(name)) {
            Some(known) => {
                known.linked = false;
                0
            }
            None => real::sem_unlink(name),
        }
    }
}

/// A named semaphore of this run. Its memory is never freed, because handles may outlive the name.
struct NamedSemaphore {
    name: Vec<u8>,
    place: *mut Semaphore,
    opened: u32,
    linked: bool,
}

struct NamedSemaphores(UnsafeCell<Vec<NamedSemaphore>>);

// SAFETY: reached under control only, and so only by the carrier.
unsafe impl Sync for NamedSemaphores {}

fn named_semaphores() -> &'static mut Vec<NamedSemaphore> {
    static NAMES: NamedSemaphores = NamedSemaphores(UnsafeCell::new(Vec::new()));
    // SAFETY: as above; callers do not keep the reference.
    unsafe { &mut *NAMES.0.get() }
}
