//! C11 threads. glibc implements them over its internal functions and bypasses the hooks, so each function is
//! forwarded to its pthread equivalent here.

use super::{
    cancel::exit_cancelled,
    cond::controlled as cond,
    key::{self, Destructor},
    mutex::controlled as mutex,
    once,
    thread::{create, detach, join, yield_processor},
    wait_limit::WaitLimit,
};
use crate::thread::{StartRoutine, ThreadRequest};
use core::ffi::c_void;

const SUCCESS: i32 = 0;
const BUSY: i32 = 1;
const ERROR: i32 = 2;
const NO_MEMORY: i32 = 3;
const TIMED_OUT: i32 = 4;

const fn c11_result(error: i32) -> i32 {
    match error {
        0 => SUCCESS,
        libc::EBUSY => BUSY,
        libc::ENOMEM | libc::EAGAIN => NO_MEMORY,
        libc::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

type Mutex = super::mutex::Mutex;
type Cond = super::cond::Cond;
type Time = libc::timespec;
type Routine = unsafe extern "C-unwind" fn();

hooks! {
    fn thrd_create(handle: *mut usize, start: StartRoutine, arg: *mut c_void) -> i32, |runtime, pc| {
        let attr = core::ptr::null();
        c11_result(create(runtime, &ThreadRequest { handle, attr, start, arg, returns_int: true }, pc))
    }

    fn thrd_join(handle: usize, result: *mut i32) -> i32, |runtime, pc| {
        let (error, value, cancelled) = join(runtime, handle, WaitLimit::FOREVER, pc);
        if cancelled { exit_cancelled() }
        if error == 0 && !result.is_null() { *result = value as usize as i32 }
        c11_result(error)
    }

    fn thrd_detach(handle: usize) -> i32, |runtime, pc| {
        c11_result(detach(runtime, handle, pc))
    }

    fn thrd_exit(result: i32) -> !, |runtime, pc| {
        let me = runtime.state.me();
        me.result = result as isize as *mut c_void;
        me.cancel.exiting = true;
        real::thrd_exit(result)
    }

    fn thrd_yield() -> (), |runtime, pc| {
        yield_processor(runtime, pc);
    }

    fn mtx_init(mutex: *mut Mutex, kind: i32) -> i32, |runtime, pc| {
        real::mtx_init(mutex, kind)
    }

    fn mtx_destroy(mutex: *mut Mutex) -> (), |runtime, pc| {
        mutex::pthread_mutex_destroy(mutex, pc);
    }

    fn mtx_lock(mutex: *mut Mutex) -> i32, |runtime, pc| {
        c11_result(mutex::pthread_mutex_lock(mutex, pc))
    }

    fn mtx_trylock(mutex: *mut Mutex) -> i32, |runtime, pc| {
        c11_result(mutex::pthread_mutex_trylock(mutex, pc))
    }

    fn mtx_timedlock(mutex: *mut Mutex, at: *const Time) -> i32, |runtime, pc| {
        c11_result(mutex::pthread_mutex_timedlock(mutex, at, pc))
    }

    fn mtx_unlock(mutex: *mut Mutex) -> i32, |runtime, pc| {
        c11_result(mutex::pthread_mutex_unlock(mutex, pc))
    }

    fn cnd_init(cond: *mut Cond) -> i32, |runtime, pc| {
        real::cnd_init(cond)
    }

    fn cnd_destroy(cond: *mut Cond) -> (), |runtime, pc| {
        cond::pthread_cond_destroy(cond, pc);
    }

    fn cnd_wait(cond: *mut Cond, mutex: *mut Mutex) -> i32, |runtime, pc| {
        c11_result(cond::pthread_cond_wait(cond, mutex, pc))
    }

    fn cnd_timedwait(cond: *mut Cond, mutex: *mut Mutex, at: *const Time) -> i32, |runtime, pc| {
        c11_result(cond::pthread_cond_timedwait(cond, mutex, at, pc))
    }

    fn cnd_signal(cond: *mut Cond) -> i32, |runtime, pc| {
        c11_result(cond::pthread_cond_signal(cond, pc))
    }

    fn cnd_broadcast(cond: *mut Cond) -> i32, |runtime, pc| {
        c11_result(cond::pthread_cond_broadcast(cond, pc))
    }

    fn tss_create(key: *mut u32, destructor: Option<Destructor>) -> i32, |runtime, pc| {
        c11_result(key::create(runtime, key, destructor))
    }

    fn tss_delete(key: u32) -> (), |runtime, pc| {
        key::delete(runtime, key);
    }

    fn call_once(control: *mut i32, routine: Routine) -> (), |runtime, pc| {
        once::once(runtime, control, routine, pc);
    }
}
