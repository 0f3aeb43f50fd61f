//! `poll`, `select`, `epoll_wait` and their variants. Their timeouts are in virtual time; the kernel is
//! polled without waiting.

use super::{
    io::{Answer, Cancelled, finish},
    wait_limit::WaitLimit,
};
use crate::{
    clock::duration,
    descriptors::{Descriptor, Peer},
    input::OutputBuffers,
    state::Runtime,
    sys,
    turn::Turn,
};
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use unsnarl_model::{Channel, ChannelKind, Flags, Op, Order};

type Fd = libc::pollfd;
type FdSet = libc::fd_set;
type Time = libc::timespec;
type Mask = libc::sigset_t;
type EpollEvent = libc::epoll_event;

/// Waits for the descriptors in the thread's list, then polls the kernel.
unsafe fn wait(
    runtime: &mut Runtime,
    first: i32,
    on: Descriptor,
    wait_limit: WaitLimit,
    pc: u64,
    places: &OutputBuffers<'_>,
    query: impl FnOnce() -> isize,
) -> Answer {
    let addr = on.channel.as_addr();
    let turn = match wait_limit {
        WaitLimit::None => {
            runtime.try_turn(Op::FdWait, addr as usize, pc);
            Turn::Go
        }
        WaitLimit::Until(deadline) => runtime.await_listed(Op::FdWait, on, pc, deadline),
    };
    let requested = places.counted.len() + places.whole.iter().map(|(_, len)| len).sum::<usize>();
    let result = if turn == Turn::Cancelled {
        0
    } else if turn == Turn::Interrupted {
        -libc::EINTR as isize
    } else {
        // SAFETY: the caller's contract.
        unsafe { runtime.answer((Op::FdWait, on, turn), requested, places, query) }
    };
    let failed = if result < 0 { Flags::FAILED } else { Flags::NONE };
    let access = (addr as usize, u64::from(first as u32), Order::Relaxed);
    runtime.log_access(Op::FdWait, turn.flags() | failed, pc, access, result.unsigned_abs() as u64);
    if turn == Turn::Cancelled { Err(Cancelled) } else { Ok(result) }
}

/// Returns the descriptor under which a wait is logged: the only one in the list, or a stand-in for several.
fn describe_set(runtime: &mut Runtime, fds: &[UnsafeCell<Fd>]) -> (i32, Descriptor) {
    // SAFETY: only the kernel writes there, and not now.
    let mut real = fds.iter().map(|fd| unsafe { *fd.get() }.fd).filter(|&fd| fd >= 0);
    let (first, second) = (real.next(), real.next());
    let known = first.filter(|_| second.is_none()).and_then(|fd| runtime.state.descriptors.lookup(fd));
    let several = Channel { kind: ChannelKind::Several, number: 0 };
    // SAFETY: as above.
    let all = fds.iter().map(|fd| unsafe { *fd.get() }.fd).filter(|&fd| fd >= 0);
    let outside = all.filter_map(|fd| runtime.state.descriptors.lookup(fd)).any(|on| on.peer != Peer::Own);
    let peer = if outside { Peer::Environment } else { Peer::Own };
    (first.unwrap_or(0), known.unwrap_or(Descriptor::new(several, peer)))
}

/// `poll` as the system call.
unsafe fn poll_all(
    runtime: &mut Runtime,
    fds: *mut Fd,
    count: usize,
    wait_limit: WaitLimit,
    pc: u64,
) -> Answer {
    let mut listed = core::mem::take(&mut runtime.state.me().awaited);
    listed.clear();
    // SAFETY: the program's list.
    listed.extend((0..count).map(|at| UnsafeCell::new(unsafe { *fds.add(at) })));
    let (first, on) = describe_set(runtime, &listed);
    runtime.state.me().awaited = listed;
    let whole = [(fds as usize, count * size_of::<Fd>())];
    let places = OutputBuffers { whole: &whole, ..OutputBuffers::NONE };
    // SAFETY: the program's list.
    let query = || unsafe { sys::call(libc::SYS_poll, [fds as usize, count, 0, 0, 0, 0]) };
    // SAFETY: as above.
    unsafe { wait(runtime, first, on, wait_limit, pc, &places, query) }
}

/// `select` as the system call.
unsafe fn select_all(
    runtime: &mut Runtime,
    count: i32,
    sets: [*mut FdSet; 3],
    wait_limit: WaitLimit,
    pc: u64,
) -> Answer {
    const EVENTS: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
    let mut listed: Vec<UnsafeCell<Fd>> = core::mem::take(&mut runtime.state.me().awaited);
    listed.clear();
    for fd in 0..count.clamp(0, libc::FD_SETSIZE as i32) {
        let requested = sets.iter().zip(EVENTS).filter(|(set, _)| {
            // SAFETY: the program's sets.
            !set.is_null() && unsafe { libc::FD_ISSET(fd, **set) }
        });
        let events = requested.fold(0, |all, (_, events)| all | events);
        if events != 0 {
            listed.push(UnsafeCell::new(Fd { fd, events, revents: 0 }));
        }
    }
    let (first, on) = describe_set(runtime, &listed);
    runtime.state.me().awaited = listed;
    let [read, write, except] = sets.map(|set| set as usize);
    let query = || {
        let now = libc::timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: the program's sets.
        unsafe {
            sys::call(libc::SYS_select, [count as usize, read, write, except, &raw const now as usize, 0])
        }
    };
    let bytes = (count.max(0) as usize).div_ceil(64) * 8;
    let whole = [(read, bytes), (write, bytes), (except, bytes)];
    let places = OutputBuffers { whole: &whole, ..OutputBuffers::NONE };
    // SAFETY: as above.
    unsafe { wait(runtime, first, on, wait_limit, pc, &places, query) }
}

/// `epoll_wait` as the system call.
unsafe fn wait_for_set(
    runtime: &mut Runtime,
    set: i32,
    events: *mut EpollEvent,
    most: i32,
    wait_limit: WaitLimit,
    pc: u64,
) -> Answer {
    let awaited = &mut runtime.state.me().awaited;
    awaited.clear();
    awaited.push(UnsafeCell::new(Fd { fd: set, events: libc::POLLIN, revents: 0 }));
    let other = Channel { kind: ChannelKind::Set, number: 0 };
    let on = runtime.state.descriptors.lookup(set).unwrap_or(Descriptor::new(other, Peer::Own));
    // SAFETY: the program's buffer for events.
    let query = || unsafe {
        sys::call(libc::SYS_epoll_wait, [set as usize, events as usize, most as usize, 0, 0, 0])
    };
    let room =
        [libc::iovec { iov_base: events.cast(), iov_len: most.max(0) as usize * size_of::<EpollEvent>() }];
    let places = OutputBuffers { counted: &room, unit: size_of::<EpollEvent>(), whole: &[] };
    // SAFETY: as above.
    unsafe { wait(runtime, set, on, wait_limit, pc, &places, query) }
}

hooks! {
    fn poll(fds: *mut Fd, count: u64, millis: i32) -> i32, |runtime, pc| {
        let wait_limit = WaitLimit::of_millis(runtime, millis);
        finish(poll_all(runtime, fds, count as usize, wait_limit, pc)) as i32
    }

    fn __poll_chk(fds: *mut Fd, count: u64, millis: i32, room: usize) -> i32, |runtime, pc| {
        if room / size_of::<Fd>() < count as usize { return real::__poll_chk(fds, count, millis, room) }
        let wait_limit = WaitLimit::of_millis(runtime, millis);
        finish(poll_all(runtime, fds, count as usize, wait_limit, pc)) as i32
    }

    fn ppoll(fds: *mut Fd, count: u64, time: *const Time, mask: *const Mask) -> i32, |runtime, pc| {
        let answer = match WaitLimit::of_time(runtime, time) {
            Ok(wait_limit) => with_mask(runtime, mask, |runtime| poll_all(runtime, fds, count as usize, wait_limit, pc)),
            Err(error) => Ok(error),
        };
        finish(answer) as i32
    }

    fn select(count: i32, read: *mut FdSet, write: *mut FdSet, except: *mut FdSet, time: *mut libc::timeval) -> i32, |runtime, pc| {
        let given = time.as_ref().map(|time| libc::timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_usec * 1_000 });
        let before = runtime.state.clock.now();
        let answer = match WaitLimit::of_time(runtime, given.as_ref().map_or(core::ptr::null(), |time| time)) {
            Ok(wait_limit) => select_all(runtime, count, [read, write, except], wait_limit, pc),
            Err(error) => Ok(error),
        };
        if let (Some(time), Some(given)) = (time.as_mut(), given) {
            // The remaining time, as Linux reports it.
            let span = duration(&given).unwrap_or(0);
            let left = crate::clock::timespec(span.saturating_sub(runtime.state.clock.now() - before));
            *time = libc::timeval { tv_sec: left.tv_sec, tv_usec: left.tv_nsec / 1_000 };
        }
        finish(answer) as i32
    }

    fn epoll_wait(set: i32, events: *mut EpollEvent, most: i32, millis: i32) -> i32, |runtime, pc| {
        let wait_limit = WaitLimit::of_millis(runtime, millis);
        finish(wait_for_set(runtime, set, events, most, wait_limit, pc)) as i32
    }

    fn epoll_pwait(set: i32, events: *mut EpollEvent, most: i32, millis: i32, mask: *const Mask) -> i32, |runtime, pc| {
        let wait_limit = WaitLimit::of_millis(runtime, millis);
        finish(with_mask(runtime, mask, |runtime| wait_for_set(runtime, set, events, most, wait_limit, pc))) as i32
    }

    fn epoll_pwait2(set: i32, events: *mut EpollEvent, most: i32, time: *const Time, mask: *const Mask) -> i32, |runtime, pc| {
        let answer = match WaitLimit::of_time(runtime, time) {
            Ok(wait_limit) => with_mask(runtime, mask, |runtime| wait_for_set(runtime, set, events, most, wait_limit, pc)),
            Err(error) => Ok(error),
        };
        finish(answer) as i32
    }
}

mod next {
    use super::*;
    crate::real::real! {
        fn pselect(count: i32, read: *mut FdSet, write: *mut FdSet, except: *mut FdSet, time: *const Time, mask: *const Mask) -> i32;
    }
}

six_arguments!(pselect, select_by_time);

#[allow(clippy::too_many_arguments, reason = "the signature of the C function")]
unsafe extern "C-unwind" fn select_by_time(
    count: i32,
    read: *mut FdSet,
    write: *mut FdSet,
    except: *mut FdSet,
    time: *const Time,
    mask: *const Mask,
    pc: u64,
) -> i32 {
    // SAFETY: the program keeps the contract of the function that it called.
    unsafe {
        let Some(runtime) = Runtime::enter() else {
            return next::pselect(count, read, write, except, time, mask);
        };
        let sets = [read, write, except];
        let answer = match WaitLimit::of_time(runtime, time) {
            Ok(wait_limit) => {
                with_mask(runtime, mask, |runtime| select_all(runtime, count, sets, wait_limit, pc))
            }
            Err(error) => Ok(error),
        };
        finish(answer) as i32
    }
}

/// Runs a job under another signal mask.
unsafe fn with_mask(
    runtime: &mut Runtime,
    mask: *const Mask,
    job: impl FnOnce(&mut Runtime) -> Answer,
) -> Answer {
    if mask.is_null() {
        return job(runtime);
    }
    let before = runtime.state.mask();
    // SAFETY: the program's mask; the kernel's mask is one word.
    let during = unsafe { *mask.cast::<u64>() };
    runtime.state.set_mask(during);
    // The wait ends at once if a pending signal is unblocked.
    runtime.state.me().must_check_signals = true;
    let answer = job(runtime);
    runtime.state.set_mask(before);
    answer
}
