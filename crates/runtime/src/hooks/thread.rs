//! Threads: create, join, detach, exit, names, ids.

use super::{cancel::exit_cancelled, wait_limit::WaitLimit};
use crate::{
    clock::NEVER,
    context::ThreadBackend,
    end,
    gate::Gate,
    log::c_bytes,
    stack,
    state::Runtime,
    sys,
    thread::{Pending, StartRoutine, Thread, ThreadRequest},
    turn::Turn,
};
use alloc::boxed::Box;
use core::ffi::{c_char, c_void};
use unsnarl_model::{Flags, Misuse, Op, ThreadIx};

type Attr = libc::pthread_attr_t;
type Time = libc::timespec;

/// Creates a thread; also used for C11.
pub(crate) fn create(runtime: &mut Runtime, request: &ThreadRequest, pc: u64) -> i32 {
    let made = match runtime.create_parked(request) {
        Err(libc::EAGAIN) => retry_create(runtime, request),
        made => made,
    };
    runtime.turn(Op::Create, 0, pc);
    match made {
        Ok(thread) => {
            let child = runtime.take_over(request, thread);
            runtime.log(Op::Create, Flags::NONE, pc, 0, child.0.into());
            if runtime.state.continuations {
                // The child may run before anything that this thread does next.
                runtime.state.after_creation = Some(runtime.state.current);
                runtime.turn(Op::Point, 0, pc);
                runtime.state.after_creation = None;
                runtime.log(Op::Point, Flags::NONE, pc, 0, 0);
            }
            0
        }
        Err(error) => {
            runtime.log(Op::Create, Flags::FAILED, pc, 0, error as u64);
            error
        }
    }
}

/// Handles a refused thread. A limit on processes is shared with unsnarl's own, which come and go: without them the program might
/// have got its thread, so the run is refused as long as the limit holds. Otherwise the thread is tried again; if the
/// kernel still refuses it, the cause is another one, such as memory, and the failure is the program's own.
#[cold]
fn retry_create(runtime: &mut Runtime, request: &ThreadRequest) -> Result<Box<Thread>, i32> {
    for _ in 0..ATTEMPTS {
        if !sys::can_fork() {
            end::refuse("the kernel refused a thread (is a limit on processes reached? see `ulimit -u`)");
        }
        match runtime.create_parked(request) {
            Err(libc::EAGAIN) => {}
            made => return made,
        }
    }
    Err(libc::EAGAIN)
}

/// Attempts to create a thread although the kernel refused one.
const ATTEMPTS: usize = 8;

/// Joins a thread; returns the error number, the thread's result and whether the caller was cancelled.
pub(super) fn join(
    runtime: &mut Runtime,
    handle: usize,
    wait_limit: WaitLimit,
    pc: u64,
) -> (i32, *mut c_void, bool) {
    let nothing = core::ptr::null_mut();
    let state = &mut runtime.state;
    let me = state.current;
    let target = state.by_handle(handle);
    let wrong = match target {
        None => Some(libc::ESRCH),
        Some(target) if target == me => Some(libc::EDEADLK),
        Some(target) if state.thread(target).detached || state.thread(target).joined => Some(libc::EINVAL),
        Some(_) => None,
    };
    let (Some(target), None) = (target, wrong) else {
        state.warn(Misuse::BadJoin, pc, handle, "");
        runtime.turn(Op::Join, 0, pc);
        runtime.log(Op::Join, Flags::FAILED, pc, 0, target.map_or(u64::MAX, |t| t.0.into()));
        return (wrong.unwrap_or(libc::ESRCH), nothing, false);
    };
    match wait_limit {
        WaitLimit::None => {
            runtime.try_turn(Op::Join, 0, pc);
            if !runtime.state.thread(target).ended {
                runtime.log(Op::Join, Flags::FAILED, pc, 0, target.0.into());
                return (libc::EBUSY, nothing, false);
            }
        }
        WaitLimit::Until(deadline) => {
            state.thread(target).joined = true;
            let gate = Gate::Join(target);
            let turn =
                runtime.wait_turn(Pending { op: Op::Join, pc, addr: 0, gate, deadline, cancellable: true });
            if turn != Turn::Go {
                runtime.state.thread(target).joined = false;
                runtime.log(Op::Join, turn.flags(), pc, 0, target.0.into());
                return (libc::ETIMEDOUT, nothing, turn == Turn::Cancelled);
            }
        }
    }
    runtime.state.thread(target).joined = true;
    runtime.state.log.thread_joined_or_detached(target);
    let result = runtime.state.thread(target).result;
    runtime.log(Op::Join, Flags::NONE, pc, 0, target.0.into());
    if target != ThreadIx::MAIN {
        runtime.forget(target);
    }
    (0, result, false)
}

/// Detaches a thread; also used for C11.
pub(crate) fn detach(runtime: &mut Runtime, handle: usize, pc: u64) -> i32 {
    runtime.turn(Op::Detach, 0, pc);
    let state = &mut runtime.state;
    let Some(target) = state.by_handle(handle) else {
        runtime.log(Op::Detach, Flags::FAILED, pc, 0, u64::MAX);
        return libc::ESRCH;
    };
    if state.thread(target).detached {
        runtime.log(Op::Detach, Flags::FAILED, pc, 0, target.0.into());
        return libc::EINVAL;
    }
    state.thread(target).detached = true;
    state.log.thread_joined_or_detached(target);
    let ended = state.thread(target).ended;
    runtime.log(Op::Detach, Flags::NONE, pc, 0, target.0.into());
    if ended && target != ThreadIx::MAIN {
        runtime.forget(target);
    }
    0
}

unsafe fn store_result(place: *mut *mut c_void, result: *mut c_void) {
    if !place.is_null() {
        // SAFETY: the program passed this address for the result.
        unsafe { *place = result };
    }
}

/// Jumps to the runtime's `pthread_create`. By its name the loader would find the program's definition, if
/// there is one.
#[unsafe(naked)]
pub(super) unsafe extern "C-unwind" fn start_thread(
    _: *mut usize,
    _: *const Attr,
    _: StartRoutine,
    _: *mut c_void,
) -> i32 {
    core::arch::naked_asm!("mov r8, [rsp]", "jmp {}", sym controlled::pthread_create)
}

/// Calls a C library function that asks the kernel about a thread by the id in its descriptor: all fibers are
/// the carrier.
fn ask_kernel(runtime: &mut Runtime, handle: usize, job: impl FnOnce() -> i32) -> i32 {
    if runtime.state.by_handle(handle).is_none() {
        return libc::ESRCH;
    }
    stack::run_without_residue(|| {
        if runtime.state.backend() == ThreadBackend::Kernel {
            return job();
        }
        let tid = runtime.state.log.glibc_tid(handle);
        // SAFETY: the descriptor is alive, because the thread was not joined.
        unsafe { *tid = sys::process() as u32 };
        let answer = job();
        runtime.state.log.set_glibc_tid(handle);
        answer
    })
}

hooks! {
    fn pthread_create(handle: *mut usize, attr: *const Attr, start: StartRoutine, arg: *mut c_void) -> i32, |runtime, pc| {
        create(runtime, &ThreadRequest { handle, attr, start, arg, returns_int: false }, pc)
    }

    fn pthread_join(handle: usize, result: *mut *mut c_void) -> i32, |runtime, pc| {
        let (error, value, cancelled) = join(runtime, handle, WaitLimit::FOREVER, pc);
        if cancelled { exit_cancelled() }
        if error == 0 { store_result(result, value) }
        error
    }

    fn pthread_tryjoin_np(handle: usize, result: *mut *mut c_void) -> i32, |runtime, pc| {
        // The thread itself is still running, and this does not wait for it.
        if handle == runtime.state.me().handle { return libc::EBUSY }
        let (error, value, _) = join(runtime, handle, WaitLimit::None, pc);
        if error == 0 { store_result(result, value) }
        error
    }

    fn pthread_timedjoin_np(handle: usize, result: *mut *mut c_void, at: *const Time) -> i32, |runtime, pc| {
        timed_join(runtime, handle, result, libc::CLOCK_REALTIME, at, pc)
    }

    fn pthread_clockjoin_np(handle: usize, result: *mut *mut c_void, clock: i32, at: *const Time) -> i32, |runtime, pc| {
        timed_join(runtime, handle, result, clock, at, pc)
    }

    fn pthread_detach(handle: usize) -> i32, |runtime, pc| {
        detach(runtime, handle, pc)
    }

    fn pthread_exit(result: *mut c_void) -> !, |runtime, pc| {
        let me = runtime.state.me();
        me.result = result;
        me.cancel.exiting = true;
        real::pthread_exit(result)
    }

    fn pthread_setname_np(handle: usize, name: *const c_char) -> i32, |runtime, pc| {
        let name = c_bytes(name);
        let Some(thread) = runtime.state.by_handle(handle) else { return libc::ESRCH };
        if name.len() > 15 { return libc::ERANGE }
        runtime.state.log.thread_named(thread, name);
        0
    }

    fn pthread_getname_np(handle: usize, name: *mut c_char, size: usize) -> i32, |runtime, pc| {
        let Some(thread) = runtime.state.by_handle(handle) else { return libc::ESRCH };
        let known = &runtime.state.log.thread(thread).name;
        if known[0] == 0 {
            let main = runtime.state.threads[0].handle;
            return ask_kernel(runtime, main, || real::pthread_getname_np(main, name, size));
        }
        if size < known.len() { return libc::ERANGE }
        core::ptr::copy_nonoverlapping(known.as_ptr(), name.cast(), known.len());
        0
    }

    fn pthread_getattr_np(handle: usize, attr: *mut Attr) -> i32, |runtime, pc| {
        ask_kernel(runtime, handle, || real::pthread_getattr_np(handle, attr))
    }

    fn pthread_getaffinity_np(handle: usize, size: usize, set: *mut c_void) -> i32, |runtime, pc| {
        ask_kernel(runtime, handle, || real::pthread_getaffinity_np(handle, size, set))
    }

    fn pthread_getschedparam(handle: usize, policy: *mut i32, parameter: *mut c_void) -> i32, |runtime, pc| {
        ask_kernel(runtime, handle, || real::pthread_getschedparam(handle, policy, parameter))
    }

    fn pthread_setschedparam(handle: usize, policy: i32, parameter: *const c_void) -> i32, |runtime, pc| {
        ask_kernel(runtime, handle, || real::pthread_setschedparam(handle, policy, parameter))
    }

    fn pthread_setschedprio(handle: usize, priority: i32) -> i32, |runtime, pc| {
        ask_kernel(runtime, handle, || real::pthread_setschedprio(handle, priority))
    }

    fn gettid() -> i32, |runtime, pc| {
        runtime.state.me().tid as i32
    }

    fn sched_yield() -> i32, |runtime, pc| {
        yield_processor(runtime, pc)
    }

    fn pthread_yield() -> i32, |runtime, pc| {
        yield_processor(runtime, pc)
    }

    fn pthread_setaffinity_np(handle: usize, size: usize, set: *const c_void) -> i32, |runtime, pc| {
        // One kernel thread carries all fibers: the program cannot choose its processor.
        0
    }
}

/// Offers the processor to other threads; also used for C11.
pub(super) fn yield_processor(runtime: &mut Runtime, pc: u64) -> i32 {
    runtime.turn(Op::Yield, 0, pc);
    runtime.log(Op::Yield, Flags::NONE, pc, 0, 0);
    0
}

unsafe extern "C-unwind" fn timed_join(
    runtime: &'static mut Runtime,
    handle: usize,
    result: *mut *mut c_void,
    clock: i32,
    at: *const Time,
    pc: u64,
) -> i32 {
    // SAFETY: the program's time.
    let at = unsafe { at.as_ref() };
    let deadline = at.map_or(Some(NEVER), |at| runtime.state.clock.deadline(clock, at));
    // An invalid time matters only if the thread has to wait.
    let (error, value, cancelled) = join(runtime, handle, WaitLimit::Until(deadline.unwrap_or(0)), pc);
    if cancelled {
        exit_cancelled()
    }
    if error == libc::ETIMEDOUT && deadline.is_none() {
        return libc::EINVAL;
    }
    if error == 0 {
        // SAFETY: the program passed this address for the result.
        unsafe { store_result(result, value) }
    }
    error
}
