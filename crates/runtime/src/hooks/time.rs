//! Clocks and sleeps in virtual time. A sleeping thread can be chosen to wake at any schedule point; time
//! advances then.

use super::cancel::exit_cancelled;
use crate::{
    clock::{duration, timespec},
    gate::Gate,
    state::Runtime,
    sys,
    thread::Pending,
    turn::Turn,
};
use core::ffi::c_void;
use unsnarl_model::{Flags, Op};

type Time = libc::timespec;

const TIME_UTC: i32 = 1;

/// Sleeps until the deadline; returns the remaining time if a signal handler ended the sleep.
#[allow(improper_ctypes_definitions, reason = "called only from Rust; the ABI lets it unwind")]
extern "C-unwind" fn sleep_until(runtime: &mut Runtime, deadline: u64, pc: u64) -> Result<(), u64> {
    let turn = runtime.wait_turn(Pending {
        op: Op::Sleep,
        pc,
        addr: 0,
        gate: Gate::Sleep,
        deadline,
        cancellable: true,
    });
    let now = runtime.state.clock.now();
    if turn == Turn::Interrupted {
        runtime.log(Op::SigPause, Flags::NONE, pc, 0, now);
    } else {
        runtime.log(Op::Sleep, turn.flags(), pc, 0, now);
    }
    match turn {
        Turn::Cancelled => exit_cancelled(),
        Turn::Interrupted => Err(deadline.saturating_sub(now)),
        _ => Ok(()),
    }
}

unsafe fn store_remaining(left: u64, place: *mut Time) {
    if !place.is_null() {
        // SAFETY: the program passed this address for the result.
        unsafe { *place = timespec(left) };
    }
}

/// Sleeps like the system call; returns 0 or a negative error.
pub(super) unsafe extern "C-unwind" fn sleep_for(
    runtime: &'static mut Runtime,
    span: *const Time,
    left: *mut Time,
    pc: u64,
) -> i32 {
    // SAFETY: the program's time.
    let Some(span) = duration(unsafe { &*span }) else { return -libc::EINVAL };
    let deadline = runtime.state.clock.after(span);
    match sleep_until(runtime, deadline, pc) {
        Ok(()) => 0,
        Err(rest) => {
            // SAFETY: the program passed this address for the result.
            unsafe { store_remaining(rest, left) };
            -libc::EINTR
        }
    }
}

/// Sleeps by a clock; returns the error number.
pub(super) unsafe extern "C-unwind" fn sleep_by(
    runtime: &'static mut Runtime,
    clock: i32,
    flags: i32,
    time: *const Time,
    left: *mut Time,
    pc: u64,
) -> i32 {
    match clock {
        libc::CLOCK_REALTIME
        | libc::CLOCK_MONOTONIC
        | libc::CLOCK_BOOTTIME
        | libc::CLOCK_TAI
        | libc::CLOCK_PROCESS_CPUTIME_ID => {}
        libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_MONOTONIC_COARSE => {
            return libc::ENOTSUP;
        }
        _ => return libc::EINVAL,
    }
    // SAFETY: the program's time.
    let Some(span) = duration(unsafe { &*time }) else { return libc::EINVAL };
    let clocks = &runtime.state.clock;
    let deadline =
        if flags & libc::TIMER_ABSTIME == 0 { clocks.after(span) } else { clocks.moment(clock, span) };
    match sleep_until(runtime, deadline, pc) {
        Ok(()) => 0,
        Err(rest) => {
            if flags & libc::TIMER_ABSTIME == 0 {
                // SAFETY: the program passed this address for the result.
                unsafe { store_remaining(rest, left) };
            }
            libc::EINTR
        }
    }
}

hooks! {
    fn nanosleep(span: *const Time, left: *mut Time) -> i32, |runtime, pc| {
        let error = -sleep_for(runtime, span, left, pc);
        if error != 0 { sys::set_errno(error) }
        if error == 0 { 0 } else { -1 }
    }

    fn clock_nanosleep(clock: i32, flags: i32, time: *const Time, left: *mut Time) -> i32, |runtime, pc| {
        sleep_by(runtime, clock, flags, time, left, pc)
    }

    fn usleep(micros: u32) -> i32, |runtime, pc| {
        let deadline = runtime.state.clock.after(u64::from(micros) * 1_000);
        if sleep_until(runtime, deadline, pc).is_ok() { return 0 }
        sys::set_errno(libc::EINTR);
        -1
    }

    fn sleep(seconds: u32) -> u32, |runtime, pc| {
        let deadline = runtime.state.clock.after(u64::from(seconds) * 1_000_000_000);
        match sleep_until(runtime, deadline, pc) {
            Ok(()) => 0,
            Err(left) => left.div_ceil(1_000_000_000) as u32,
        }
    }

    fn thrd_sleep(span: *const Time, left: *mut Time) -> i32, |runtime, pc| {
        match sleep_for(runtime, span, left, pc) {
            0 => 0,
            error if error == -libc::EINTR => -1,
            _ => -2,
        }
    }

    fn clock_gettime(clock: i32, time: *mut Time) -> i32, |runtime, pc| {
        match runtime.state.read_clock(clock) {
            Some(now) => {
                *time = timespec(now);
                0
            }
            None => real::clock_gettime(clock, time),
        }
    }

    fn timespec_get(time: *mut Time, base: i32) -> i32, |runtime, pc| {
        if base != TIME_UTC { return real::timespec_get(time, base) }
        *time = timespec(runtime.state.read_wall_clock());
        base
    }

    fn gettimeofday(time: *mut libc::timeval, zone: *mut c_void) -> i32, |runtime, pc| {
        let now = timespec(runtime.state.read_wall_clock());
        if !time.is_null() {
            *time = libc::timeval { tv_sec: now.tv_sec, tv_usec: now.tv_nsec / 1_000 };
        }
        0
    }

    fn time(place: *mut i64) -> i64, |runtime, pc| {
        let now = timespec(runtime.state.read_wall_clock()).tv_sec;
        if !place.is_null() { *place = now }
        now
    }

    fn clock() -> i64, |runtime, pc| {
        (runtime.state.read_cpu_clock() / 1_000) as i64
    }
}
