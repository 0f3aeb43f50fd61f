//! `alarm`, `setitimer`, POSIX timers and `timerfd`, in virtual time; see [`crate::timers`].

use super::io::finish;
use crate::{
    clock::{duration, timespec, waits_by},
    signals::Info,
    state::Runtime,
    sys,
    thread::StartRoutine,
    timers::{REAL, Timer, TimerAction},
};
use core::ffi::c_void;
use unsnarl_model::{Flags, Misuse, Op};

type Times = libc::itimerspec;
type Micros = libc::itimerval;

const SI_TIMER: i32 = -2;

/// The layout of `struct sigevent`.
#[repr(C)]
pub(super) struct SigEvent {
    value: u64,
    signal: i32,
    kind: i32,
    /// The function, or the thread's id in the lower half.
    function: usize,
    attributes: usize,
}

fn fail(error: i32) -> i32 {
    sys::set_errno(error);
    -1
}

/// Returns the time until a timer fires, and its interval.
fn remaining(runtime: &Runtime, timer: &Timer) -> Times {
    let now = runtime.state.clock.now();
    let left = if timer.at == u64::MAX { 0 } else { timer.at.saturating_sub(now).max(1) };
    Times { it_interval: timespec(timer.again), it_value: timespec(left) }
}

/// Sets a timer, as `timer_settime` and `timerfd_settime` do.
unsafe fn set_times(
    runtime: &mut Runtime,
    id: u64,
    flags: i32,
    new: *const Times,
    old: *mut Times,
    pc: u64,
) -> i32 {
    // SAFETY: the program's times.
    let (value, again) = unsafe { (duration(&(*new).it_value), duration(&(*new).it_interval)) };
    let (Some(value), Some(again)) = (value, again) else { return fail(libc::EINVAL) };
    let Some(&mut Timer { clock, on_expiry, .. }) = runtime.state.timers.get(id) else {
        return fail(libc::EINVAL);
    };
    // The kernel keeps the interval of a timer that is stopped only for descriptors.
    let again = if value == 0 && !matches!(on_expiry, TimerAction::Count { .. }) { 0 } else { again };
    let clocks = &runtime.state.clock;
    let at = match value {
        0 => u64::MAX,
        value if flags & libc::TIMER_ABSTIME != 0 => clocks.moment(clock, value).max(clocks.now()),
        value => clocks.after(value),
    };
    let Some(before) = runtime.set_timer(id, at, again, pc) else { return fail(libc::EINVAL) };
    if !old.is_null() {
        let left = remaining(runtime, &before);
        // SAFETY: the program passed this address for the result.
        unsafe { *old = left };
    }
    0
}

fn micros(time: &libc::timespec) -> libc::timeval {
    libc::timeval { tv_sec: time.tv_sec, tv_usec: time.tv_nsec / 1_000 }
}

fn nanos(time: &libc::timeval) -> libc::timespec {
    libc::timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_usec.saturating_mul(1_000) }
}

/// Sets the process's real-time timer; returns its previous setting.
unsafe fn set_real(
    runtime: &mut Runtime,
    value: libc::timespec,
    again: libc::timespec,
    pc: u64,
) -> Option<Times> {
    let new = Times { it_interval: again, it_value: value };
    let mut old = Times { it_interval: timespec(0), it_value: timespec(0) };
    // SAFETY: local times.
    (unsafe { set_times(runtime, REAL, 0, &raw const new, &raw mut old, pc) } == 0).then_some(old)
}

/// Returns the time in seconds, rounded to the nearest, but at least 1 if it is not zero.
fn seconds(left: &libc::timespec) -> u32 {
    let rounded = left.tv_sec as u32 + u32::from(left.tv_nsec >= 500_000_000);
    if left.tv_sec == 0 && left.tv_nsec == 0 { 0 } else { rounded.max(1) }
}

/// Returns the action of a POSIX timer when it expires.
unsafe fn on_expiry(runtime: &Runtime, event: *const SigEvent, pc: u64) -> Result<(TimerAction, bool), i32> {
    // SAFETY: the program's event description, or null.
    let Some(event) = (unsafe { event.as_ref() }) else {
        let info = Info::of(libc::SIGALRM, SI_TIMER, [0, 0], 0);
        return Ok((TimerAction::Signal { signal: libc::SIGALRM, to: None, info }, true));
    };
    let info = Info::of(event.signal, SI_TIMER, [0, 0], event.value);
    let signal = |to| Ok((TimerAction::Signal { signal: event.signal, to, info }, false));
    match event.kind {
        libc::SIGEV_NONE => Ok((TimerAction::None, false)),
        libc::SIGEV_SIGNAL | libc::SIGEV_THREAD_ID if !(1..=64).contains(&event.signal) => Err(libc::EINVAL),
        libc::SIGEV_SIGNAL => signal(None),
        libc::SIGEV_THREAD_ID => match runtime.state.by_tid(event.function as u32) {
            Some(thread) => signal(Some(thread)),
            None => Err(libc::EINVAL),
        },
        libc::SIGEV_THREAD => {
            if event.attributes != 0 {
                runtime.state.warn(Misuse::NotModelled, pc, 0, "attributes of a timer's threads");
            }
            // SAFETY: a function of one word-sized argument, whose result is ignored.
            let function = unsafe { core::mem::transmute::<usize, StartRoutine>(event.function) };
            Ok((TimerAction::Thread { function, value: event.value as *mut c_void }, false))
        }
        _ => Err(libc::EINVAL),
    }
}

impl Runtime {
    /// Sets a timer that the kernel serves. What the thread did before is ordered before the handler.
    fn set_timer_of_kernel(&mut self, is_armed: bool, pc: u64, set: impl FnOnce() -> i32) -> i32 {
        self.turn(Op::TimerSet, 0, pc);
        let result = set();
        let flags = if result == 0 { Flags::NONE } else { Flags::FAILED };
        let at = if is_armed { self.state.clock.now() } else { 0 };
        self.log(Op::TimerSet, flags, pc, 0, at);
        result
    }
}

/// Returns whether timers can use this clock.
const fn can_time(clock: i32) -> bool {
    waits_by(clock) || matches!(clock, libc::CLOCK_BOOTTIME | libc::CLOCK_TAI)
}

/// The ids of the program's timers differ from all pointers of the C library.
const FIRST_ID: u64 = 0x7472_0000;

hooks! {
    fn alarm(value: u32) -> u32, |runtime, pc| {
        let value = libc::timespec { tv_sec: value.into(), tv_nsec: 0 };
        let old = set_real(runtime, value, timespec(0), pc);
        old.map_or(0, |old| seconds(&old.it_value))
    }

    fn ualarm(value: u32, again: u32) -> u32, |runtime, pc| {
        let old = set_real(runtime, timespec(u64::from(value) * 1_000), timespec(u64::from(again) * 1_000), pc);
        old.map_or(0, |old| old.it_value.tv_sec as u32 * 1_000_000 + (old.it_value.tv_nsec / 1_000) as u32)
    }

    fn setitimer(which: i32, new: *const Micros, old: *mut Micros) -> i32, |runtime, pc| {
        if which != libc::ITIMER_REAL {
            runtime.state.warn(Misuse::NotModelled, pc, 0, "a timer on a processor-time clock");
            let is_armed = new.as_ref().is_some_and(|new| duration(&nanos(&new.it_value)) != Some(0));
            return runtime.set_timer_of_kernel(is_armed, pc, || real::setitimer(which, new, old));
        }
        let (value, again) = if new.is_null() {
            (timespec(0), timespec(0))
        } else {
            (nanos(&(*new).it_value), nanos(&(*new).it_interval))
        };
        let Some(before) = set_real(runtime, value, again, pc) else { return -1 };
        if !old.is_null() {
            *old = Micros { it_interval: micros(&before.it_interval), it_value: micros(&before.it_value) };
        }
        0
    }

    fn getitimer(which: i32, place: *mut Micros) -> i32, |runtime, pc| {
        if which != libc::ITIMER_REAL { return real::getitimer(which, place) }
        let timer = runtime.state.timers.get(REAL).copied();
        let times = timer.map(|timer| remaining(runtime, &timer));
        if let Some(times) = times {
            *place = Micros { it_interval: micros(&times.it_interval), it_value: micros(&times.it_value) };
        }
        0
    }

    fn timer_create(clock: i32, event: *const SigEvent, place: *mut u64) -> i32, |runtime, pc| {
        if !can_time(clock) {
            runtime.state.warn(Misuse::NotModelled, pc, 0, "a timer on a processor-time clock");
            return real::timer_create(clock, event, place);
        }
        match on_expiry(runtime, event, pc) {
            Ok((on_expiry, by_default)) => {
                let id = runtime.state.timers.add(clock, on_expiry);
                if by_default && let Some(timer) = runtime.state.timers.get(id) {
                    let info = Info::of(libc::SIGALRM, SI_TIMER, [0, 0], FIRST_ID + id);
                    timer.on_expiry = TimerAction::Signal { signal: libc::SIGALRM, to: None, info };
                }
                *place = FIRST_ID + id;
                0
            }
            Err(error) => fail(error),
        }
    }

    fn timer_settime(id: u64, flags: i32, new: *const Times, old: *mut Times) -> i32, |runtime, pc| {
        match id.checked_sub(FIRST_ID) {
            Some(own) if runtime.state.timers.get(own).is_some() => set_times(runtime, own, flags, new, old, pc),
            _ => {
                let is_armed = new.as_ref().is_some_and(|new| duration(&new.it_value) != Some(0));
                runtime.set_timer_of_kernel(is_armed, pc, || real::timer_settime(id, flags, new, old))
            }
        }
    }

    fn timer_gettime(id: u64, place: *mut Times) -> i32, |runtime, pc| {
        match id.checked_sub(FIRST_ID).and_then(|own| runtime.state.timers.get(own).copied()) {
            Some(timer) => {
                *place = remaining(runtime, &timer);
                0
            }
            None => real::timer_gettime(id, place),
        }
    }

    fn timer_getoverrun(id: u64) -> i32, |runtime, pc| {
        match id.checked_sub(FIRST_ID).and_then(|own| runtime.state.timers.get(own).copied()) {
            Some(timer) => timer.overrun as i32,
            None => real::timer_getoverrun(id),
        }
    }

    fn timer_delete(id: u64) -> i32, |runtime, pc| {
        match id.checked_sub(FIRST_ID) {
            Some(own) if runtime.state.timers.get(own).is_some() => {
                runtime.delete_timer(own, pc);
                0
            }
            _ => real::timer_delete(id),
        }
    }

    fn timerfd_create(clock: i32, flags: i32) -> i32, |runtime, pc| {
        if !can_time(clock) {
            runtime.state.warn(Misuse::NotModelled, pc, 0, "a timer on a clock that wakes the machine");
            return real::timerfd_create(clock, flags);
        }
        // A timer's descriptor is a counter that readers wait for. The runtime controls the time.
        let fd = crate::hooks::descriptor::make_counter(runtime, flags, pc);
        if fd >= 0 {
            runtime.state.timers.all.retain(|timer| !matches!(timer.on_expiry, TimerAction::Count { fd: old } if old == fd));
            runtime.state.timers.add(clock, TimerAction::Count { fd });
        }
        fd
    }

    fn timerfd_settime(fd: i32, flags: i32, new: *const Times, old: *mut Times) -> i32, |runtime, pc| {
        let Some(id) = by_descriptor(runtime, fd) else { return real::timerfd_settime(fd, flags, new, old) };
        let error = set_times(runtime, id, flags, new, old, pc);
        if error == 0 { discard_expirations(fd) }
        error
    }

    fn timerfd_gettime(fd: i32, place: *mut Times) -> i32, |runtime, pc| {
        let timer = by_descriptor(runtime, fd).and_then(|id| runtime.state.timers.get(id).copied());
        match timer {
            Some(timer) => {
                *place = remaining(runtime, &timer);
                0
            }
            None => real::timerfd_gettime(fd, place),
        }
    }

    fn signalfd(fd: i32, mask: *const libc::sigset_t, flags: i32) -> i32, |runtime, pc| {
        let set = *mask.cast::<u64>();
        let size = size_of::<u64>();
        let made = sys::call(libc::SYS_signalfd4, [fd as isize as usize, mask as usize, size, flags as usize, 0, 0]);
        if made >= 0 && fd < 0 {
            runtime.state.descriptors.add_signal_descriptor(made as i32);
        }
        if made >= 0 { runtime.state.listen_to(set) }
        finish(Ok(made)) as i32
    }
}

fn by_descriptor(runtime: &Runtime, fd: i32) -> Option<u64> {
    let timers = &runtime.state.timers.all;
    timers
        .iter()
        .find(|timer| matches!(timer.on_expiry, TimerAction::Count { fd: own } if own == fd))
        .map(|timer| timer.id)
}

/// Discards the expirations counted before.
fn discard_expirations(fd: i32) {
    let mut count = 0u64;
    let read = || {
        // SAFETY: there is room for a count.
        unsafe {
            sys::call(libc::SYS_read, [fd as usize, &raw mut count as usize, size_of::<u64>(), 0, 0, 0])
        }
    };
    crate::descriptors::without_blocking(fd, read);
}
