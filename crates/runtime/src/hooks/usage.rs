//! Processor count and time: one processor, in virtual time. The kernel's values differ from run to run.

use super::ids;
use crate::{clock::timespec, sys};

/// The length of a tick of `times`, in nanoseconds.
const TICK: u64 = 10_000_000;

hooks! {
    fn sched_getcpu() -> i32, |runtime, pc| {
        0
    }

    fn getcpu(processor: *mut u32, node: *mut u32) -> i32, |runtime, pc| {
        for place in [processor, node] {
            if !place.is_null() {
                *place = 0;
            }
        }
        0
    }

    fn getrusage(who: i32, usage: *mut libc::rusage) -> i32, |runtime, pc| {
        if !matches!(who, libc::RUSAGE_SELF | libc::RUSAGE_THREAD | libc::RUSAGE_CHILDREN) {
            sys::set_errno(libc::EINVAL);
            return -1;
        }
        let mut answer: libc::rusage = core::mem::zeroed();
        if who != libc::RUSAGE_CHILDREN {
            let used = timespec(runtime.state.read_cpu_clock());
            answer.ru_utime = libc::timeval { tv_sec: used.tv_sec, tv_usec: used.tv_nsec / 1_000 };
        }
        *usage = answer;
        0
    }

    fn times(place: *mut libc::tms) -> i64, |runtime, pc| {
        let now = runtime.state.read_clock(libc::CLOCK_MONOTONIC).unwrap_or(0);
        if !place.is_null() {
            let used = (runtime.state.read_cpu_clock() / TICK) as i64;
            *place = libc::tms { tms_utime: used, tms_stime: 0, tms_cutime: 0, tms_cstime: 0 };
        }
        (now / TICK) as i64
    }

    fn pthread_getcpuclockid(thread: usize, clock: *mut i32) -> i32, |runtime, pc| {
        // The clock's id contains the kernel's thread id. All processor time is one clock here.
        *clock = if thread == sys::thread_pointer() {
            libc::CLOCK_THREAD_CPUTIME_ID
        } else if runtime.state.by_handle(thread).is_some() {
            libc::CLOCK_PROCESS_CPUTIME_ID
        } else {
            return libc::ESRCH;
        };
        0
    }

    fn clock_getcpuclockid(process: i32, clock: *mut i32) -> i32, |runtime, pc| {
        if process == 0 || ids::is_own(process) {
            *clock = libc::CLOCK_PROCESS_CPUTIME_ID;
            return 0;
        }
        real::clock_getcpuclockid(ids::to_real(process), clock)
    }
}
