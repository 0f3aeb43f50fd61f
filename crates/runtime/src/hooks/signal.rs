//! Signals: actions, masks, and the stack that handlers run on.

use crate::{handlers, sys, tracer};
use core::mem;
use unsnarl_model::Misuse;

type Action = libc::sigaction;
type Mask = libc::sigset_t;

hooks! {
    fn sigaction(signal: i32, new: *const Action, old: *mut Action) -> i32, |runtime, pc| {
        handlers::exchange(signal, new, old)
    }

    fn signal(signal: i32, handler: usize) -> usize, |runtime, pc| {
        let mut new: Action = mem::zeroed();
        let mut old: Action = mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_RESTART;
        libc::sigaddset(&raw mut new.sa_mask, signal);
        let error = handlers::exchange(signal, &raw const new, &raw mut old);
        if error == 0 { old.sa_sigaction } else { libc::SIG_ERR }
    }

    fn pthread_sigmask(how: i32, new: *const Mask, old: *mut Mask) -> i32, |runtime, pc| {
        runtime.state.masks_differ |= !new.is_null();
        let new = tracer::Mask::without_ours(new);
        real::pthread_sigmask(how, new.pointer(), old)
    }

    fn sigprocmask(how: i32, new: *const Mask, old: *mut Mask) -> i32, |runtime, pc| {
        runtime.state.masks_differ |= !new.is_null();
        let new = tracer::Mask::without_ours(new);
        real::sigprocmask(how, new.pointer(), old)
    }

    fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> i32, |runtime, pc| {
        // The kernel knows of one stack, the runtime's; handlers are moved to the thread's own.
        let mine = &mut runtime.state.me().alternate_stack;
        if !old.is_null() { *old = *mine }
        if !new.is_null() {
            let wanted = *new;
            if wanted.ss_flags & libc::SS_DISABLE == 0 && wanted.ss_size < libc::MINSIGSTKSZ {
                sys::set_errno(libc::ENOMEM);
                return -1;
            }
            *mine = wanted;
        }
        0
    }

    fn pthread_kill(handle: usize, signal: i32) -> i32, |runtime, pc| {
        let state = &mut runtime.state;
        let Some(target) = state.by_handle(handle) else { return libc::ESRCH };
        if signal == 0 { return 0 }
        if target != state.current {
            state.warn(Misuse::NotModelled, pc, handle, "pthread_kill of another thread");
        }
        let (process, thread) = (sys::process() as usize, sys::thread() as usize);
        -sys::call(libc::SYS_tgkill, [process, thread, signal as usize, 0, 0, 0]) as i32
    }
}
