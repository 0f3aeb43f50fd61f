//! Cancellation. A request takes effect at the thread's next cancellation point. There the thread calls the
//! real `pthread_exit`, which runs the cleanup handlers. Asynchronous cancellation takes effect at the next
//! visible operation of any kind.

use crate::{real::real, state::Runtime};
use core::ffi::c_void;
use unsnarl_model::{Flags, Op};

mod next {
    use super::*;
    real! { fn pthread_exit(result: *mut c_void) -> !; }
}

const PTHREAD_CANCEL_ENABLE: i32 = 0;
const PTHREAD_CANCEL_DISABLE: i32 = 1;
const PTHREAD_CANCEL_DEFERRED: i32 = 0;
const PTHREAD_CANCEL_ASYNCHRONOUS: i32 = 1;

/// The result that joining a cancelled thread returns.
const CANCELED: *mut c_void = usize::MAX as *mut c_void;

/// Ends the running thread and unwinds its stack.
pub(crate) extern "C-unwind" fn exit_cancelled() -> ! {
    if let Some(runtime) = Runtime::enter() {
        let me = runtime.state.me();
        me.result = CANCELED;
        me.cancel.exiting = true;
    }
    // SAFETY: called from hooks, on the thread's stack.
    unsafe { next::pthread_exit(CANCELED) }
}

/// Acts on a due cancellation request, as a separate event.
pub(super) extern "C-unwind" fn act_on_request(runtime: &'static mut Runtime, pc: u64) {
    if runtime.state.me().cancel.is_due() {
        runtime.turn(Op::Cancelled, 0, pc);
        runtime.log(Op::Cancelled, Flags::CANCELLED, pc, 0, 0);
        exit_cancelled()
    }
}

hooks! {
    fn pthread_cancel(handle: usize) -> i32, |runtime, pc| {
        runtime.turn(Op::Cancel, 0, pc);
        let state = &mut runtime.state;
        let Some(target) = state.by_handle(handle) else {
            runtime.log(Op::Cancel, Flags::FAILED, pc, 0, u64::MAX);
            return libc::ESRCH;
        };
        state.thread(target).cancel.requested = true;
        if state.waiting.contains(target) {
            state.reclassify(target);
        }
        let is_own_request = target == state.current && state.me().cancel.asynchronous;
        runtime.log(Op::Cancel, Flags::NONE, pc, 0, target.0.into());
        if is_own_request { act_on_request(runtime, pc) }
        0
    }

    fn pthread_testcancel() -> (), |runtime, pc| {
        act_on_request(runtime, pc)
    }

    fn pthread_setcancelstate(state: i32, old: *mut i32) -> i32, |runtime, pc| {
        if state != PTHREAD_CANCEL_ENABLE && state != PTHREAD_CANCEL_DISABLE { return libc::EINVAL }
        let cancel = &mut runtime.state.me().cancel;
        if !old.is_null() { *old = i32::from(cancel.disabled) }
        cancel.disabled = state == PTHREAD_CANCEL_DISABLE;
        if cancel.asynchronous { act_on_request(runtime, pc) }
        0
    }

    fn pthread_setcanceltype(kind: i32, old: *mut i32) -> i32, |runtime, pc| {
        if kind != PTHREAD_CANCEL_DEFERRED && kind != PTHREAD_CANCEL_ASYNCHRONOUS { return libc::EINVAL }
        let cancel = &mut runtime.state.me().cancel;
        if !old.is_null() { *old = i32::from(cancel.asynchronous) }
        cancel.asynchronous = kind == PTHREAD_CANCEL_ASYNCHRONOUS;
        if cancel.asynchronous {
            runtime.state.me().must_check_signals = true;
            act_on_request(runtime, pc)
        }
        0
    }
}
